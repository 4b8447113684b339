"""Blocks: pieces that are compressed together, so that they share what they have in common.

A block is up to 64 KiB of chunks, of one session or of several, or up to 128 KiB of bodies, or one piece that is larger.  It is compressed
with zstd if that makes it smaller, and lies in the slots (`segments.py`) behind a header, all little-endian:

    CRC-32 of slot and offset, u64 each and big-endian, and of what follows here u32  |  CRC-32 of the stored bytes u32
    stored bytes u32  |  plain bytes u32  |  method u8, 0 plain, 1 zstandard

What is in a block is for the rows to say.  Blocks never change and never move, so those that were read last are kept, plain:
what is read one after the other, lies beside the other.
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

__all__ = ["BLOCK_BYTES", "BODY_APART", "Block", "BlockBuilder", "BlockSlot", "Blocks", "lay"]

BLOCK_BYTES = 128 << 10
"""Plain bytes after which a block is closed: large enough to compress well, small enough to be read for one commit."""
SHARED_BYTES = 64 << 10
"""The same for a block of several sessions, which is read for one of them that is short."""
_LEVEL = 9
_APART = 4 << 10
"""Bytes of a column from which on it gets statistics of its own …"""
BODY_APART = 32 << 10
"""… and of a body: bodies are more like each other than columns are, and each set of statistics takes room, and time to be read."""
_KEPT = 8
"""Blocks that are kept plain: 1 MiB."""
_NONE = (0, 0), b""
"""No block: slots are numbered from 1."""
_CRC = struct.Struct("<I")
_FIELDS = struct.Struct("<IIIB")
_HEADER_BYTES = _CRC.size + _FIELDS.size


class Block(NamedTuple):
    """A block that only waits for its place."""

    stored: bytes
    plain: int
    method: int


class BlockSlot(NamedTuple):
    """Where a piece is: the number of its block, and the bytes in it."""

    block: int
    begin: int
    size: int

    def at(self, places: Sequence[tuple[int, int]]) -> PieceLocation:
        """The place, when those of all blocks are known."""
        return PieceLocation(*places[self.block], self.begin, self.size)


class BlockBuilder:
    """Pieces on their way into blocks."""

    def __init__(self) -> None:
        self.limit = SHARED_BYTES
        """Plain bytes after which a block is closed, unless it is one piece."""
        self.apart = _APART
        """Bytes of a column from which on it gets statistics of its own."""
        self.blocks: list[Block] = []
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False)
        self._columns: list[bytes] = []
        self._filled = 0

    def add(self, piece: Sequence[bytes]) -> BlockSlot:
        """Take in a piece, given in the columns that are best compressed apart."""
        size = sum(map(len, piece))
        if self._filled and self._filled + size > self.limit:
            self.close()
        spot = BlockSlot(len(self.blocks), self._filled, size)
        self._columns += piece
        self._filled += size
        return spot

    def add_packed(self, piece: bytes) -> BlockSlot:
        """Take in a large piece that is compressed already, and gains nothing in a block."""
        self.close()
        self.blocks.append(Block(piece, len(piece), PLAIN))
        return BlockSlot(len(self.blocks) - 1, 0, len(piece))

    def close(self) -> None:
        """Close the block that is being filled."""
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
    """The bytes of a block that begins there."""
    fields = _FIELDS.pack(crc32(block.stored), len(block.stored), block.plain, block.method)
    return _CRC.pack(crc32(fields, crc32(PAIR.pack(slot, offset)))) + fields + block.stored


class Blocks:
    """The blocks of one environment, to be read.  May be used by any thread."""

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self._guard = Lock()
        self._kept: dict[tuple[int, int], bytes] = {}
        self._newest: tuple[tuple[int, int], bytes] = _NONE
        """The newest of them: what is asked for next is most often beside it, and to look here needs no lock."""

    def piece(self, txn: lmdb.Transaction[memoryview], where: PieceLocation) -> bytes:
        """The bytes at a place; ValueError if they are damaged."""
        key = where.slot, where.offset
        newest, plain = self._newest
        if newest != key:
            plain = self._block(txn, key)
        begin = where.begin
        end = begin + where.size
        if not 0 <= begin <= end <= len(plain):
            raise ValueError("a piece that is not in its block")
        return plain[begin:end]

    def forget(self) -> None:
        """From here on every block is read from the disk again."""
        with self._guard:
            self._kept.clear()
            self._newest = _NONE

    def _block(self, txn: lmdb.Transaction[memoryview], key: tuple[int, int]) -> bytes:
        """The plain bytes of a block."""
        with self._guard:
            plain = self._kept.pop(key, None)
            if plain is not None:
                self._kept[key] = plain
                self._newest = key, plain
                return plain
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
        """`length` bytes, which begin `skip` bytes behind the offset; they go on at the beginning of the next slot."""
        pieces: list[bytes] = []
        begin, left = offset + skip, length
        while left:
            value = txn.get(NUMBER.pack(slot), db=self._tree)
            if value is None:
                raise ValueError("a slot is missing")
            piece = bytes(value[begin : begin + left])
            pieces.append(piece)
            left -= len(piece)
            slot, begin = slot + 1, max(begin - len(value), 0)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
