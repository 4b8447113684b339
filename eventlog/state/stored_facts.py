"""Archived facts in stored rows: those of the session, and those it inherits.

A state rests on the archive of a session *as of* a version. The rows there may be newer: the
session goes on, and merges its runs. So a fork shares the archive of its parent, and a look-up
leaves out what is newer than the version.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec

from eventlog.history import checkpoint_store
from eventlog.history.derived import LostRowError, found
from eventlog.log.contract import Log
from eventlog.state.chunk import Row, hash_of, pack_rows, unpack_rows
from eventlog.state.run import BLOCK_MESSAGES, MAX_BLOCKS, Bucket, NewRun, Run, runs_to_merge

FACTS = "facts 1"
"""Kind of the rows of runs; the number is that of their format."""


class StoredArchive(msgspec.Struct, array_like=True):
    """Where the archive of one session lies, without what it inherits."""

    modulus: int
    """That of the ids' hashes."""
    runs: list[Run] = []
    """Oldest first."""
    pending: bytes = b""
    """The newest messages, fewer than a block, as a chunk; b"" if there are none."""


class Source(msgspec.Struct, array_like=True, frozen=True):
    """The archive of a session as of a version."""

    session: str
    upto: int


class StoredMessages(NamedTuple):
    """All messages of a session as one of its checkpoints has them."""

    archive: StoredArchive
    hot: list[Row]
    """Those that were not archived; another checkpoint may have archived them, or fewer."""
    inherited: list[Source]


class StoredRows:
    """Reads what was stored beside the checkpoints of command state, or makes it anew."""

    def __init__(
        self, log: Log, messages_of: Callable[[str, int], StoredMessages | None], replayed: Callable[[int], Any]
    ) -> None:
        self._log = log
        self.messages_of = messages_of
        """Returns a session's messages as of a version or later; None if it stored none."""
        self.replayed = replayed
        """Returns the state as of a version, from a replay of the events."""

    def get(self, session: str, kind: str, number: int) -> bytes | None:
        """Return a row of a session; None if it is missing or damaged."""
        return checkpoint_store.sound(self._log, kind, session, number)

    def numbers(self, session: str, kind: str) -> list[int]:
        """Return the numbers of a session's rows."""
        return checkpoint_store.versions(self._log, kind, session)


class _Stream:
    """The archive of one session, as it lies now."""

    def __init__(self, rows: StoredRows, session: str, archive: StoredArchive, hot: list[Row]) -> None:
        self._rows = rows
        self._session = session
        self.hot: list[Row] = hot
        """Rows beside the archive, newer than those there."""
        self._indexes: list[_Index] = []
        """The newest first."""
        self._block: tuple[int, list[Row]] = (-1, [])
        """The block read last: a reader of one old part often reads its neighbours."""
        self._pending: dict[str, Row] | None = None
        self._note(archive)

    def grow(self, archive: StoredArchive) -> None:
        """Go on with the archive that a checkpoint stored; what is read of indexes stays."""
        self.hot = []
        self._note(archive)

    def _note(self, archive: StoredArchive) -> None:
        known = {index.run: index for index in self._indexes}
        self.archive: StoredArchive = archive
        self._pending = None
        self._indexes = [known.get(run) or _Index(run) for run in reversed(archive.runs)]

    def find(self, key: str) -> Sequence[Row]:
        """Return the rows with the message or part of this id, the newest first."""
        if self._pending is None:
            self._pending = {name: row for row in self.loose() for name in (row[0], *row[1].parts)}
        row = self._pending.get(key)
        found = [] if row is None else [row]
        modulus = self.archive.modulus
        hashed = hash_of(key, modulus)
        for index in self._indexes:
            place = hashed * index.count // modulus
            bucket = index.buckets.get(place)
            if bucket is None:
                bucket = index.buckets[place] = Bucket(self._read(index.first + place))
            for block in bucket.blocks_with(hashed):
                rows = self._block_rows(index.run.block_row(block))
                found += [row for row in reversed(rows) if row[0] == key or key in row[1].parts]
        return found

    def __iter__(self) -> Iterator[Row]:
        """Every row, the oldest first."""
        for run in self.archive.runs:
            for block in range(run.blocks):
                yield from self._block_rows(run.block_row(block))
        yield from self.loose()

    def loose(self) -> list[Row]:
        """Return the rows that are in no run, the oldest first."""
        return [*(unpack_rows(self.archive.pending) if self.archive.pending else ()), *self.hot]

    def copy(self, run: Run, into: NewRun) -> None:
        """Add a run to another one."""
        rows = [self._read(row) for row in run.rows]
        into.add_run(rows[: run.blocks], [Bucket(row) for row in rows[run.blocks :]])

    def _block_rows(self, row: int) -> list[Row]:
        if self._block[0] != row:
            self._block = row, unpack_rows(self._read(row))
        return self._block[1]

    def _read(self, row: int) -> bytes:
        data = self._rows.get(self._session, FACTS, row)
        if data is None:
            raise LostRowError
        return data


