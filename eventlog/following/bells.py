"""Bells: how a watch wakes the thread, or the event loop, that its subscription sleeps in."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from threading import Lock

__all__ = ["LoopBell", "ThreadBell"]


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


class LoopBell:
    """Wakes a task of an event loop; made in that loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake the task; any thread may call it."""
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._event.set)

    async def wait(self, longest: float | None) -> None:
        """Sleep until it rings, or for `longest` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await self._event.wait()
        self._event.clear()
