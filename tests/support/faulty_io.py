"""Journal I/O whose calls fail as a test says, as the operating system refuses them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.watched_io import T, WatchedIO


class FaultyIO(WatchedIO):
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

    def call(self, name: str, run: Callable[..., T], *given: Any) -> T:
        """Make the call, or fail as planned: a write of which a part is made, too."""
        if name in {"pwrite", "fdatasync"}:
            self.calls.append((name, len(bytes(given[1])) if name == "pwrite" else 0))
        point = given[0] if name == "reach" else name
        if point in self.refused:
            self.met += 1
            raise self.refused[point]
        fault = self.faults.pop(0)[1] if self.faults and self.faults[0][0] == point else None
        if name == "pwrite" and fault is not None:
            data = bytes(given[1])
            size = len(data)
            part = {"short": max(size // 3, 1), "nothing": 0, "late": size}.get(str(fault), size // 2)
            done = run(given[0], data[:part], given[2])
            if fault in {"short", "nothing"}:
                return done
            fault = errno.ENOSPC if fault == "late" else fault
        if isinstance(fault, int):
            raise OSError(fault, os.strerror(fault))
        if name == "unlink" and Path(given[0]).is_file():
            self.removed.append(Path(given[0]).read_bytes())
        return run(*given)
