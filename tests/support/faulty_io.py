"""Journal I/O whose calls fail as a test says, as the operating system refuses them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from eventlog.log.embedded.filesystem import JournalIO


class FaultyIO(JournalIO):
    """Journal I/O that records its calls, and fails those that `faults` or `refused` name."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        """Writes, each with its size, and flushes."""
        self.faults: list[tuple[str, object]] = []
        """Faults in order, once each: a method, and an error number; None lets the call through."""
        self.refused: dict[str, Exception] = {}
        """Errors of all calls of a method, or at a point of a fold, while they are here."""
        self.met = 0
        """Calls that were refused."""
        self.removed: list[bytes] = []
        """Contents of removed files."""

    def _fault(self, name: str) -> object:
        if name in self.refused:
            self.met += 1
            raise self.refused[name]
        if self.faults and self.faults[0][0] == name:
            return self.faults.pop(0)[1]
        return None

    def _meet(self, name: str) -> None:
        if isinstance(fault := self._fault(name), int):
            raise OSError(fault, os.strerror(fault))

    def open(self, path: str, flags: int) -> int:
        """Open, or fail as planned."""
        self._meet("open")
        return super().open(path, flags)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read, or fail."""
        self._meet("pread")
        return super().pread(fd, size, offset)

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        """Write, or fail."""
        self.calls.append(("pwrite", len(data)))
        fault = self._fault("pwrite")
        if fault == "short":
            return super().pwrite(fd, bytes(data)[: max(len(data) // 3, 1)], offset)
        if fault == "nothing":
            return 0
        if fault == "late":
            super().pwrite(fd, data, offset)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if isinstance(fault, int):
            super().pwrite(fd, bytes(data)[: len(data) // 2], offset)
            raise OSError(fault, os.strerror(fault))
        return super().pwrite(fd, data, offset)

    def fdatasync(self, fd: int) -> None:
        """Flush, or fail."""
        self.calls.append(("fdatasync", 0))
        self._meet("fdatasync")
        super().fdatasync(fd)

    def rename(self, old: str, new: str) -> None:
        """Rename, or fail."""
        self._meet("rename")
        super().rename(old, new)

    def sync_directory(self, path: str) -> None:
        """Flush names, or fail."""
        self._meet("sync_directory")
        super().sync_directory(path)

    def blank(self, path: str) -> None:
        """Overwrite, or fail."""
        self._meet("blank")
        super().blank(path)

    def unlink(self, path: str) -> None:
        """Remove, or fail."""
        self._meet("unlink")
        if Path(path).is_file():
            self.removed.append(Path(path).read_bytes())
        super().unlink(path)

    def reach(self, point: str) -> None:
        """Reach a point of a fold, or fail there."""
        self._meet(point)
