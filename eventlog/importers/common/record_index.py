"""Map from record keys to small numbers, at 27 bytes an entry.

Keys are stored as 64-bit hashes in an open-addressing table: a dict of strings would cost ten times
as much, and a file of hundreds of MB has a million records.  Two keys with one hash count as one;
with a million keys the odds of that are 1 to 37 million.
"""

from __future__ import annotations

from array import array

_FIRST = 1024
_WORD = 0xFFFF_FFFF_FFFF_FFFF


class RecordIndex:
    """Map from strings or bytes to numbers of 0 .. 2**64 - 1, valid in this process only."""

    __slots__ = ("_count", "_hashes", "_values")

    def __init__(self) -> None:
        self._count = 0
        self._hashes = array("Q", bytes(8 * _FIRST))
        self._values = array("Q", bytes(8 * _FIRST))

    def get(self, key: str | bytes) -> int | None:
        """Return the number of `key`, or None."""
        hashes = self._hashes
        mask = len(hashes) - 1
        wanted = (hash(key) & _WORD) or 1
        slot = wanted & mask
        while (found := hashes[slot]) != wanted:
            if not found:
                return None
            slot = (slot + 1) & mask
        return self._values[slot]

    def put(self, key: str | bytes, value: int) -> bool:
        """Set the number of a new `key`; False, and no change, if it has one."""
        return self._put((hash(key) & _WORD) or 1, value, anew=False)

    def move(self, key: str | bytes, value: int) -> None:
        """Set the number of `key`, new or not."""
        self._put((hash(key) & _WORD) or 1, value, anew=True)

    def _put(self, wanted: int, value: int, *, anew: bool) -> bool:
        hashes = self._hashes
        mask = len(hashes) - 1
        slot = wanted & mask
        while (found := hashes[slot]) != wanted:
            if not found:
                hashes[slot], self._values[slot] = wanted, value
                self._count += 1
                if self._count * 5 > mask * 3:
                    self._grow()
                return True
            slot = (slot + 1) & mask
        if anew:
            self._values[slot] = value
        return False

    def _grow(self) -> None:
        hashes, values = self._hashes, self._values
        self._hashes = array("Q", bytes(16 * len(hashes)))
        self._values = array("Q", bytes(16 * len(values)))
        self._count = 0
        for wanted, value in zip(hashes, values, strict=True):
            if wanted:
                self._put(wanted, value, anew=True)
