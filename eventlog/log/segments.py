"""The folded part of a store: LMDB trees and keys, the bytes on disk, in prose and in code.

Integers in keys are big-endian, elsewhere little-endian.  Every value but the slots begins with the CRC-32 of
its key and of the rest of the value; a slot is covered by the CRC in each reference to it.

    meta       "folded" -> `Folded`, a MessagePack array: how far the journal is folded, and what numbers come next
    sessions   session id -> `HeadRow`, a MessagePack array: the head, and the session's number
    commits    session number u64, first version u64 -> `Chunk`: what the chunk holds, and a reference to it
    positions  first position u64 -> MessagePack array of [position, session number, first version of its chunk],
               one for each of up to 1,024 commits in position order
    bodies     32-byte hash -> a reference to the packed bytes
    requests   16-byte BLAKE2b of (bytes of the session id u16, session id, request id)
               -> first version u64, last version u64, position u64, digest
    derived    key -> value
    data       slot number u64 -> up to 16 pages of bytes

A *chunk* is what one fold adds to one session, or 128 KiB of that: the MessagePack array [session id, commits],
each commit [first version, count, position, epoch, time, payload, request id, salt, first 8 bytes of its leaf's hash]
(`tree.py`), compressed with zstd if that makes it smaller.  The chunks and bodies of a fold are laid end to end and cut into *slots*, which are appended to
`data`: LMDB rounds a large value up to whole pages, and a slot fills its pages.  A *reference* is (slot, offset
in it, length, CRC-32); the bytes go on at the beginning of the next slot.

Nothing is deleted but derived values, so LMDB's list of free pages, which every commit writes, stays short.
Reads only; `fold.py` writes.  Imported by this package only.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from hashlib import blake2b
from threading import local
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import msgspec
import zstandard

from eventlog.errors import DamagedError
from eventlog.log.base import Commit, Head, LeaseState
from eventlog.log.calls import MAX_ID_BYTES, is_id
from eventlog.log.environment import Environment
from eventlog.log.rules import Seen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import lmdb

__all__ = [
    "TREES",
    "Chunk",
    "Folded",
    "HeadRow",
    "Reference",
    "Segments",
    "pack_chunk_row",
    "pack_reference",
    "protect",
    "request_key",
    "request_value",
    "session_key",
]

TREES = ("meta", "sessions", "commits", "positions", "bodies", "requests", "derived", "data")
FOLDED_KEY = b"folded"
RAW = 0
ZSTD = 1
_HEADS_A_READ = 256
MAX_KEY_BYTES = 511
"""LMDB's limit."""
_LAST = (1 << 64) - 1

NUMBER = struct.Struct(">Q")
PAIR = struct.Struct(">QQ")
_CRC = struct.Struct("<I")
_REFERENCE = struct.Struct("<QIII")
_CHUNK = struct.Struct("<QIIIQQQIB")
_REQUEST = struct.Struct("<QQQ")


class Folded(msgspec.Struct, frozen=True, array_like=True):
    """How far the journal is folded: everything before `address`, which is everything up to `position`."""

    address: int
    position: int
    next_session: int = 1
    next_slot: int = 1


class HeadRow(msgspec.Struct, frozen=True, array_like=True):
    """A head as it is stored.  `number` is 0 if the session's events are gone (`Head.gone`)."""

    number: int
    version: int
    position: int
    base: int
    created: int
    updated: int
    messages: int
    card: bytes
    epoch: int
    owner: bytes
    until: int
    appends: int
    peaks: bytes

    def head(self, session: str) -> Head:
        """The head it stands for."""
        return Head(
            session,
            self.version,
            self.position,
            self.base,
            self.created,
            self.updated,
            self.messages,
            self.card,
            LeaseState(self.epoch, self.owner, self.until),
            self.appends,
            self.peaks,
            not self.number,
        )


class Reference(NamedTuple):
    """Where bytes lie in the slots."""

    slot: int
    offset: int
    length: int
    crc: int


