"""What keeps other threads from committing for a session while a pipeline is open."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import get_ident

from eventlog.append.pending import AcceptedCommand
from eventlog.errors import BusyError

__all__ = ["Gate"]

PATIENCE = 30.0
"""Seconds that another thread's command waits for the end of a pipeline."""
POLL = 0.002
"""Seconds between two looks whether it has ended."""


class Gate:
    """Shut by the thread that makes it, until that opens it or it is forgotten.

    Other threads wait in front of it as for an append.
    """

    __slots__ = ("__weakref__", "_since", "_thread", "commands", "error")

    def __init__(self, commands: Sequence[AcceptedCommand]) -> None:
        self.commands = commands
        """What the pipeline has accepted."""
        self.error: BusyError | None = None
        """What a thread met that has waited too long."""
        self._thread = get_ident()
        self._since = time.monotonic()

    def is_others(self) -> bool:
        """Whether another thread has shut it."""
        return self._thread != get_ident()

    def wait(self) -> BusyError | None:
        """Let the other thread go on for a moment; returns an error when that takes too long."""
        time.sleep(POLL)
        return self._impatience()

    async def waited(self) -> BusyError | None:
        """Wait as `wait` does, without blocking the event loop."""
        import asyncio  # dear to import, and here it is loaded already

        await asyncio.sleep(POLL)
        return self._impatience()

    def _impatience(self) -> BusyError | None:
        if time.monotonic() > self._since + PATIENCE:
            self.error = BusyError(
                f"another thread's pipeline has been open for more than {PATIENCE:g} s: end it first"
            )
        return self.error
