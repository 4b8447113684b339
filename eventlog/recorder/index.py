"""Index from originators to their events in a stream, which the log itself does not have.

The newest part is in memory.  Each time `BLOCK` versions are complete, they become a table
(`index_table.py`) among the log's derived values, together with a *mark*: the newest event and the
tracking positions at that version.  Opening reads the newest mark and fewer than `BLOCK` versions
after it, however long the stream is.

Four neighbouring blocks of a level are one block of the next level, which has four times as many
tables, each for a quarter of the keys.  So a table keeps its size (but the runs of one originator
are never divided), and an originator is found in at most three tables a level.  The four tables
for the same keys of four neighbours are replaced, in one write, by four tables of the block above
when one of these is first looked up.  Every table is a pure function of the stream: any process may
write it, and two may.  A missing table is made again from those below it, at last from the log.

Keys of derived values: `e1`, 16 bytes of SHA-256 of the stream's name, then `p`, level (1 byte),
number of the block (8), number of the table in it (4); or `m`, number of the block.  Each value
begins with the CRC-32 of key and rest.

The index is not thread-safe: its stream guards it.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from zlib import crc32

import msgspec

from eventlog.log.commit import Commit
from eventlog.log.contract import Log
from eventlog.recorder.batch import batch_of
from eventlog.recorder.index_table import NO_RUNS, IndexTable, Run, between, encode, has, insert

BLOCK = 2048
"""Stream versions in a block of the lowest level."""
_LEVELS = 11
_RECENT = 64
"""Tables kept in memory, of about 74 KB at most."""
_MARKS = 2


class _Mark(msgspec.Struct, frozen=True, array_like=True):
    """State at the end of a block, besides its tables.

    `position` and `check` (CRC-32 of the payload) are those of the commit that completed the block:
    if the log has another one there, it is not the log that was indexed.
    """

    newest: int
    tracking: dict[str, int]
    position: int
    check: int


_MARK = msgspec.msgpack.Decoder(_Mark)


class OriginatorIndex:
    """Index of one stream, as of `version`."""

    def __init__(self, log: Log, stream: str) -> None:
        self._log = log
        self._derived = log.of(stream)
        self._stream = stream
        self._prefix = b"e1" + sha256(stream.encode()).digest()[:16]
        self._opened = False
        self.version: int = 0
        """Stream version up to which the index is complete."""
        self.newest: int = 0
        """Stream version of the newest event, 0 without any; tracking may follow it."""
        self.tracking: dict[str, int] = {}
        self._tail: dict[bytes, list[Run]] = {}
        self._blocks: list[tuple[int, int]] = []
        self._recent: OrderedDict[bytes, IndexTable] = OrderedDict()

    # --- keeping up

    def catch_up(self) -> None:
        """Add the commits since the last call, of any process."""
        head = self._log.head(self._stream)
        if head is None or head.version <= self.version:
            return
        if not self._opened:
            self._open(head.version)
            self._opened = True
        for commit in self._log.read(self._stream, self.version):
            batch = batch_of(commit)
            self.add(commit, batch.keys(), batch.versions, batch.tracking)

    def add(
        self, commit: Commit, keys: Sequence[bytes], versions: Sequence[int], tracking: tuple[str, int] | None
    ) -> None:
        """Add a commit; versions that are indexed already are left out."""
        if tracking is not None:
            self.tracking[tracking[0]] = tracking[1]
        offset = max(self.version + 1 - commit.first, 0)
        while offset < commit.count:
            place = commit.first + offset
            count = 1
            if versions:
                key, version = keys[offset], versions[offset]
                room = min(commit.count - offset, BLOCK - (place - 1) % BLOCK)
                while count < room and versions[offset + count] == version + count and keys[offset + count] == key:
                    count += 1
                insert(self._tail.setdefault(key, []), version, place, count)
                self.newest = place + count - 1
            offset += count
            self.version = place + count - 1
            if self.version % BLOCK == 0:
                self._complete_block(commit)

    def _complete_block(self, commit: Commit) -> None:
        block = self.version // BLOCK - 1
        mark = _Mark(self.newest, self.tracking, commit.position, crc32(commit.payload))
        items = [
            self._item(_table_key(0, block, 0), encode(self._tail, block * BLOCK)),
            self._item(_mark_key(block), msgspec.msgpack.encode(mark)),
        ]
        self._write(items, [_mark_key(block - _MARKS)] if block >= _MARKS else [])
        self._tail = {}
        self._blocks = _cover(block + 1)

    def _open(self, version: int) -> None:
        """Begin at the newest mark; when it does not fit the log, drop all derived values."""
        prefix = self._prefix + b"m"
        for key, _ in reversed(self._derived.scan_derived(prefix)):
            block = int.from_bytes(key[len(prefix) :], "big")
            mark = self._read_mark(block)
            if mark is None:
                continue
            if self._fits(mark, (block + 1) * BLOCK, version):
                self.version = (block + 1) * BLOCK
                self.newest, self.tracking = mark.newest, dict(mark.tracking)
                self._blocks = _cover(block + 1)
            else:
                self._write([], [key[len(self._prefix) :] for key, _ in self._derived.scan_derived(self._prefix)])
            return

    def _fits(self, mark: _Mark, last: int, version: int) -> bool:
        if last > version:
            return False
        commit = next(iter(self._log.read(self._stream, last - 1, last)))
        return commit.position == mark.position and crc32(commit.payload) == mark.check

    def _read_mark(self, block: int) -> _Mark | None:
        raw = self._load(_mark_key(block))
        try:
            return None if raw is None else _MARK.decode(raw)
        except msgspec.MsgspecError:
            return None

    # --- looking up

    def find_recorded(self, key: bytes, versions: Collection[int]) -> int | None:
        """Return one of these versions that the originator has already, or None."""
        for runs in self._parts(key):
            for version in versions:
                if has(runs, version):
                    return version
        return None

    def runs(self, key: bytes, gt: int | None, lte: int | None, *, desc: bool) -> Iterator[Run]:
        """Yield the runs of an originator between two of its versions, in version order."""
        return heapq.merge(*(between(runs, gt, lte, desc=desc) for runs in self._parts(key)), reverse=desc)

    def _parts(self, key: bytes) -> list[Sequence[Run]]:
        parts = [self._table(level, block, _table_number(key, level)).runs(key) for level, block in self._blocks]
        parts.append(self._tail.get(key, NO_RUNS))
        return [runs for runs in parts if runs]

    # --- tables

    def _table(self, level: int, block: int, part: int) -> IndexTable:
        key = _table_key(level, block, part)
        table = self._recent.get(key)
        if table is not None:
            self._recent.move_to_end(key)
            return table
        raw = self._load(key)
        base = (block * BLOCK) << (2 * level)
        if raw is None:
            raw = self._merge(level, block, part, base) if level else self._rebuild(block)
        table = self._recent[key] = IndexTable(raw, base)
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        return table

    def _merge(self, level: int, block: int, part: int, base: int) -> bytes:
        """Replace four tables below by four of this level; return the wanted one."""
        tables: dict[int, dict[bytes, list[Run]]] = {part & ~3 | quarter: {} for quarter in range(4)}
        below: list[bytes] = []
        for child in range(4 * block, 4 * block + 4):
            table = self._table(level - 1, child, part >> 2)
            below.append(_table_key(level - 1, child, part >> 2))
            for number in range(table.count):
                key = table.key(number)
                runs = tables[_table_number(key, level)].setdefault(key, [])
                for run in table.runs_at(number):
                    insert(runs, *run)
        encoded = {number: encode(table, base) for number, table in tables.items()}
        self._write([self._item(_table_key(level, block, number), raw) for number, raw in encoded.items()], below)
        for key in below:
            self._recent.pop(key, None)
        return encoded[part]

    def _rebuild(self, block: int) -> bytes:
        """Build a table of the lowest level from the log."""
        first, last = block * BLOCK + 1, (block + 1) * BLOCK
        table: dict[bytes, list[Run]] = {}
        for commit in self._log.read(self._stream, first - 1, last):
            batch = batch_of(commit)
            for place, (key, version) in enumerate(zip(batch.keys(), batch.versions, strict=True), commit.first):
                if first <= place <= last:
                    insert(table.setdefault(key, []), version, place, 1)
        raw = encode(table, block * BLOCK)
        self._write([self._item(_table_key(0, block, 0), raw)], [])
        return raw

    # --- derived values

    def _item(self, key: bytes, raw: bytes) -> tuple[bytes, bytes]:
        key = self._prefix + key
        return key, crc32(raw, crc32(key)).to_bytes(4, "big") + raw

    def _load(self, key: bytes) -> bytes | None:
        key = self._prefix + key
        value = self._derived.get_derived(key)
        if value is None or len(value) < 8 or int.from_bytes(value[:4], "big") != crc32(value[4:], crc32(key)):
            return None
        return value[4:]

    def _write(self, items: list[tuple[bytes, bytes]], gone: Sequence[bytes]) -> None:
        if not self._log.read_only:
            self._derived.put_derived([*items, *((self._prefix + key, None) for key in gone)])


def _table_key(level: int, block: int, part: int) -> bytes:
    return b"p" + level.to_bytes(1, "big") + block.to_bytes(8, "big") + part.to_bytes(4, "big")


def _mark_key(block: int) -> bytes:
    return b"m" + block.to_bytes(8, "big")


def _table_number(key: bytes, level: int) -> int:
    """Return the number of the table for a key in a block: the key's first bits, two a level."""
    return int.from_bytes(key[:4], "big") >> (32 - 2 * level)


def _cover(count: int) -> list[tuple[int, int]]:
    """Return the fewest blocks (level, number) that cover the first `count`, oldest first."""
    blocks: list[tuple[int, int]] = []
    start = 0
    for level in range(_LEVELS - 1, -1, -1):
        size = 1 << (2 * level)
        while start + size <= count:
            blocks.append((level, start // size))
            start += size
    return blocks
