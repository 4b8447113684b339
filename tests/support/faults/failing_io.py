"""Journal I/O that fails at a chosen call, once or until it is healed."""

from __future__ import annotations

import errno
import os
from threading import Lock
from typing import TYPE_CHECKING

import lmdb

from eventlog.log.embedded.filesystem import JournalIO

if TYPE_CHECKING:
    from typing_extensions import Buffer

FAULTS = ("EIO", "ENOSPC", "EDQUOT", "EMFILE", "short", "late")
"""System errors; `short`: half a read or write; `late`: an error after the call."""

_ANY = ("open", "pread", "pwrite", "fdatasync", "rename", "unlink", "sync_directory", "reach")
_WHERE = {
    "EIO": _ANY,
    "ENOSPC": ("open", "pwrite", "fdatasync", "rename", "sync_directory", "reach"),
    "EDQUOT": ("open", "pwrite", "rename"),
    "EMFILE": ("open",),
    "short": ("pwrite",),
    "late": ("pwrite", "fdatasync", "rename", "unlink", "sync_directory"),
}
"""The calls that can fail this way; only they are counted."""


class FailingIO(JournalIO):
    """Fails the `at`-th fallible call with `fault`; if `lasting`, later ones until `heal`."""

    def __init__(self, fault: str, at: int, *, lasting: bool) -> None:
        self._fault = fault
        self._at = at
        self._lasting = lasting
        self._counted = 0
        self._lock = Lock()
        self.met: list[str] = []
        """The calls that failed."""

    def heal(self) -> None:
        """End the fault."""
        with self._lock:
            self._at = 0

    def _due(self, call: str) -> bool:
        with self._lock:
            if not self._at or call not in _WHERE[self._fault]:
                return False
            self._counted += 1
            due = self._counted == self._at or (self._lasting and self._counted > self._at)
            if due:
                self.met.append(call)
            return due

    def _error(self) -> OSError:
        code: int = errno.EIO if self._fault == "late" else getattr(errno, self._fault)
        return OSError(code, os.strerror(code))

    def open(self, path: str, flags: int) -> int:
        """Open, or fail."""
        needs_room = self._fault in {"ENOSPC", "EDQUOT"}
        if (flags & os.O_CREAT or not needs_room) and self._due("open"):
            raise self._error()
        return super().open(path, flags)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read, or fail."""
        if self._due("pread"):
            raise self._error()
        return super().pread(fd, size, offset)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        """Write, or fail, or write half."""
        if not self._due("pwrite"):
            return super().pwrite(fd, data, offset)
        if self._fault == "short":
            return super().pwrite(fd, memoryview(data)[: memoryview(data).nbytes // 2], offset)
        if self._fault == "late":
            super().pwrite(fd, data, offset)
        raise self._error()

    def fdatasync(self, fd: int) -> None:
        """Flush, or fail."""
        due = self._due("fdatasync")
        if not due or self._fault == "late":
            super().fdatasync(fd)
        if due:
            raise self._error()

    def rename(self, old: str, new: str) -> None:
        """Rename, or fail."""
        due = self._due("rename")
        if not due or self._fault == "late":
            super().rename(old, new)
        if due:
            raise self._error()

    def unlink(self, path: str) -> None:
        """Remove, or fail."""
        due = self._due("unlink")
        if not due or self._fault == "late":
            super().unlink(path)
        if due:
            raise self._error()

    def sync_directory(self, path: str) -> None:
        """Flush names, or fail."""
        due = self._due("sync_directory")
        if not due or self._fault == "late":
            super().sync_directory(path)
        if due:
            raise self._error()

    def reach(self, point: str) -> None:
        """Reach a point of the fold, or raise LMDB's error there."""
        if self._due("reach"):
            error = lmdb.Error(f"{point}: {self._fault}")
            vars(error)["code"] = getattr(errno, self._fault)
            raise error