class Chunk(NamedTuple):
    """A row of `commits`, without the first version, which is its key."""

    where: Reference
    last: int
    first_position: int
    last_position: int
    plain: int
    codec: int


_ChunkBody = tuple[str, list[tuple[int, int, int, int, int, bytes, str | None, bytes, bytes]]]
_encode = msgspec.msgpack.Encoder().encode
_decode_folded = msgspec.msgpack.Decoder(Folded).decode
_decode_head = msgspec.msgpack.Decoder(HeadRow).decode
_decode_chunk = msgspec.msgpack.Decoder(_ChunkBody).decode
_decode_positions = msgspec.msgpack.Decoder(list[tuple[int, int, int]]).decode
_zstd = local()


def protect(key: bytes, value: bytes) -> bytes:
    """Put the CRC in front of a value."""
    return _CRC.pack(crc32(value, crc32(key))) + value


def session_key(session: str) -> bytes:
    """Key of a session in `sessions`; at most 256 bytes, where LMDB allows 511."""
    return session.encode()


def key_before(session: str) -> bytes:
    """A key that lies among the session keys where the text, any text, lies among the ids."""
    return session.encode(errors="surrogatepass")[: MAX_ID_BYTES + 1]


def request_key(session: str, request: str) -> bytes:
    """Key of a request id in `requests`."""
    name = session.encode()
    return blake2b(len(name).to_bytes(2, "little") + name + request.encode(), digest_size=16).digest()


def request_value(seen: Seen) -> bytes:
    """Value of a request id in `requests`."""
    return _REQUEST.pack(seen.first, seen.last, seen.position) + seen.digest


def pack_reference(where: Reference) -> bytes:
    """Value of a body in `bodies`."""
    return _REFERENCE.pack(*where)


def pack_chunk_row(chunk: Chunk) -> bytes:
    """Value of a chunk in `commits`."""
    return _CHUNK.pack(*chunk.where, chunk.last, chunk.first_position, chunk.last_position, chunk.plain, chunk.codec)


def encode_chunk(session: str, commits: list[Commit]) -> bytes:
    """The plain bytes of a chunk."""
    return _encode(
        (
            session,
            [(c.first, c.count, c.position, c.epoch, c.time, c.payload, c.request, c.salt, c.leaf) for c in commits],
        )
    )


