"""How far the journal is durable, shared by all processes of a store through 16 mapped bytes.

A frame that is written but not yet flushed must not be seen by anyone, and a reader must not take the writers'
lock.  So the writer stores here, after each flush, the address up to which every frame is on disk; readers
compare (no system call), and read the journal up to there and no further.  The two words are the address and
its complement; a pair that does not fit is being written, or was never written.

The file itself is never flushed: after a power failure it may be older than the journal (then the tail is read
to its end, as without a mark), but never newer.  A journal that ends before the mark has lost something.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Mark"]

_WORDS = struct.Struct("<QQ")
_ONES = (1 << 64) - 1
_TRIES = 100


class Mark:
    """The mapped mark.  `last` is the raw value this process has acted upon."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
        try:
            if not read_only and os.fstat(fd).st_size < _WORDS.size:
                os.ftruncate(fd, _WORDS.size)
            access = mmap.ACCESS_READ if read_only else mmap.ACCESS_WRITE
            self._map: mmap.mmap | bytes = mmap.mmap(fd, _WORDS.size, access=access)
        finally:
            os.close(fd)
        self._last = b""

    def changed(self) -> bool:
        """Whether somebody else has moved the mark since `settle`."""
        return self._map[:16] != self._last

    def get(self) -> int:
        """The address up to which the journal is durable; 0 if that is unknown."""
        for _ in range(_TRIES):
            raw = self._map[:16]
            words: tuple[int, int] = _WORDS.unpack(raw)
            address, complement = words
            if address ^ complement == _ONES:
                self._last = raw
                return address
            time.sleep(0)
        return 0

    def forget(self) -> None:
        """What was got could not be acted upon: the mark counts as changed."""
        self._last = b""

    def set(self, address: int) -> None:
        """Move the mark; only for the holder of the writers' lock, after a flush."""
        self._last = raw = _WORDS.pack(address, address ^ _ONES)
        assert isinstance(self._map, mmap.mmap)
        self._map[:16] = raw

    def close(self) -> None:
        """Unmap; from then on nothing changes."""
        mapped, self._map = self._map, self._last
        if isinstance(mapped, mmap.mmap):
            mapped.close()
