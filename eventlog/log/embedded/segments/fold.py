"""The fold: one synced transaction moves frozen parts of the memtable into LMDB.

It writes commits, heads, requests and bodies, and how far the journal is folded by that; no journal
file may be reused before it is committed. Several processes may fold at once: LMDB lets one in at a
time, and the next one finds its work done. Filling and compressing blocks, which takes long, is
done before the transaction begins. `FORMAT.md` describes the tables.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from eventlog.compression import plain_body
from eventlog.errors import DamagedError
from eventlog.log.contract import GROWING, is_outgrown
from eventlog.log.embedded.segments import layout
from eventlog.log.embedded.segments.blocks import BLOCK_BYTES, BODY_APART, BlockBuilder, lay
from eventlog.log.embedded.segments.chunk import encode_chunk
from eventlog.log.embedded.segments.environment import put_last
from eventlog.log.embedded.segments.layout import ChunkRow, FoldState, HeadRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import lmdb

    from eventlog.log.append_checks import RequestResult
    from eventlog.log.commit import Commit, Head
    from eventlog.log.embedded.filesystem import JournalIO
    from eventlog.log.embedded.memtable import MemtablePart
    from eventlog.log.embedded.segments.blocks import Block, BlockSlot
    from eventlog.log.embedded.segments.segments import Segments
    from eventlog.log.lists import ListsOf

CHUNK_BYTES = 128 << 10
"""Bytes of commits after which a session's chunk ends."""
POSITIONS_A_ROW = 1024
PAGES_A_SLOT = 16
_PAGE_HEADER = 16
_COMMIT_OVERHEAD = 32
_FURTHEST = (1 << 63) - 1
"""Largest distance of the times of two commits in one chunk."""


class _Chunk(NamedTuple):
    """A chunk in its block: session, versions, positions of its commits, last position."""

    session: str
    first: int
    last: int
    positions: list[int]
    last_position: int
    spot: BlockSlot


class _Ready(NamedTuple):
    """Blocks without places yet, and the chunks and bodies in them."""

    blocks: list[Block]
    chunks: list[_Chunk]
    bodies: dict[bytes, BlockSlot]


def begin_store(segments: Segments, address: int) -> None:
    """Write the first meta record of a new store, unless it is there."""
    trees = segments.environment.trees

    def job(txn: lmdb.Transaction[bytes]) -> None:
        key = layout.FOLDED_KEY
        txn.put(key, layout.protect(key, layout.encode(FoldState(address, 0))), overwrite=False, db=trees["meta"])

    segments.environment.writing(job)


def write_address(segments: Segments, address: int) -> None:
    """Store a new end of a journal that is folded completely."""
    tree = segments.environment.trees["meta"]

    def job(txn: lmdb.Transaction[bytes]) -> None:
        key = layout.FOLDED_KEY
        folded = replace(segments.folded_in(txn), address=address)
        txn.put(key, layout.protect(key, layout.encode(folded)), db=tree)

    segments.environment.writing(job)


def write_derived(segments: Segments, derived: Mapping[bytes, bytes | None]) -> None:
    """Write derived values in a transaction of their own."""
    rows = _derived_rows(derived)
    segments.environment.writing(lambda txn: _put_derived(txn, segments, rows))


def fold(
    segments: Segments, parts: Sequence[MemtablePart], derived: Mapping[bytes, bytes | None], io: JournalIO
) -> FoldState:
    """Write parts of the memtable and derived values; return how far the journal is folded."""
    folded = segments.folded()
    ready = _fill(segments, parts, folded)
    rows = _derived_rows(derived)

    def job(txn: lmdb.Transaction[bytes]) -> FoldState:
        now = segments.folded_in(txn)
        _put_derived(txn, segments, rows)
        if now.address >= parts[-1].end:
            return now
        io.reach("fold: begun")
        blocks = ready if now.position == folded.position else _fill(segments, parts, now)
        result = _Writer(segments, txn, now).write(parts, blocks)
        io.reach("fold: written")
        return result

    result = segments.environment.writing(job)
    io.reach("fold: committed")
    return result


