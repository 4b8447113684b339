"""Blocks: pieces compressed together, so that they share what they have in common.

A block is up to 96 KiB of chunks, of one session or of several, or up to 256 KiB of bodies, or one
piece that is larger. `FORMAT.md` has its bytes. Blocks never change and never move, so the ones
read last are cached uncompressed: what is read in sequence lies together.
"""

from __future__ import annotations

import struct
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import zstandard

from eventlog.compression import PLAIN, ZSTANDARD, decompress
from eventlog.log.embedded.segments.layout import NUMBER, PAIR, PieceLocation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import lmdb

    from eventlog.log.contract import BodyPlace

BLOCK_BYTES = 256 << 10
"""Plain bytes of a block at most: it compresses well, and is quick to read for one commit."""
SHARED_BYTES = 96 << 10
"""Most plain bytes of a block of chunks: it may be read for one short session of many."""
_LEVEL = 9
_APART = 4 << 10
"""Bytes of a column from which on it gets compression statistics of its own."""
BODY_APART = 32 << 10
"""Bytes of a body from which on it does: bodies resemble each other more than columns do."""
_KEPT = 8
"""Blocks that are cached: 2 MiB."""
_NONE = (0, 0), b""
"""No block: slots are numbered from 1."""
_CRC = struct.Struct("<I")
_FIELDS = struct.Struct("<IIIB")
_HEADER_BYTES = _CRC.size + _FIELDS.size


class Block(NamedTuple):
    """A block without a place yet."""

    stored: bytes
    plain: int
    method: int


class BlockSlot(NamedTuple):
    """The place of a piece in a fold: the index of its block, and the bytes in it."""

    block: int
    begin: int
    size: int

    def at(self, places: Sequence[tuple[int, int]]) -> PieceLocation:
        """Return the location of the piece, given those of all blocks."""
        return PieceLocation(*places[self.block], self.begin, self.size)


class BlockBuilder:
    """Gathers pieces into blocks and compresses them."""

    def __init__(self) -> None:
        self.limit = SHARED_BYTES
        """Plain bytes of a block at most, unless it is one piece."""
        self.apart = _APART
        """Bytes of a column from which on it gets statistics of its own."""
        self.blocks: list[Block] = []
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False)
        self._columns: list[bytes] = []
        self._filled = 0

    def add(self, piece: Sequence[bytes]) -> BlockSlot:
        """Add a piece, given as the columns that are best compressed apart."""
        size = sum(map(len, piece))
        if self._filled and self._filled + size > self.limit:
            self.close()
        spot = BlockSlot(len(self.blocks), self._filled, size)
        self._columns += piece
        self._filled += size
        return spot

    def add_packed(self, piece: bytes) -> BlockSlot:
        """Add a large piece that is compressed already, as a block of its own."""
        self.close()
        self.blocks.append(Block(piece, len(piece), PLAIN))
        return BlockSlot(len(self.blocks) - 1, 0, len(piece))

    def close(self) -> None:
        """End the block that is being filled."""
        if self._columns:
            self.blocks.append(self._block(self._columns))
            self._columns, self._filled = [], 0

    def _block(self, columns: list[bytes]) -> Block:
        size = sum(map(len, columns))
        run = self._compressor.compressobj(size=size)
        pieces: list[bytes] = []
        for number, column in enumerate(columns):
            pieces.append(run.compress(column))
            following = columns[number + 1 : number + 2]
            if following and max(len(column), len(following[0])) >= self.apart:
                pieces.append(run.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
        pieces.append(run.flush())
        stored = b"".join(pieces)
        return Block(stored, size, ZSTANDARD) if len(stored) < size else Block(b"".join(columns), size, PLAIN)


def lay(block: Block, slot: int, offset: int) -> bytes:
    """Return the bytes of a block at this place."""
    fields = _FIELDS.pack(crc32(block.stored), len(block.stored), block.plain, block.method)
    return _CRC.pack(crc32(fields, crc32(PAIR.pack(slot, offset)))) + fields + block.stored


class Blocks:
    """The blocks of one environment, for reading.  Any thread may use it."""

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self._guard = Lock()
        self._kept: dict[tuple[int, int], bytes] = {}
        self._newest: tuple[tuple[int, int], bytes] = _NONE
        """The newest of them, read without a lock: the next piece is most often beside it."""

    def piece(self, txn: lmdb.Transaction[memoryview], where: PieceLocation | BodyPlace) -> bytes:
        """Return the bytes at a location; ValueError if they are damaged."""
        slot, offset, begin, size = where
        plain = self.plain(txn, (slot, offset))
        if not 0 <= begin <= begin + size <= len(plain):
            raise ValueError("a piece that is not in its block")
        return plain[begin : begin + size]

    def forget(self) -> None:
        """Drop the cache, so that every block is read from the disk again."""
        with self._guard:
            self._kept.clear()
            self._newest = _NONE

    def plain(self, txn: lmdb.Transaction[memoryview], key: tuple[int, int]) -> bytes:
        """Return the plain bytes of the block at a slot and offset; ValueError if it is damaged."""
        newest, plain = self._newest
        if newest == key:
            return plain
        with self._guard:
            kept = self._kept.pop(key, None)
            if kept is not None:
                self._kept[key] = kept
                self._newest = key, kept
                return kept
        try:
            plain = self._read(txn, *key)
        except struct.error as error:
            raise ValueError("a block of another shape") from error
        if len(plain) <= BLOCK_BYTES:
            with self._guard:
                self._kept[key] = plain
                self._newest = key, plain
                while len(self._kept) > _KEPT:
                    del self._kept[next(iter(self._kept))]
        return plain

    def _read(self, txn: lmdb.Transaction[memoryview], slot: int, offset: int) -> bytes:
        head = self._fetch(txn, slot, offset, 0, _HEADER_BYTES)
        if _CRC.unpack_from(head)[0] != crc32(head[_CRC.size :], crc32(PAIR.pack(slot, offset))):
            raise ValueError("no block begins here")
        crc, length, size, method = _FIELDS.unpack_from(head, _CRC.size)
        stored = self._fetch(txn, slot, offset, _HEADER_BYTES, length)
        if crc32(stored) != crc:
            raise ValueError("the bytes of a block are not those that were written")
        plain = decompress(stored, size) if method == ZSTANDARD else stored
        if method not in {PLAIN, ZSTANDARD} or len(plain) != size:
            raise ValueError("a block of another kind or size")
        return plain

    def _fetch(self, txn: lmdb.Transaction[memoryview], slot: int, offset: int, skip: int, length: int) -> bytes:
        """Return `length` bytes from `skip` bytes behind the offset, also of later slots."""
        pieces: list[bytes] = []
        begin, remaining = offset + skip, length
        while remaining:
            value = txn.get(NUMBER.pack(slot), db=self._tree)
            if value is None:
                raise ValueError("a slot is missing")
            piece = bytes(value[begin : begin + remaining])
            pieces.append(piece)
            remaining -= len(piece)
            slot, begin = slot + 1, max(begin - len(value), 0)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
