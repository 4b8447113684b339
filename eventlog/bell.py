"""Bells that wake a thread, or a task of an event loop."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock


class Bell:
    """Wakes a thread.  A plain lock: an interrupt inside an `Event` may leave a lock held."""

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


class LoopBell:
    """Wakes a task of an event loop; made in that loop."""

    def __init__(self) -> None:
        import asyncio  # slow to import, and here it is loaded already

        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake the task; any thread may call it."""
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._event.set)

    async def wait(self, longest: float | None) -> None:
        """Sleep until it rings, or for `longest` seconds."""
        import asyncio

        with suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await self._event.wait()
        self._event.clear()
