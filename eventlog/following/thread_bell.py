"""A bell that wakes a thread, when a watch rings."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock

__all__ = ["ThreadBell"]


class ThreadBell:
    """Wakes a thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._lock.acquire()

    def ring(self) -> None:
        """Wake the thread, or let its next `wait` return at once."""
        with suppress(RuntimeError):  # it rings already
            self._lock.release()

    def wait(self, timeout: float | None) -> None:
        """Block until it rings, or for `timeout` seconds."""
        self._lock.acquire(timeout=-1 if timeout is None else timeout)