class _Index:
    """The index of a run, as far as it was read: a long session looks up every new id."""

    __slots__ = ("buckets", "count", "first", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.count = run.buckets
        self.first = run.bucket_row(0)
        self.buckets: dict[int, Bucket] = {}


class StoredFacts:
    """The stored part of a state's archive."""

    def __init__(self, rows: StoredRows, sources: list[Source], newest: StoredArchive | None = None) -> None:
        self.rows: StoredRows = rows
        self.sources: list[Source] = sources
        """The oldest first, the session's own last if it has one."""
        self._streams: dict[str, _Stream] = {}
        if newest is not None:  # of the checkpoint that the state comes from: the state has what is beside it
            self._streams[sources[-1].session] = _Stream(rows, sources[-1].session, newest, [])

    @property
    def upto(self) -> int:
        """The version as of which the facts are archived here."""
        return max(source.upto for source in self.sources)

    def grow(self, rows: StoredRows, source: Source, archive: StoredArchive) -> None:
        """Note what a checkpoint stored as the archive of the session itself.

        `rows` are those of the session: what a fork inherited came from rows of its parents.
        """
        self.rows = rows
        self.sources = [*self.inherited(source.session), source]
        stream = self._streams.setdefault(source.session, _Stream(rows, source.session, archive, []))
        stream.grow(archive)

    def inherited(self, session: str) -> list[Source]:
        """Return the sources other than a session's own."""
        return [source for source in self.sources if source.session != session]

    def find(self, key: str) -> Row | None:
        """Return the message of this id, or with a part of this id, as it was archived last.

        The caller may change the row. `LostRowError` if stored rows cannot be read.
        """
        return found(self._find, self._streams.clear, key)  # if another handle merged runs

    def __iter__(self) -> Iterator[Row]:
        """The newest facts of every message; `LostRowError` if stored rows cannot be read."""
        newest = {
            name: cut
            for source in self.sources
            for name, facts in self.stream(source)
            if (cut := facts.as_of(source.upto)) is not None
        }
        return iter(newest.items())

    def stream(self, source: Source) -> _Stream:
        """The archive of one session; `LostRowError` if it cannot be read.

        Another handle may have archived other messages, so what its checkpoint has beside its
        archive is read, too.
        """
        stream = self._streams.get(source.session)
        if stream is None:
            found = self.rows.messages_of(source.session, source.upto)
            if found is None or not all(map(self._reads, found.inherited)):
                raise LostRowError
            stream = self._streams[source.session] = _Stream(self.rows, source.session, found.archive, found.hot)
        return stream

    def _reads(self, other: Source) -> bool:
        """Return whether all that another source has is read here."""
        return any(source.session == other.session and source.upto >= other.upto for source in self.sources)

    def _find(self, key: str) -> Row | None:
        for source in reversed(self.sources):
            stream = self._streams.get(source.session) or self.stream(source)
            for name, facts in stream.find(key):
                cut = facts.as_of(source.upto)
                if cut is not None and (name == key or key in cut.parts):
                    return name, cut
        return None


class Growth(NamedTuple):
    """An archive as a checkpoint stores it: rows by number, None to delete one."""

    archive: StoredArchive
    rows: list[tuple[int, bytes | None]]
    is_whole: bool
    """Whether all of the archive is in these rows: others of the session belong to no archive."""


def grown(stored: StoredFacts | None, session: str, added: Iterable[Row], modulus: int) -> Growth:
    """Return a session's archive with these rows added, the oldest first.

    `modulus` is that of a new archive.
    `LostRowError` if stored rows cannot be read.
    """
    own = None
    if stored is not None and stored.sources[-1].session == session:
        own = stored.stream(stored.sources[-1])
    archive = StoredArchive(modulus) if own is None else own.archive
    modulus, runs = archive.modulus, archive.runs
    blocks, pending = _blocks(chain(() if own is None else own.loose(), added), modulus)
    rows: list[tuple[int, bytes | None]] = []
    is_whole = own is None
    for start in range(0, len(blocks), MAX_BLOCKS):
        some, new = blocks[start : start + MAX_BLOCKS], NewRun()
        staying = len(runs) - runs_to_merge(runs, len(some))
        is_whole = is_whole or not staying
        if own is not None:
            for run in runs[staying:]:
                own.copy(run, new)
                rows += ((row, None) for row in run.rows)
        for block in some:
            new.add_block(*block)
        run, stored_rows = new.rows(modulus)
        runs = [*runs[:staying], run]
        rows += stored_rows
    return Growth(StoredArchive(modulus, runs, pack_rows(pending) if pending else b""), rows, is_whole)


def _blocks(rows: Iterable[Row], modulus: int) -> tuple[list[tuple[bytes, array[int]]], list[Row]]:
    """Return rows as blocks with the hashes of their ids, and the rows that fill no block."""
    blocks: list[tuple[bytes, array[int]]] = []
    remaining = iter(rows)
    while len(some := list(islice(remaining, BLOCK_MESSAGES))) == BLOCK_MESSAGES:
        hashes = array("I", (hash_of(key, modulus) for name, facts in some for key in (name, *facts.parts)))
        blocks.append((pack_rows(some), hashes))
    return blocks, some
