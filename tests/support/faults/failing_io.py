"""Journal I/O that fails at a chosen call, once or until it is healed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from threading import Lock
from typing import Any

import lmdb

from tests.support.watched_io import T, WatchedIO

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


class FailingIO(WatchedIO):
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

    def _due(self, call: str, given: tuple[Any, ...]) -> bool:
        needs_room = call == "open" and self._fault in {"ENOSPC", "EDQUOT"}
        with self._lock:
            if not self._at or call not in _WHERE[self._fault] or (needs_room and not given[1] & os.O_CREAT):
                return False
            self._counted += 1
            due = self._counted == self._at or (self._lasting and self._counted > self._at)
            if due:
                self.met.append(call)
            return due

    def call(self, name: str, run: Callable[..., T], *given: Any) -> T:
        """Make the call, fail, or both; LMDB's error is raised at a point of a fold."""
        if not self._due(name, given):
            return run(*given)
        if self._fault == "short":
            fd, data, offset = given
            return run(fd, bytes(data)[: len(bytes(data)) // 2], offset)
        if self._fault == "late":
            run(*given)
        code: int = errno.EIO if self._fault == "late" else getattr(errno, self._fault)
        if name != "reach":
            raise OSError(code, os.strerror(code))
        error = lmdb.Error(f"{given[0]}: {self._fault}")
        vars(error)["code"] = code
        raise error
