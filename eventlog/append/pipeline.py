"""Commands that are waited for together: one append, made at the end of the block."""

from __future__ import annotations

import asyncio
import time
import weakref
from threading import get_ident, local
from types import TracebackType
from typing import Self

from eventlog.append.pending import AcceptedCommand
from eventlog.append.writer import SessionWriter
from eventlog.errors import BusyError

__all__ = ["Pipeline"]

PATIENCE = 30.0
"""Seconds that another thread's command waits for the end of a pipeline."""
POLL = 0.002
"""Seconds between two looks whether it has ended."""


class Pipeline:
    """What the commands inside a `with session.pipeline()` have accepted; waits for all of it at the end of the outermost.

    All of it is one append, unless the block itself reads what it said, which commits that first.  Other threads' commands for this session wait
    for the end of the block.
    """

    __slots__ = (
        "__weakref__",
        "_depth",
        "_outer",
        "_places",
        "_since",
        "_thread",
        "_waits",
        "_writer",
        "commands",
        "error",
    )

    def __init__(self, writer: SessionWriter, places: local, *, waits: bool) -> None:
        self._writer = writer
        self.commands: list[AcceptedCommand] = []
        self.error: BusyError | None = None
        """What another thread met that has waited too long for its end."""
        self._places = places
        """Where a thread's commands look for the pipeline they are in."""
        self._waits = waits
        self._depth = 0
        self._outer: Pipeline | None = None
        self._thread = get_ident()
        self._since = time.monotonic()

    def __enter__(self) -> Self:
        if not self._depth:
            self._outer = getattr(self._places, "pipeline", None)
            self._places.pipeline = self
            if self._waits:
                self._writer.open_pipeline(weakref.ref(self))
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self._places.pipeline = self._outer
            if self._waits:
                self._writer.pipeline = None
            if kind is not None and self.commands:
                self._writer.wake()  # nobody waits, so nothing else would have it flushed
            elif self._waits:
                self.commit()

    def commit(self) -> None:
        """Block until all of it is durable; raises what went wrong first, and then nothing of it is committed."""
        for command in self.commands[-1:]:
            self._writer.wait(command)

    async def committed(self) -> None:
        """Wait as `commit` does, without blocking the event loop."""
        for command in self.commands[-1:]:
            await self._writer.waited(command)

    def is_others(self) -> bool:
        """Whether it is open in another thread than this."""
        return self._thread != get_ident()

    def wait(self) -> BusyError | None:
        """Let the thread whose pipeline this is go on for a moment; returns an error when that takes too long."""
        time.sleep(POLL)
        return self._impatience()

    async def waited(self) -> BusyError | None:
        """Wait as `wait` does, without blocking the event loop."""
        await asyncio.sleep(POLL)
        return self._impatience()

    def _impatience(self) -> BusyError | None:
        if time.monotonic() > self._since + PATIENCE:
            self.error = BusyError(
                f"session {self._writer.session}: another thread's pipeline has been open for more than {PATIENCE:g} s"
            )
        return self.error
