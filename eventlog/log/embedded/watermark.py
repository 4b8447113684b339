"""How far the journal is durable, shared by all processes of a store through 32 mapped bytes.

A frame that is written but not yet flushed must not be seen by anyone, and a reader must not take the writers'
lock.  So the writer stores here, after each flush, the address up to which every frame is on disk; readers
compare (no system call), and read the journal up to there and no further.  The two words are the address and
its complement; a pair that does not fit is being written, or was never written.

The other two words say in the same way how far the store was folded when it was last closed in order.  If that is where
the journal ends, nothing has been done to the store since.

The file itself is never flushed: after a power failure it may be older than the journal (then the tail is read
to its end, as without a mark), but never newer.  A journal that ends before the mark has lost something.  The first
opening for writing makes the file, once it has read the tail: an opening that is refused leaves none, and a reader goes without until then.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from eventlog.log.embedded.filesystem import allocate

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Watermark", "is_marked"]

_WORDS = struct.Struct("<QQ")
_BYTES = 2 * _WORDS.size
_ONES = (1 << 64) - 1
_TRIES = 100


class Watermark:
    """The mapped mark.  `last` is the raw value this process has acted upon."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self._path = str(path)
        self.words: mmap.mmap | bytes = self._mapped(read_only=read_only)
        self.short = not isinstance(self.words, mmap.mmap)
        self.last = b""
        self._unknown = b""

    def _mapped(self, *, read_only: bool) -> mmap.mmap | bytes:
        """The words; zeros while a file that may only be read is missing, or too short to be mapped, as a power failure leaves it."""
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        try:
            fd = os.open(self._path, flags | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            if not read_only:
                raise
            return bytes(_BYTES)
        try:
            if os.fstat(fd).st_size < _BYTES:
                if read_only:
                    return bytes(_BYTES)
                allocate(fd, _BYTES)
            access = mmap.ACCESS_READ if read_only else mmap.ACCESS_WRITE
            return mmap.mmap(fd, _BYTES, access=access)
        finally:
            os.close(fd)

    def changed(self) -> bool:
        """Whether another has moved the mark since `settle`."""
        if self.short and os.access(self._path, os.R_OK):  # a writer may have made it since
            with suppress(OSError):  # the system has no descriptor to give now: the next call looks again
                self.words = self._mapped(read_only=True)
                self.short = not isinstance(self.words, mmap.mmap)
        return self.words[:16] != self.last

    def get(self) -> int:
        """The address up to which the journal is durable; 0 if that is unknown."""
        raw = b""
        for _ in range(_TRIES):
            raw = self.words[:16]
            words: tuple[int, int] = _WORDS.unpack(raw)
            address, complement = words
            if address ^ complement == _ONES:
                return address
            time.sleep(0)
        self._unknown = raw
        return 0

    def settle(self, address: int) -> None:
        """What was got has been acted upon: only now, else another thread would take what it is about to see for all there is."""
        self.last = _WORDS.pack(address, address ^ _ONES) if address else self._unknown

    def forget(self) -> None:
        """What was got could not be acted upon: the mark counts as changed."""
        self.last = b""

    def set(self, address: int) -> None:
        """Move the mark; only for the holder of the writers' lock, after a flush."""
        self.last = raw = _WORDS.pack(address, address ^ _ONES)
        assert isinstance(self.words, mmap.mmap)
        self.words[:16] = raw

    def closed_at(self) -> int:
        """How far the store was folded when it was last closed in order; 0 if that is unknown."""
        address, complement = _WORDS.unpack(self.words[16:32])
        return address if address ^ complement == _ONES else 0

    def set_closed(self, address: int) -> None:
        """The store is folded up to here, and is being closed."""
        assert isinstance(self.words, mmap.mmap)
        self.words[16:32] = _WORDS.pack(address, address ^ _ONES)

    def close(self) -> None:
        """Unmap; from then on nothing changes."""
        self.short = False
        mapped, self.words = self.words, self.last
        if isinstance(mapped, mmap.mmap):
            mapped.close()


def is_marked(directory: Path) -> bool:
    """Return whether a store has a mark; one that a power failure left too short to be mapped is none."""
    with suppress(FileNotFoundError):
        return (directory / "mark").stat().st_size >= _BYTES
    return False
