"""A bell that wakes a thread.

A plain lock: an interrupt inside an `Event` may leave a lock held.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock

__all__ = ["Bell"]


class Bell:
    """Wakes a thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._lock.acquire()

    def ring(self) -> None:
        """Wake the thread, or let its next `wait` return at once."""
        with suppress(RuntimeError):  # it rings already
            self._lock.release()

    def wait(self, timeout: float | None) -> bool:
        """Block until it rings, or for `timeout` seconds; return whether it rang."""
        return self._lock.acquire(timeout=-1 if timeout is None else timeout)
