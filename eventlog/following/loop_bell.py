"""A bell that wakes a task of an event loop, when a watch rings."""

from __future__ import annotations

from contextlib import suppress

__all__ = ["LoopBell"]


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
