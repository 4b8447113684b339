"""Map from record keys to small numbers, at 27 bytes an entry.

Keys are stored as 64-bit hashes in an open-addressing table: a dict of strings would cost ten times
as much, and a file of hundreds of MB has a million records.  Two keys with one hash count as one;
with a million keys the odds of that are 1 to 37 million.
"""

from __future__ import annotations

from array import array

__all__ = ["RecordIndex"]

_FIRST = 1024


class RecordIndex:
    """Map from strings to numbers of 0 .. 2**64 - 1, valid in this process only."""

    __slots__ = ("_count", "_hashes", "_values")

    def __init__(self) -> None:
        self._count = 0
        self._hashes = array("Q", bytes(8 * _FIRST))
        self._values = array("Q", bytes(8 * _FIRST))

    def __len__(self) -> int:
        return self._count

    def get(self, key: str) -> int | None:
        """Return the number of `key`, or None."""
        wanted = _hash(key)
        slot = self._slot(wanted)
        return self._values[slot] if self._hashes[slot] == wanted else None

    def put(self, key: str, value: int) -> bool:
        """Set the number of a new `key`; False, and no change, if it has one."""
        wanted = _hash(key)
        slot = self._slot(wanted)
        if self._hashes[slot] == wanted:
            return False
        self._hashes[slot], self._values[slot] = wanted, value
        self._count += 1
        if self._count * 5 > len(self._hashes) * 3:
            self._grow()
        return True

    def move(self, key: str, value: int) -> None:
        """Set the number of `key`, new or not."""
        if not self.put(key, value):
            self._values[self._slot(_hash(key))] = value

    def _slot(self, wanted: int) -> int:
        hashes = self._hashes
        mask = len(hashes) - 1
        slot = wanted & mask
        while hashes[slot] and hashes[slot] != wanted:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        hashes, values = self._hashes, self._values
        self._hashes = array("Q", bytes(16 * len(hashes)))
        self._values = array("Q", bytes(16 * len(values)))
        for wanted, value in zip(hashes, values, strict=True):
            if wanted:
                slot = self._slot(wanted)
                self._hashes[slot], self._values[slot] = wanted, value


def _hash(key: str) -> int:
    return (hash(key) & 0xFFFF_FFFF_FFFF_FFFF) or 1
