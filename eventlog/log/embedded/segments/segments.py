"""The segments: look-ups in the folded part of a store.  `fold.py` writes it.

`FORMAT.md` describes the tables, chunks, blocks and slots. A flipped byte costs the block that it
lies in. Only derived values are deleted, so LMDB's list of free pages, which every commit writes,
stays short.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from eventlog.errors import DamagedError
from eventlog.log.embedded.generations import Generation
from eventlog.log.embedded.segments import layout
from eventlog.log.embedded.segments.blocks import Blocks
from eventlog.log.embedded.segments.chunk import decode_chunk
from eventlog.log.embedded.segments.environment import REMEDY, Environment
from eventlog.log.embedded.segments.layout import (
    FOLDED_KEY,
    MAX_KEY_BYTES,
    NUMBER,
    PAIR,
    TREES,
    UNPROTECTED,
    ChunkRow,
    FoldState,
    HeadRow,
)
from eventlog.log.embedded.segments.list_index import AFTER_LISTS, ListIndex
from eventlog.log.validation import RESERVED, is_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import lmdb

    from eventlog.log.append_checks import RequestResult
    from eventlog.log.commit import Commit, Head
    from eventlog.log.contract import BodyPlace
    from eventlog.log.embedded.generations import Hold
    from eventlog.log.lists import ListsOf

_HEADS_A_READ = 256
_LAST = (1 << 64) - 1


class Segments:
    """Look-ups in the folded part.  No transaction outlives a call."""

    def __init__(
        self, path: Path, *, read_only: bool, map_bytes: int, lists_of: ListsOf | None = None, hold: Hold | None = None
    ) -> None:
        self.generation: Generation = Generation() if hold is None else hold.generation
        """Generation of the files, which stay as long as this is held."""
        self.environment: Environment = Environment(path, TREES, read_only=read_only, map_bytes=map_bytes)
        self._trees = self.environment.trees
        self.lists: ListIndex = ListIndex(self._trees["derived"], self._trees["sessions"], lists_of)
        self._blocks = Blocks(self._trees["data"])
        self._hold = hold  # the last attribute, so that it ends behind the environment

    def close(self) -> None:
        """Release the environment, and the lock on its generation."""
        self.environment.close()
        self.release()

    def release(self) -> None:
        """Release the lock, which a child process has inherited."""
        if self._hold is not None:
            self._hold.close()

    @property
    def edition(self) -> bytes:
        """Name of the generation, in which each body has its place."""
        return self.generation.text.encode()

    def folded(self) -> FoldState:
        """Return how far the journal is folded."""
        with self.environment.reading() as txn:
            return self.folded_in(txn)

    def folded_in(self, txn: lmdb.Transaction[Any]) -> FoldState:
        """Return how far the journal is folded, inside a transaction."""
        value = self._get(txn, "meta", FOLDED_KEY)
        if value is None:
            raise DamagedError("the folded part does not say how far it goes")
        return layout.decode_folded(value)

    def row_in(self, txn: lmdb.Transaction[Any], session: str) -> HeadRow | None:
        """Return a session's row inside a transaction; None if the text cannot be an id."""
        if not is_id(session):
            return None
        value = self._get(txn, "sessions", layout.session_key(session), session=session)
        return None if value is None else layout.decode_head(value, session)

    def head(self, session: str) -> Head | None:
        """Return the session's head as of the last fold."""
        with self.environment.reading() as txn:
            row = self.row_in(txn, session)
        return None if row is None else row.head(session)

    def heads(self, after: str = "") -> Iterator[Head]:
        """Yield heads by session id, in batches of one transaction each.

        `DamagedError` if fewer are found than the tree counts, unless something was folded
        meanwhile.
        """
        key = layout.key_before(after)
        counted, read, begun = 0, 0, -1
        while True:
            batch: list[Head] = []
            with self.environment.reading() as txn, txn.cursor(self._trees["sessions"]) as cursor:
                if begun < 0:
                    begun, counted = txn.id(), txn.stat(self._trees["sessions"])["entries"]
                same = txn.id() == begun
                found = cursor.set_range(key)
                if found and bytes(cursor.key()) == key:
                    found = cursor.next()
                while found and len(batch) < _HEADS_A_READ:
                    key = bytes(cursor.key())
                    name = key.decode(errors="replace")
                    row = layout.decode_head(self._open(key, cursor.value(), "a row of sessions", name), name)
                    batch.append(row.head(key.decode()))
                    found = cursor.next()
            read += len(batch)
            if not found and not after and same and read != counted:
                raise DamagedError(f"the folded part has {counted} sessions, and {read} of them can be found; {REMEDY}")
            yield from batch
            if not found:
                return

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """Return the result of a request id, as of the last fold."""
        if not (is_id(session) and is_id(request)):
            return None
        with self.environment.reading() as txn:
            value = self._get(txn, "requests", layout.request_key(session, request), session=session)
            return None if value is None else layout.decode_request(value, session)

    def has_body(self, digest: bytes) -> bool:
        """Return whether a body is folded."""
        with self.environment.reading() as txn:
            return self._get(txn, "bodies", digest) is not None

    def missing_bodies(self, digests: Iterable[bytes]) -> list[bytes]:
        """Return the digests of the bodies that are not folded."""
        with self.environment.reading() as txn:
            return [digest for digest in digests if self._get(txn, "bodies", digest) is None]

    def body(self, digest: bytes) -> bytes | None:
        """Return the packed bytes of a body."""
        return self.bodies_of([digest])[0]

    def bodies_of(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """Return `body` of each digest, in order."""
        places = dict(zip(digests, self.places_of(digests), strict=True))
        bodies: dict[bytes, bytes | None] = {}
        with self.environment.reading() as txn:
            for digest, place in places.items():
                try:
                    bodies[digest] = None if place is None else self._blocks.piece(txn, place)
                except ValueError as error:
                    raise DamagedError(f"body {digest.hex()} is damaged") from error
        return [bodies[digest] for digest in digests]

    def places_of(self, digests: Sequence[bytes]) -> list[BodyPlace | None]:
        """Return the place of each body, in order, None for one that is not folded."""
        tree, unprotect, decode = self._trees["bodies"], layout.unprotect, layout.decode_location
        places: list[BodyPlace | None] = []
        with self.environment.reading() as txn:
            for digest in digests:  # a transcript has thousands: no call here that is not needed
                row = txn.get(digest, db=tree) if digest else None
                value = None if row is None else unprotect(digest, row)
                if row is not None and value is None:
                    raise DamagedError("a row of bodies is damaged")
                places.append(None if value is None else decode(value, digest))
        return places

    def bodies_at(self, places: Sequence[BodyPlace]) -> list[bytes] | None:
        """Return the packed bytes of bodies at their places; None if one is damaged."""
        bodies: list[bytes] = []
        key, plain = (-1, -1), b""
        with self.environment.reading() as txn, suppress(ValueError):
            for slot, offset, begin, size in places:  # a transcript has thousands: no call for each
                if key != (slot, offset):
                    key = slot, offset
                    plain = self._blocks.plain(txn, key)
                bodies.append(plain[begin : begin + size])
            return bodies
        return None

    def chunk(self, session: str, version: int, upto: int | None = None, *, whole: bool = True) -> list[Commit]:
        """Return the commits of the chunk that holds a version, or those from it on, up to `upto`.

        `DamagedError` if there is none.
        """
        with self.environment.reading() as txn:
            row = self.row_in(txn, session)
            if row is not None:
                with txn.cursor(self._trees["commits"]) as cursor:
                    key = PAIR.pack(row.number, version)
                    found = cursor.set_range(key)
                    if not found:
                        found = cursor.last()
                    elif bytes(cursor.key()) != key:
                        found = cursor.prev()
                    if found:
                        number, first = PAIR.unpack(cursor.key())
                        if number == row.number and first <= version:
                            chunk = self._chunk_row(bytes(cursor.key()), cursor.value(), session, first)
                            if version <= chunk.last:
                                return self._commits(
                                    txn, chunk, first, session, since=0 if whole else version, upto=upto
                                )
        raise DamagedError("a committed version is missing", session=session, version=version)

    def chunk_at(self, number: int, first: int) -> list[Commit]:
        """Return the commits of the chunk at this key, independent of other rows.

        `DamagedError` if the chunk is damaged.
        """
        with self.environment.reading() as txn:
            return self._commits(txn, self._row_of(txn, PAIR.pack(number, first), 0), first, None)

    def commits_after(self, after: int, limit: int = 1000) -> list[Commit]:
        """Return at most `limit` commits whose last position is greater than `after`, in order."""
        commits: list[Commit] = []
        chunks: dict[bytes, dict[int, Commit]] = {}
        with self.environment.reading() as txn, txn.cursor(self._trees["positions"]) as runs:
            key = NUMBER.pack(max(after, 0) + 1)
            more = runs.set_range(key)
            if not more:
                more = runs.last()
            elif bytes(runs.key()) != key and not runs.prev():
                more = runs.first()
            while more and len(commits) < limit:
                rows = layout.decode_positions(self._open(bytes(runs.key()), runs.value(), "the order of commits"))
                begin = max(bisect_right(rows, (after, _LAST, _LAST)) - 1, 0)
                rows = rows[begin : begin + limit - len(commits) + 1]
                self._load(txn, rows, chunks)
                for position, number, first in rows:
                    commit = chunks[PAIR.pack(number, first)].get(position)
                    if commit is None:
                        raise DamagedError("a committed position is missing", position=position)
                    if position + commit.count - 1 > after:
                        commits.append(commit)
                        if len(commits) >= limit:
                            break
                more = runs.next()
        return commits

    def derived(self, key: bytes) -> bytes | None:
        """Return a derived value; a damaged one counts as absent, since it is disposable."""
        if key.startswith(RESERVED):
            return None
        with self.environment.reading() as txn:
            try:
                value = self._get(txn, "derived", key)
                return None if value is None else layout.unpack_value(value)
            except DamagedError:
                return None

    def derived_keys(self, prefix: bytes) -> list[bytes]:
        """Return the keys of derived values that begin with `prefix`."""
        with self.environment.reading() as txn:
            return [key for key, _ in self._derived_rows(txn, prefix)]

    def scan_derived(self, prefix: bytes) -> dict[bytes, bytes]:
        """Return the derived values whose key begins with `prefix`."""
        values: dict[bytes, bytes] = {}
        with self.environment.reading() as txn:
            for key, value in self._derived_rows(txn, prefix):
                with suppress(DamagedError):
                    values[key] = layout.unpack_value(self._open(key, value, "a derived value"))
        return values

    def _derived_rows(self, txn: lmdb.Transaction[memoryview], prefix: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """Yield the stored rows of `derived` whose key begins with `prefix`, by key order.

        The index of lists is passed over.
        """
        if len(prefix) > MAX_KEY_BYTES:
            return
        with txn.cursor(self._trees["derived"]) as cursor:
            more = cursor.set_range(prefix) if prefix else cursor.first()
            while more and (key := bytes(cursor.key())).startswith(prefix):
                if key.startswith(RESERVED):
                    more = cursor.set_range(AFTER_LISTS)
                    continue
                yield key, cursor.value()
                more = cursor.next()

    def keys(self, tree: str) -> Iterator[bytes]:
        """Yield the keys of a tree, in batches of one transaction each."""
        key: bytes | None = None
        while True:
            batch: list[bytes] = []
            with self.environment.reading() as txn, txn.cursor(self._trees[tree]) as cursor:
                found = cursor.first() if key is None else cursor.set_range(key)
                if found and bytes(cursor.key()) == key:
                    found = cursor.next()
                while found and len(batch) < _HEADS_A_READ:
                    key = bytes(cursor.key())
                    batch.append(key)
                    found = cursor.next()
            yield from batch
            if not found:
                return

    def damaged_rows(self) -> list[str]:
        """Return a line for each tree with a row whose checksum is wrong.

        A row whose key is damaged would never be found.
        """
        with self.environment.reading() as txn:
            return [
                f"a row of {tree} or its key is not what was written"
                for tree in self._trees.keys() - UNPROTECTED
                if any(layout.unprotect(bytes(key), value) is None for key, value in txn.cursor(self._trees[tree]))
            ]

    def forget(self) -> None:
        """Drop caches, so that everything is read from the disk again."""
        self._blocks.forget()

    def _chunk_row(self, key: bytes, value: memoryview, session: str | None, first: int) -> ChunkRow:
        return layout.decode_chunk_row(self._open(key, value, "the place of a chunk", session, first), session, first)

    def _load(
        self,
        txn: lmdb.Transaction[memoryview],
        rows: Iterable[tuple[int, int, int]],
        chunks: dict[bytes, dict[int, Commit]],
    ) -> None:
        """Add the chunks that hold these commits, each with its commits by position.

        They are read block by block, independent of the order of `rows`.
        """
        wanted: dict[bytes, ChunkRow] = {}
        for position, number, first in rows:
            key = PAIR.pack(number, first)
            if key not in chunks and key not in wanted:
                wanted[key] = self._row_of(txn, key, position)
        for key, row in sorted(wanted.items(), key=lambda item: (item[1].where.slot, item[1].where.offset)):
            commits = self._commits(txn, row, PAIR.unpack(key)[1], None)
            chunks[key] = {commit.position: commit for commit in commits}

    def _row_of(self, txn: lmdb.Transaction[memoryview], row_key: bytes, position: int) -> ChunkRow:
        value = txn.get(row_key, db=self._trees["commits"])
        if value is None:
            raise DamagedError("a committed position is missing", position=position)
        return self._chunk_row(row_key, value, None, PAIR.unpack(row_key)[1])

    def _commits(
        self,
        txn: lmdb.Transaction[memoryview],
        chunk: ChunkRow,
        first: int,
        session: str | None,
        *,
        since: int = 0,
        upto: int | None = None,
    ) -> list[Commit]:
        try:
            plain = self._blocks.piece(txn, chunk.where)
        except ValueError as error:
            position = chunk.first_position
            raise DamagedError("a chunk is damaged", session=session, version=first, position=position) from error
        commits = decode_chunk(plain, session, first, since, upto)
        if session is not None and commits[0].session != session:
            raise DamagedError(f"a chunk belongs to session {commits[0].session}", session=session, version=first)
        return commits

    def _get(
        self, txn: lmdb.Transaction[Any], tree: str, key: bytes, *, session: str | None = None
    ) -> memoryview | None:
        if not 0 < len(key) <= MAX_KEY_BYTES:
            return None
        value = txn.get(key, db=self._trees[tree])
        return None if value is None else self._open(key, value, f"a row of {tree}", session)

    def _open(
        self,
        key: bytes,
        value: memoryview | bytes,
        what: str,
        session: str | None = None,
        version: int | None = None,
    ) -> memoryview:
        content = layout.unprotect(key, value)
        if content is None:
            raise DamagedError(f"{what} is damaged", session=session, version=version)
        return content