class Segments:
    """Look-ups in the folded part.  No transaction outlives a call."""

    def __init__(self, path: Path, *, read_only: bool, map_bytes: int) -> None:
        self.environment = Environment(path, TREES, read_only=read_only, map_bytes=map_bytes)
        self._trees = self.environment.trees

    def close(self) -> None:
        """Release the environment."""
        self.environment.close()

    def folded(self) -> Folded:
        """How far the journal is folded."""
        with self.environment.reading() as txn:
            return self.folded_in(txn)

    def folded_in(self, txn: lmdb.Transaction[Any]) -> Folded:
        """The same inside a transaction."""
        value = self._get(txn, "meta", FOLDED_KEY)
        if value is None:
            raise DamagedError("the folded part does not say how far it goes")
        try:
            return _decode_folded(value)
        except msgspec.DecodeError as error:
            raise DamagedError("how far the folded part goes cannot be decoded") from error

    def row_in(self, txn: lmdb.Transaction[Any], session: str) -> HeadRow | None:
        """A session's row inside a transaction; None also for what cannot be an id."""
        if not is_id(session):
            return None
        value = self._get(txn, "sessions", session_key(session), session=session)
        return None if value is None else _decode_row(value, session)

    def head(self, session: str) -> Head | None:
        """The session's head as of the last fold."""
        with self.environment.reading() as txn:
            row = self.row_in(txn, session)
        return None if row is None else row.head(session)

    def heads(self, after: str = "") -> Iterator[Head]:
        """Heads by session id, in batches of one transaction each."""
        key = key_before(after)
        while True:
            batch: list[Head] = []
            with self.environment.reading() as txn, txn.cursor(self._trees["sessions"]) as cursor:
                found = cursor.set_range(key)
                if found and bytes(cursor.key()) == key:
                    found = cursor.next()
                while found and len(batch) < _HEADS_A_READ:
                    key = bytes(cursor.key())
                    name = key.decode(errors="replace")
                    row = _decode_row(self._open(key, cursor.value(), "a row of sessions", name), name)
                    batch.append(row.head(key.decode()))
                    found = cursor.next()
            yield from batch
            if not found:
                return

    def seen(self, session: str, request: str) -> Seen | None:
        """What became of a request id, as of the last fold."""
        if not (is_id(session) and is_id(request)):
            return None
        with self.environment.reading() as txn:
            value = self._get(txn, "requests", request_key(session, request), session=session)
            if value is None:
                return None
            first, last, position = _REQUEST.unpack_from(value)
            return Seen(bytes(value[_REQUEST.size :]), first, last, position)

    def has_body(self, digest: bytes) -> bool:
        """Whether a body is folded."""
        with self.environment.reading() as txn:
            return self._get(txn, "bodies", digest) is not None

    def body(self, digest: bytes) -> bytes | None:
        """The packed bytes of a body."""
        with self.environment.reading() as txn:
            value = self._get(txn, "bodies", digest)
            if value is None:
                return None
            return self._fetch(txn, Reference._make(_REFERENCE.unpack(value)), f"body {digest.hex()}")

    def bodies(self) -> Iterator[bytes]:
        """The hashes of all folded bodies, in batches of one transaction each."""
        yield from self.keys("bodies")

    def chunk(self, session: str, version: int) -> list[Commit]:
        """The commits of the chunk that holds a version; `DamagedError` if there is none."""
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
                        chunk = self._chunk_row(bytes(cursor.key()), cursor.value(), session, first)
                        if number == row.number and first <= version <= chunk.last:
                            return self._commits(txn, chunk, first, session)
        raise DamagedError("a committed version is missing", session=session, version=version)

    def chunk_at(self, number: int, first: int) -> list[Commit]:
        """The commits of the chunk at this key, whatever else is damaged; `DamagedError` if that is."""
        with self.environment.reading() as txn:
            return self._chunk_of(txn, PAIR.pack(number, first), 0)

    def follow(self, after: int, limit: int = 1000) -> list[Commit]:
        """Folded commits whose last position is greater than `after`, in position order, at most `limit`."""
        found: list[Commit] = []
        chunks: dict[bytes, dict[int, Commit]] = {}
        with self.environment.reading() as txn, txn.cursor(self._trees["positions"]) as runs:
            key = NUMBER.pack(max(after, 0) + 1)
            more = runs.set_range(key)
            if not more:
                more = runs.last()
            elif bytes(runs.key()) != key and not runs.prev():
                more = runs.first()
            while more and len(found) < limit:
                rows = _decode_order(self._open(bytes(runs.key()), runs.value(), "the order of commits"))
                for position, number, first in rows[max(bisect_right(rows, (after, _LAST, _LAST)) - 1, 0) :]:
                    row_key = PAIR.pack(number, first)
                    commits = chunks.get(row_key)
                    if commits is None:
                        commits = chunks[row_key] = {c.position: c for c in self._chunk_of(txn, row_key, position)}
                    commit = commits.get(position)
                    if commit is None:
                        raise DamagedError("a committed position is missing", position=position)
                    if position + commit.count - 1 > after:
                        found.append(commit)
                        if len(found) >= limit:
                            break
                more = runs.next()
        return found

    def derived(self, key: bytes) -> bytes | None:
        """A derived value; a damaged one is as good as none, since it is disposable."""
        with self.environment.reading() as txn:
            try:
                value = self._get(txn, "derived", key)
            except DamagedError:
                return None
            return None if value is None else bytes(value)

    def scan_derived(self, prefix: bytes) -> dict[bytes, bytes]:
        """Derived values whose key begins with `prefix`."""
        found: dict[bytes, bytes] = {}
        if len(prefix) > MAX_KEY_BYTES:
            return found
        with self.environment.reading() as txn, txn.cursor(self._trees["derived"]) as cursor:
            more = cursor.set_range(prefix) if prefix else cursor.first()
            while more and bytes(cursor.key()).startswith(prefix):
                key, value = bytes(cursor.key()), cursor.value()
                if len(value) >= _CRC.size and _CRC.unpack_from(value)[0] == crc32(value[_CRC.size :], crc32(key)):
                    found[key] = bytes(value[_CRC.size :])
                more = cursor.next()
        return found

    def keys(self, tree: str) -> Iterator[bytes]:
        """The keys of a tree, in batches of one transaction each."""
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

    def _chunk_row(self, key: bytes, value: memoryview, session: str | None, first: int) -> Chunk:
        plain = self._open(key, value, "the place of a chunk", session, first)
        slot, offset, length, crc, last, first_position, last_position, size, codec = _CHUNK.unpack(plain)
        return Chunk(Reference(slot, offset, length, crc), last, first_position, last_position, size, codec)

    def _chunk_of(self, txn: lmdb.Transaction[memoryview], row_key: bytes, position: int) -> list[Commit]:
        value = txn.get(row_key, db=self._trees["commits"])
        if value is None:
            raise DamagedError("a committed position is missing", position=position)
        first = PAIR.unpack(row_key)[1]
        return self._commits(txn, self._chunk_row(row_key, value, None, first), first, None)

    def _commits(
        self, txn: lmdb.Transaction[memoryview], chunk: Chunk, first: int, session: str | None
    ) -> list[Commit]:
        stored = self._fetch(txn, chunk.where, "a chunk", session=session, version=first, position=chunk.first_position)
        try:
            plain = stored if chunk.codec == RAW else _decompressor().decompress(stored, max_output_size=chunk.plain)
            name, rows = _decode_chunk(plain)
        except (zstandard.ZstdError, msgspec.DecodeError) as error:
            raise DamagedError("a chunk cannot be decoded", session=session, version=first) from error
        if session is not None and name != session:
            raise DamagedError(f"a chunk belongs to session {name}", session=session, version=first)
        return [Commit(name, *row) for row in rows]

    def _fetch(
        self,
        txn: lmdb.Transaction[memoryview],
        where: Reference,
        what: str,
        *,
        session: str | None = None,
        version: int | None = None,
        position: int | None = None,
    ) -> bytes:
        slot, offset, length, crc = where
        tree = self._trees["data"]
        pieces: list[bytes] = []
        left = length
        while left:
            value = txn.get(NUMBER.pack(slot), db=tree)
            piece = b"" if value is None else bytes(value[offset : offset + left])
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
            slot, offset = slot + 1, 0
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if left or crc32(data) != crc:
            raise DamagedError(f"{what} is damaged", session=session, version=version, position=position)
        return data

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
        view = memoryview(value)
        if len(view) < _CRC.size or _CRC.unpack_from(view)[0] != crc32(view[_CRC.size :], crc32(key)):
            raise DamagedError(f"{what} is damaged", session=session, version=version)
        return view[_CRC.size :]


def _decode_order(value: memoryview) -> list[tuple[int, int, int]]:
    try:
        return _decode_positions(value)
    except msgspec.DecodeError as error:
        raise DamagedError("the order of commits cannot be decoded") from error


def _decode_row(value: memoryview, session: str) -> HeadRow:
    try:
        return _decode_head(value)
    except msgspec.DecodeError as error:
        raise DamagedError("a head cannot be decoded", session=session) from error


def _decompressor() -> zstandard.ZstdDecompressor:
    try:
        found: zstandard.ZstdDecompressor = _zstd.decompressor
    except AttributeError:
        found = _zstd.decompressor = zstandard.ZstdDecompressor()
    return found
