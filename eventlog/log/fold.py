"""Moving the tail of the journal into LMDB: one synced transaction for all of it, with few large puts.

`fold` writes commits, heads, requests and bodies of frozen generations, and how far the journal is folded by
that; before this is committed no journal file may be used again.  Several processes may try at once: LMDB lets
one in at a time, and the next one finds that its work is done.  Layout: `segments.py`.  Imported by this package
only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import msgspec
import zstandard

from eventlog.errors import DamagedError
from eventlog.log import segments as layout
from eventlog.log.environment import put_last
from eventlog.log.segments import Chunk, Folded, HeadRow, Reference, Segments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import lmdb

    from eventlog.log.base import Commit, Head
    from eventlog.log.filesystem import JournalIO
    from eventlog.log.rules import Seen
    from eventlog.log.tail import Generation

__all__ = ["begin_store", "fold", "write_copied", "write_derived"]

CHUNK_BYTES = 128 << 10
"""Plain bytes after which a session's chunk is closed: large enough to compress well, small enough to read one commit."""
ZSTD_LEVEL = 6
_RUN = 1024
_PAGES_A_SLOT = 16
_PAGE_HEADER = 16
_COMMIT_OVERHEAD = 32

_encode = msgspec.msgpack.Encoder().encode


class _Ready(NamedTuple):
    """A chunk that only waits for its place."""

    session: str
    commits: list[Commit]
    stored: bytes
    plain: int
    codec: int


def begin_store(segments: Segments, address: int) -> None:
    """Write the first meta record of a new store, unless it is there."""
    trees = segments.environment.trees

    def job(txn: lmdb.Transaction[bytes]) -> None:
        key = layout.FOLDED_KEY
        txn.put(key, layout.protect(key, _encode(Folded(address, 0))), overwrite=False, db=trees["meta"])

    segments.environment.writing(job)


def write_derived(segments: Segments, derived: Mapping[bytes, bytes | None]) -> None:
    """Write derived values in a transaction of their own."""
    segments.environment.writing(lambda txn: _put_derived(txn, segments, derived))


def fold(
    segments: Segments, generations: Sequence[Generation], derived: Mapping[bytes, bytes | None], io: JournalIO
) -> Folded:
    """Write generations, and derived values with them; returns how far the journal is folded now."""
    folded = segments.folded()
    ready = _compress(generations, folded)

    def job(txn: lmdb.Transaction[bytes]) -> Folded:
        now = segments.folded_in(txn)
        _put_derived(txn, segments, derived)
        if now.address >= generations[-1].end:
            return now
        io.reach("fold: begun")
        chunks = ready if now.position == folded.position else _compress(generations, now)
        result = _Writer(segments, txn, now).write(generations, chunks)
        io.reach("fold: written")
        return result

    result = segments.environment.writing(job)
    io.reach("fold: committed")
    return result


def write_copied(segments: Segments, generation: Generation, gone: Sequence[Head] = ()) -> Folded:
    """Write what was copied from another store, for `copying.py`: commits in the order of their positions.

    How far the journal is folded stays as it is.  `gone` are the heads of sessions whose events are no more: they have
    the number 0.
    """
    trees = segments.environment.trees

    def job(txn: lmdb.Transaction[bytes]) -> Folded:
        now = segments.folded_in(txn)
        generation.end = now.address
        result = _Writer(segments, txn, now).write([generation], _compress([generation], now))
        for head in gone:
            key = layout.session_key(head.session)
            txn.put(key, layout.protect(key, _encode(_row(0, head))), db=trees["sessions"])
        return result

    return segments.environment.writing(job)


def _row(number: int, head: Head) -> HeadRow:
    lease = head.lease
    return HeadRow(
        number, head.version, head.position, head.base, head.created, head.updated, head.messages, head.card,
        lease.epoch, lease.owner, lease.until, head.appends, head.peaks,
    )  # fmt: skip


def _put_derived(txn: lmdb.Transaction[bytes], segments: Segments, derived: Mapping[bytes, bytes | None]) -> None:
    tree = segments.environment.trees["derived"]
    for key in sorted(derived):
        value = derived[key]
        if value is None:
            txn.delete(key, db=tree)
        else:
            txn.put(key, layout.protect(key, value), db=tree)


def _compress(generations: Sequence[Generation], folded: Folded) -> list[_Ready]:
    """The chunks of what is beyond `folded`."""
    sessions: dict[str, list[Commit]] = {}
    for generation in generations:
        for session, commits in generation.commits.items():
            if commits[0].position <= folded.position:
                commits = [commit for commit in commits if commit.position > folded.position]  # noqa: PLW2901
            if commits:
                sessions.setdefault(session, []).extend(commits)
    compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=False)
    ready: list[_Ready] = []
    for session, commits in sessions.items():
        piece: list[Commit] = []
        size = 0
        for commit in commits:
            grown = size + len(commit.payload) + _COMMIT_OVERHEAD
            if piece and grown > CHUNK_BYTES:
                ready.append(_chunk(compressor, session, piece))
                piece, grown = [], len(commit.payload) + _COMMIT_OVERHEAD
            piece.append(commit)
            size = grown
        ready.append(_chunk(compressor, session, piece))
    return ready


