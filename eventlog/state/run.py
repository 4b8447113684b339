"""Runs: archived facts in stored rows, found by id with two reads.

A run has *blocks* of messages (`chunk.py`) and an index: for each id 24 bits of hash and 8 of the
block's number, sorted and cut into *buckets*. Each block and bucket is a row of its own, so a
look-up reads one bucket, and one block if the id is there.

A run never changes. A checkpoint adds one, and merges runs of like size: blocks move as they are,
indexes are merged. So n messages lie in n / 65,536 full runs and up to 8 smaller ones, and each
message moves up to 8 times. Larger runs would leave more free pages behind when they are merged.
"""

from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec

BLOCK_MESSAGES = 256
BUCKET_IDS = 900
"""Ids of a bucket on average: at 4 bytes each, fuller buckets fit a page, too."""
HASH_BITS = 24
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


class Bucket:
    """The sorted index entries of a bucket: hash and block of an id, as one number."""

    __slots__ = ("_entries",)

    def __init__(self, data: bytes) -> None:
        self._entries = array("I")
        self._entries.frombytes(data)
        _swap(self._entries)

    def blocks_with(self, hashed: int) -> Sequence[int]:
        """Return the blocks with an id of this hash, newest first."""
        entries, wanted = self._entries, hashed << BLOCK_BITS
        at = bisect_left(entries, wanted)
        if at == len(entries) or entries[at] >> BLOCK_BITS != hashed:  # as it mostly is
            return ()
        end = bisect_left(entries, wanted + MAX_BLOCKS)
        return [entry & MAX_BLOCKS - 1 for entry in reversed(entries[at:end])]

    def entries(self, before: int) -> list[int]:
        """Return the entries with `before` other blocks in front of theirs."""
        return [entry + before for entry in self._entries]


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
    return 1 << HASH_BITS - 1 | int.from_bytes(os.urandom(HASH_BITS // 8), "big") | 1


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
    numbers = array("I", entries)
    _swap(numbers)
    return numbers.tobytes()


def _swap(numbers: array[int]) -> None:
    """Turn this machine's byte order into that of rows, least significant first, or back."""
    if sys.byteorder == "big":
        numbers.byteswap()