def make_index(segments: Segments, lists_of: ListsOf, io: JournalIO) -> None:
    """Make the index of lists in one transaction, unless another process has made it."""

    def job(txn: lmdb.Transaction[bytes]) -> None:
        position = segments.folded_in(txn).position
        if segments.lists.reaches(txn, position) and not segments.lists.faults(txn, position):
            return
        io.reach("index: begun")
        segments.lists.build(txn, lists_of, position)
        io.reach("index: written")

    segments.environment.writing(job)
    io.reach("index: committed")


def write_copied(segments: Segments, part: MemtablePart, gone: Sequence[Head] = ()) -> FoldState:
    """Write commits copied from another store, in the order of their positions.

    How far the journal is folded stays as it is. `gone` are the heads of sessions whose events were
    removed: they get the number 0.
    """
    trees = segments.environment.trees
    ready = _fill(segments, [part], segments.folded())

    def job(txn: lmdb.Transaction[bytes]) -> FoldState:
        now = segments.folded_in(txn)
        part.end = now.address
        result = _Writer(segments, txn, now).write([part], ready)
        for head in gone:
            _put_head(txn, trees["sessions"], 0, head)
        return result

    return segments.environment.writing(job)


def _put_head(txn: lmdb.Transaction[bytes], tree: Any, number: int, head: Head) -> None:
    key = layout.session_key(head.session)
    txn.put(key, layout.protect(key, layout.encode(HeadRow.of(number, head))), db=tree)


def _derived_rows(derived: Mapping[bytes, bytes | None]) -> list[tuple[bytes, bytes | None]]:
    return [
        (key, None if value is None else layout.protect(key, layout.pack_value(value)))
        for key, value in sorted(derived.items())
    ]


def _put_derived(txn: lmdb.Transaction[bytes], segments: Segments, rows: Sequence[tuple[bytes, bytes | None]]) -> None:
    tree = segments.environment.trees["derived"]
    for key, row in rows:
        if row is None:
            txn.delete(key, db=tree)
        elif not (key.startswith(GROWING) and is_outgrown(key, _value(key, row), _value(key, txn.get(key, db=tree)))):
            txn.put(key, row, db=tree)


def _value(key: bytes, row: bytes | None) -> bytes | None:
    """Return the derived value in a stored row; None if there is none, or it is damaged."""
    content = None if row is None else layout.unprotect(key, row)
    with suppress(DamagedError):
        return None if content is None else layout.unpack_value(content)
    return None


def _fill(segments: Segments, parts: Sequence[MemtablePart], folded: FoldState) -> _Ready:
    """Put the content beyond `folded` into blocks."""
    sessions: dict[str, list[Commit]] = {}
    bodies: dict[bytes, bytes] = {}
    for part in parts:
        bodies.update(part.bodies)
        for session, commits in part.commits.items():
            if commits[0].position <= folded.position:
                commits = [commit for commit in commits if commit.position > folded.position]  # noqa: PLW2901
            if commits:
                sessions.setdefault(session, []).extend(commits)
    filler = BlockBuilder()
    chunks = [
        _Chunk(
            session,
            commits[0].first,
            commits[-1].last,
            [commit.position for commit in commits],
            commits[-1].last_position,
            filler.add(encode_chunk(session, commits)),
        )
        for session, every in sessions.items()
        for commits in _cut(every)
    ]
    filler.close()
    filler.limit, filler.apart = BLOCK_BYTES, BODY_APART
    spots: dict[bytes, BlockSlot] = {}
    for digest in segments.missing_bodies(bodies):
        packed = plain_body(digest, bodies[digest], BLOCK_BYTES)
        spots[digest] = filler.add([packed]) if len(packed) <= BLOCK_BYTES else filler.add_packed(packed)
    filler.close()
    return _Ready(filler.blocks, chunks, spots)


def _cut(commits: list[Commit]) -> Iterator[list[Commit]]:
    """Yield the commits of a session in pieces of one chunk each, of versions without a gap.

    Times that `log/validation.py` accepts are never too far apart; those of an older journal may
    be.
    """
    piece: list[Commit] = []
    size = 0
    for commit in commits:
        grown = size + len(commit.payload) + _COMMIT_OVERHEAD
        if piece and (
            grown > CHUNK_BYTES or commit.first != piece[-1].last + 1 or abs(commit.time - piece[-1].time) > _FURTHEST
        ):
            yield piece
            piece, grown = [], len(commit.payload) + _COMMIT_OVERHEAD
        piece.append(commit)
        size = grown
    yield piece