def _chunk(compressor: zstandard.ZstdCompressor, session: str, commits: list[Commit]) -> _Ready:
    plain = layout.encode_chunk(session, commits)
    packed = compressor.compress(plain)
    if len(packed) < len(plain):
        return _Ready(session, commits, packed, len(plain), layout.ZSTD)
    return _Ready(session, commits, plain, len(plain), layout.RAW)


class _Writer:
    """The puts of one fold, inside its transaction."""

    def __init__(self, segments: Segments, txn: lmdb.Transaction[bytes], folded: Folded) -> None:
        self._segments = segments
        self._txn = txn
        self._folded = folded
        self._trees: dict[str, Any] = segments.environment.trees
        self._slot_bytes = segments.environment.page_bytes * _PAGES_A_SLOT - _PAGE_HEADER
        self._next_session = folded.next_session
        self._pieces: list[bytes] = []
        self._filled = 0

    def write(self, generations: Sequence[Generation], chunks: list[_Ready]) -> Folded:
        """Write everything; returns the new meta record."""
        heads: dict[str, Head] = {}
        requests: dict[tuple[str, str], Seen] = {}
        bodies: dict[bytes, bytes] = {}
        for generation in generations:
            heads.update(generation.heads)
            requests.update(generation.requests)
            bodies.update(generation.bodies)
        numbers = self._heads(heads)
        starts: dict[int, tuple[int, int]] = {}
        for chunk in sorted(chunks, key=lambda chunk: (numbers[chunk.session], chunk.commits[0].first)):
            self._chunk(numbers[chunk.session], chunk, starts)
        self._positions(starts)
        for digest in sorted(bodies):
            if self._txn.get(digest, db=self._trees["bodies"]) is None:
                where = layout.pack_reference(self._place(bodies[digest]))
                self._txn.put(digest, layout.protect(digest, where), db=self._trees["bodies"])
        for (session, request), seen in requests.items():
            key = layout.request_key(session, request)
            self._txn.put(key, layout.protect(key, layout.request_value(seen)), db=self._trees["requests"])
        last = generations[-1]
        result = Folded(last.end, last.position, self._next_session, self._slots())
        key = layout.FOLDED_KEY
        self._txn.put(key, layout.protect(key, _encode(result)), db=self._trees["meta"])
        return result

    def _heads(self, heads: Mapping[str, Head]) -> dict[str, int]:
        numbers: dict[str, int] = {}
        for session in sorted(heads):
            head = heads[session]
            row = self._segments.row_in(self._txn, session)
            if row is None:
                number = self._next_session
                self._next_session += 1
            else:
                number = row.number
            numbers[session] = number
            key = layout.session_key(session)
            self._txn.put(key, layout.protect(key, _encode(_row(number, head))), db=self._trees["sessions"])
        return numbers

    def _chunk(self, number: int, chunk: _Ready, starts: dict[int, tuple[int, int]]) -> None:
        first, last = chunk.commits[0], chunk.commits[-1]
        row = Chunk(
            self._place(chunk.stored),
            last.last,
            first.position,
            last.position + last.count - 1,
            chunk.plain,
            chunk.codec,
        )
        key = layout.PAIR.pack(number, first.first)
        value = layout.protect(key, layout.pack_chunk_row(row))
        if not self._txn.put(key, value, overwrite=False, db=self._trees["commits"]):
            raise DamagedError("versions were folded before", session=chunk.session, version=first.first)
        for commit in chunk.commits:
            starts[commit.position] = number, first.first

    def _positions(self, starts: Mapping[int, tuple[int, int]]) -> None:
        order = [(position, *starts[position]) for position in sorted(starts)]
        for begin in range(0, len(order), _RUN):
            run = order[begin : begin + _RUN]
            key = layout.NUMBER.pack(run[0][0])
            put_last(self._txn, self._trees["positions"], key, layout.protect(key, _encode(run)))

    def _place(self, data: bytes) -> Reference:
        """Give bytes their place behind what was placed before."""
        slot, offset = divmod(self._filled, self._slot_bytes)
        self._pieces.append(data)
        self._filled += len(data)
        return Reference(self._folded.next_slot + slot, offset, len(data), crc32(data))

    def _slots(self) -> int:
        """Write what was placed; returns the next free slot's number."""
        slot = self._folded.next_slot
        data = memoryview(b"".join(self._pieces))
        for begin in range(0, len(data), self._slot_bytes):
            put_last(self._txn, self._trees["data"], layout.NUMBER.pack(slot), data[begin : begin + self._slot_bytes])
            slot += 1
        return slot
