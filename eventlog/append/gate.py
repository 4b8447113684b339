"""A gate that keeps other threads from committing for a session while a pipeline is open."""

from __future__ import annotations

import time
from threading import get_ident

from eventlog.append.command import Unit
from eventlog.errors import BusyError

__all__ = ["Gate"]

PATIENCE = 30.0
"""Seconds that another thread's command waits for the end of a pipeline."""
POLL = 0.002
"""Seconds between two looks whether it has ended."""


class Gate:
    """A gate that one thread shuts, until it opens the gate or forgets it.

    Other threads wait in front of it as for an append.
    """

    __slots__ = ("__weakref__", "_since", "_thread", "unit")

    def __init__(self, unit: Unit) -> None:
        self.unit: Unit = unit
        """The pipeline's commands."""
        self._thread = get_ident()
        self._since = time.monotonic()

    def is_others(self) -> bool:
        """Return whether another thread has shut the gate."""
        return self._thread != get_ident()

    def wait(self) -> None:
        """Let the other thread go on for a moment."""
        time.sleep(POLL)

    async def waited(self) -> None:
        """Wait as `wait` does, without blocking the event loop."""
        import asyncio  # slow to import, and here it is loaded already

        await asyncio.sleep(POLL)

    def require_patience(self) -> None:
        """Raise `BusyError` once the gate has been shut for too long."""
        if time.monotonic() > self._since + PATIENCE:
            raise BusyError(
                f"another thread's pipeline has been open for more than {PATIENCE:g} s; nothing of this command was"
                " written: end the pipeline, then repeat the command"
            )