class _Writer:
    """The puts of one fold, inside its transaction."""

    def __init__(self, segments: Segments, txn: lmdb.Transaction[bytes], folded: FoldState) -> None:
        self._segments = segments
        self._txn = txn
        self._folded = folded
        self._trees: dict[str, Any] = segments.environment.trees
        self._slot_bytes = segments.environment.page_bytes * PAGES_A_SLOT - _PAGE_HEADER
        self._next_session = folded.next_session
        self._changes: list[tuple[HeadRow | None, Head]] = []
        """Heads as they were and as they are now."""

    def write(self, parts: Sequence[MemtablePart], ready: _Ready) -> FoldState:
        """Write everything; return the new meta record."""
        heads: dict[str, Head] = {}
        requests: dict[tuple[str, str], RequestResult] = {}
        for part in parts:
            heads.update(part.heads)
            requests.update(part.requests)
        places, next_slot = self._blocks(ready.blocks)
        self._chunks(ready.chunks, self._heads(heads), places)
        for digest, spot in ready.bodies.items():  # not sorted: that would leave every page that is split half empty
            where = layout.encode(spot.at(places))
            self._txn.put(digest, layout.protect(digest, where), overwrite=False, db=self._trees["bodies"])
        for (session, request), seen in requests.items():
            key = layout.request_key(session, request)
            self._txn.put(key, layout.protect(key, layout.request_value(seen)), db=self._trees["requests"])
        last = parts[-1]
        self._segments.lists.follow(self._txn, self._changes, since=self._folded.position, upto=last.position)
        result = FoldState(last.end, last.position, self._next_session, next_slot)
        key = layout.FOLDED_KEY
        self._txn.put(key, layout.protect(key, layout.encode(result)), db=self._trees["meta"])
        return result

    def _heads(self, heads: Mapping[str, Head]) -> dict[str, int]:
        numbers: dict[str, int] = {}
        for session in heads:  # not sorted, as for bodies
            row = self._segments.row_in(self._txn, session)
            if row is None:
                number = self._next_session
                self._next_session += 1
            else:
                number = row.number
            numbers[session] = number
            self._changes.append((row, heads[session]))
            _put_head(self._txn, self._trees["sessions"], number, heads[session])
        return numbers

    def _chunks(self, chunks: Sequence[_Chunk], numbers: Mapping[str, int], places: Sequence[tuple[int, int]]) -> None:
        order: list[tuple[int, int, int]] = []
        for chunk in sorted(chunks, key=lambda chunk: (numbers[chunk.session], chunk.first)):
            number = numbers[chunk.session]
            row = ChunkRow(chunk.spot.at(places), chunk.last, chunk.positions[0], chunk.last_position)
            key = layout.PAIR.pack(number, chunk.first)
            value = layout.protect(key, layout.encode(row))
            if not self._txn.put(key, value, overwrite=False, db=self._trees["commits"]):
                raise DamagedError("versions were folded before", session=chunk.session, version=chunk.first)
            order += [(position, number, chunk.first) for position in chunk.positions]
        order.sort()
        for begin in range(0, len(order), POSITIONS_A_ROW):
            run = order[begin : begin + POSITIONS_A_ROW]
            key = layout.NUMBER.pack(run[0][0])
            put_last(self._txn, self._trees["positions"], key, layout.protect(key, layout.encode(run)))

    def _blocks(self, blocks: Sequence[Block]) -> tuple[list[tuple[int, int]], int]:
        """Write blocks end to end into slots; return the place of each, and the next free slot."""
        first = self._folded.next_slot
        places: list[tuple[int, int]] = []
        pieces: list[bytes] = []
        filled = 0
        for block in blocks:
            slot, offset = divmod(filled, self._slot_bytes)
            places.append((first + slot, offset))
            pieces.append(lay(block, first + slot, offset))
            filled += len(pieces[-1])
        data = memoryview(b"".join(pieces))
        slot = first
        for begin in range(0, len(data), self._slot_bytes):
            put_last(self._txn, self._trees["data"], layout.NUMBER.pack(slot), data[begin : begin + self._slot_bytes])
            slot += 1
        return places, slot
