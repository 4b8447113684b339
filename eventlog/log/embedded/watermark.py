"""The watermark: how far the journal is durable, in 48 bytes mapped by all processes.

A frame that is written and not flushed must not be visible, and a reader takes no lock. So after
each flush the writer stores here the address up to which every frame is on disk; readers compare it
(no system call), and read the journal up to there. `FORMAT.md` describes the bytes. The bytes are
written to the file once more, as that wakes the processes that wait for it (`watchers.py`).

The file itself is never flushed: after a power failure it may be older than the journal (then the
journal is read to its end, as without a watermark), but never newer. A journal that ends before the
watermark has lost something. The first opening for writing makes the file once it has read the
journal; a reader does without until then. A mark names the generation of its journal
(`generations.py`): the mark of another one says nothing, nor does the address `_SWITCHING`, while a
rewriting makes the next one the store; a process that reads that looks into the file `generation`.
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

_WORDS = struct.Struct("<QQ")
MARK_BYTES = 3 * _WORDS.size
_ONES = (1 << 64) - 1
_TRIES = 100
_SWITCHING = _WORDS.pack(1, 1)


class Watermark:
    """The mapped watermark.  `last` is the raw value that this process has acted upon."""

    def __init__(self, path: Path, generation: int, *, read_only: bool) -> None:
        self.path: str = str(path)
        self._generation = _pair(generation)
        self._file = -1
        """The file of a mark that is moved here."""
        self.words: mmap.mmap | bytes = self._mapped(read_only=read_only)
        self.short: bool = not isinstance(self.words, mmap.mmap)
        self.last: bytes = b""
        self._unknown = b""

    def _mapped(self, *, read_only: bool) -> mmap.mmap | bytes:
        """Map the file; zeros while a read-only opening finds no mark.

        A power failure can leave the file too short to be mapped.
        """
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        try:
            fd = os.open(self.path, flags | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            if not read_only:
                raise
            return bytes(MARK_BYTES)
        try:
            if os.fstat(fd).st_size < MARK_BYTES:
                if read_only:
                    return bytes(MARK_BYTES)
                allocate(fd, MARK_BYTES)
            access = mmap.ACCESS_READ if read_only else mmap.ACCESS_WRITE
            words = mmap.mmap(fd, MARK_BYTES, access=access)
            if not read_only:
                self._file, fd = fd, -1
            return words
        finally:
            if fd >= 0:
                os.close(fd)

    @property
    def elsewhere(self) -> bool:
        """Whether the store may be of another generation than the mark was opened for."""
        words = self.words
        return isinstance(words, mmap.mmap) and (words[32:] != self._generation or words[:16] == _SWITCHING)

    def switch(self) -> None:
        """Say that the next generation becomes the store; only under the writers' lock."""
        assert isinstance(self.words, mmap.mmap)
        self.words[:16] = _SWITCHING

    def follow(self, generation: int) -> None:
        """Be the mark of a generation, which the process reads from now on."""
        self._generation = _pair(generation)

    def changed(self) -> bool:
        """Return whether another process has moved the watermark since `acknowledge`."""
        if self.short and os.access(self.path, os.R_OK):  # a writer may have made it since
            with suppress(OSError):  # no descriptor is free now: the next call tries again
                self.words = self._mapped(read_only=True)
                self.short = not isinstance(self.words, mmap.mmap)
        return self.words[:16] != self.last

    def get(self) -> int:
        """Return the address up to which the journal is durable; 0 if it is unknown."""
        raw = b""
        for _ in range(_TRIES):
            raw = self.words[:16]
            if self.elsewhere:  # after the address: the generation is written before it
                self._unknown = b""
                return 0
            words: tuple[int, int] = _WORDS.unpack(raw)
            address, complement = words
            if address ^ complement == _ONES:
                return address
            time.sleep(0)
        self._unknown = raw
        return 0

    def acknowledge(self, address: int) -> None:
        """Count an address as acted upon; call it once the frames up to there are visible.

        Earlier, another thread would read without them.
        """
        self.last = _pair(address) if address else self._unknown

    def forget(self) -> None:
        """Count the watermark as changed: its last value could not be acted upon."""
        self.last = b""

    def set(self, address: int) -> None:
        """Move the watermark; only for the holder of the writers' lock, after a flush."""
        self.last = raw = _pair(address)
        assert isinstance(self.words, mmap.mmap)
        if self.words[32:] != self._generation:
            self.words[16:32] = bytes(16)
            self.words[32:] = self._generation
        self.words[:16] = raw
        with suppress(OSError):  # the mark is moved; those who wait for it look again before long
            os.pwrite(self._file, raw, 0)

    def closed_at(self) -> int:
        """Return how far the store was folded at its last orderly close; 0 if it is unknown."""
        address, complement = _WORDS.unpack(self.words[16:32])
        return address if address ^ complement == _ONES else 0

    def set_closed(self, address: int) -> None:
        """Store that everything up to an address is folded and the store is being closed."""
        assert isinstance(self.words, mmap.mmap)
        self.words[16:32] = _pair(address)

    def close(self) -> None:
        """Unmap the file; from then on nothing changes."""
        self.short = False
        mapped, self.words = self.words, self.last
        if isinstance(mapped, mmap.mmap):
            mapped.close()
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def _pair(word: int) -> bytes:
    """Return a word and its complement, which a half-written pair does not match."""
    return _WORDS.pack(word, word ^ _ONES)


def marked_generation(directory: Path) -> int:
    """Return the generation that a store's mark is of; 0 without a mark of full length.

    A power failure can leave a mark too short to be mapped.
    """
    with suppress(FileNotFoundError), (directory / "mark").open("rb") as file:
        raw = file.read(MARK_BYTES)[32:]
        generation: int = _WORDS.unpack(raw)[0] if len(raw) == _WORDS.size else 0
        return generation if raw == _pair(generation) else 0
    return 0
