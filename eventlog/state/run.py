"""Runs: archived facts in stored rows, found by id with two reads.

A run has *blocks* of messages (`chunk.py`) and an index: the hashes of all ids, sorted and cut into
*buckets*. Each block and bucket is a row of its own, so a look-up reads one bucket, and one block
if the id is there.

A run never changes. A checkpoint adds one, and merges runs of like size: blocks move as they are,
indexes are merged. So n messages lie in n / 65,536 full runs and up to 8 smaller ones, and each
message moves up to 8 times. Larger runs would leave more free pages behind when they are merged.
"""

from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

__all__ = ["BLOCK_MESSAGES", "MAX_BLOCKS", "Bucket", "NewRun", "Run", "new_modulus", "runs_to_merge"]

BLOCK_MESSAGES = 256
BUCKET_IDS = 780
"""Ids of a bucket on average: at 5 bytes each, fuller buckets fit a page, too."""
BLOCK_BITS = 8
MAX_BLOCKS = 1 << BLOCK_BITS
"""Blocks of a full run."""
ROW_BITS = 24


class Run(msgspec.Struct, array_like=True, frozen=True):
    """Where a run lies."""

    number: int
    """Random: no two runs of a session have the same rows."""
    blocks: int
    ids: int

    @property
    def buckets(self) -> int:
        """The number of buckets."""
        return self.ids // BUCKET_IDS + 1

    @property
    def rows(self) -> range:
        """The numbers of its rows: the blocks, then the buckets."""
        first = self.number << ROW_BITS
        return range(first, first + self.blocks + self.buckets)

    def block_row(self, block: int) -> int:
        """Return the row number of a block."""
        return self.rows[block]

    def bucket_row(self, bucket: int) -> int:
        """Return the row number of a bucket: that of the hashes h with h * buckets // modulus."""
        return self.rows[self.blocks + bucket]


class Bucket(NamedTuple):
    """Hashes in order, and the block of each."""

    hashes: array[int]
    blocks: bytes

    @classmethod
    def decode(cls, data: bytes) -> Bucket:
        """Return the bucket of a row."""
        count = len(data) // 5
        hashes = array("I")
        hashes.frombytes(data[: 4 * count])
        return cls(_little(hashes), data[4 * count :])

    def blocks_with(self, hashed: int) -> bytes:
        """Return the blocks with an id of this hash, newest first."""
        end = bisect_right(self.hashes, hashed)
        if not end or self.hashes[end - 1] != hashed:  # as it mostly is
            return b""
        return self.blocks[bisect_left(self.hashes, hashed) : end][::-1]

    def entries(self, before: int) -> list[int]:
        """Return hash and block of each id as one number, the block behind `before` others."""
        return [hashed << BLOCK_BITS | block + before for hashed, block in zip(self.hashes, self.blocks, strict=True)]


class NewRun:
    """A run to be stored: blocks, oldest first, and their index."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._entries: list[int] = []

    def add_block(self, block: bytes, hashes: Iterable[int]) -> None:
        """Add a block and the hashes of its ids."""
        number = len(self._blocks)
        self._blocks.append(block)
        self._entries += [hashed << BLOCK_BITS | number for hashed in hashes]

    def add_run(self, blocks: Sequence[bytes], buckets: Sequence[Bucket]) -> None:
        """Add all of another run."""
        before = len(self._blocks)
        self._blocks += blocks
        for bucket in buckets:
            self._entries += bucket.entries(before)

    def rows(self, modulus: int) -> tuple[Run, list[tuple[int, bytes]]]:
        """Return the run, and its rows by number."""
        entries = self._entries
        entries.sort()
        run = Run(int.from_bytes(os.urandom(5), "big"), len(self._blocks), len(entries))
        count = run.buckets
        bounds = [bisect_left(entries, -(-place * modulus // count) << BLOCK_BITS) for place in range(count)]
        buckets = [_encode(entries[begin:end]) for begin, end in zip(bounds, [*bounds[1:], len(entries)], strict=True)]
        return run, list(zip(run.rows, [*self._blocks, *buckets], strict=True))


def new_modulus() -> int:
    """Return a random modulus for the hashes of an archive."""
    return int.from_bytes(os.urandom(4), "big") | 1 << 31 | 1


def runs_to_merge(runs: Sequence[Run], blocks: int) -> int:
    """Return how many of the newest runs to merge with a new one of `blocks` blocks."""
    count = 0
    for run in reversed(runs):
        if run.blocks > blocks or run.blocks + blocks > MAX_BLOCKS:
            break
        blocks += run.blocks
        count += 1
    return count


def _encode(entries: Sequence[int]) -> bytes:
    hashes = array("I", [entry >> BLOCK_BITS for entry in entries])
    return _little(hashes).tobytes() + bytes([entry & MAX_BLOCKS - 1 for entry in entries])


def _little(numbers: array[int]) -> array[int]:
    """Return numbers with the byte order of rows, least significant first."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
