"""The locks of a store: who appends to the journal, and who has the store open.

One process at a time appends. Two `flock`s. `turn` is taken before `lock` and given back once
`lock` is held, so that a process that has just committed has to queue behind one that already
waits: two busy processes alternate. The kernel releases both when a process dies. Waiting is
polling, because a blocking `flock` cannot be bounded in time.

A process that has the store open holds a shared lock on `open`, so that the first one knows that it
is alone.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock
from functools import partial
from typing import TYPE_CHECKING

from eventlog.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SHORTEST = 50e-6
_LONGEST = 1e-3


class WriterLock:
    """The pair of locks, for the leader in this process."""

    def __init__(self, directory: Path, timeout: float) -> None:
        self._directory = directory
        self._timeout = timeout
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._turn = os.open(directory / "turn", flags, 0o600)
        try:
            self._lock = os.open(directory / "lock", flags, 0o600)
        except BaseException:
            os.close(self._turn)
            raise
        self.release: Callable[[], object] = partial(flock, self._lock, LOCK_UN)
        """Give back the lock if it is held: one C call, safe at the beginning of a `finally`."""

    def acquire(self, deadline: float = 0.0) -> None:
        """Take the lock; `BusyError` after the timeout, or the deadline of a caller who waited.

        `release` must follow, also after an exception.
        """
        pause = _SHORTEST
        try:
            while True:
                try:
                    flock(self._turn, LOCK_EX | LOCK_NB)
                    flock(self._lock, LOCK_EX | LOCK_NB)
                except BlockingIOError:
                    deadline = deadline or time.monotonic() + self._timeout
                    if time.monotonic() > deadline:
                        raise BusyError(
                            f"another process has held the writers' lock of {self._directory} for {self._timeout:g} s"
                        ) from None
                    time.sleep(pause)
                    pause = min(pause * 1.5, _LONGEST)
                else:
                    return
        except OSError as error:
            raise BusyError(f"{self._directory} cannot be locked now: {error.strerror}") from error
        finally:
            flock(self._turn, LOCK_UN)

    def close(self) -> None:
        """Close both files, which releases their locks."""
        self.release = partial(bool)
        fds, self._turn, self._lock = (self._turn, self._lock), -1, -1
        for fd in fds:
            if fd >= 0:
                os.close(fd)


def try_shared(directory: Path) -> int | None:
    """Return a descriptor that keeps writers out until it is closed; None if one is at work."""
    fd = os.open(directory / "lock", os.O_RDONLY | os.O_CLOEXEC)
    try:
        flock(fd, LOCK_SH | LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return fd


class Presence:
    """A lock that shows other processes that this one has the store open, until it is closed."""

    def __init__(self, directory: Path, *, read_only: bool) -> None:
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        self.alone: bool = True
        """Whether no other has it open; then no other can open it before `share`."""
        try:
            self._fd = os.open(directory / "open", flags | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # a copy without it, which cannot be given one
            self._fd = os.open(directory / "format", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._take()
        except BaseException:
            os.close(self._fd)
            raise

    def _take(self) -> None:
        try:
            flock(self._fd, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            self.alone = False
            flock(self._fd, LOCK_SH)

    def share(self) -> None:
        """Let others in."""
        if self.alone:
            self.alone = False
            flock(self._fd, LOCK_SH)

    def alone_again(self) -> bool:
        """Return whether no other has the store open at its end: none can open it before `close`.

        Under the writers' lock, so that of two that end neither misses the other: a lock that
        cannot be changed is lost, and has to be taken again.
        """
        try:
            flock(self._fd, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            with suppress(BlockingIOError):  # another process just opens it, and waits for the writers' lock
                flock(self._fd, LOCK_SH | LOCK_NB)
            return False
        return True

    def stands_in(self, directory: Path) -> bool:
        """Return whether the locked file still lies in this directory, or one that is the same."""
        held = os.fstat(self._fd)
        for name in ("open", "format"):
            with suppress(OSError):
                if os.path.samestat(held, (directory / name).stat()):
                    return True
        return False

    def close(self) -> None:
        """Show that this process has the store open no more."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
