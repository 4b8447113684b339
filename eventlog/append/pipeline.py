"""Commands that are waited for together: one append, made at the end of the block."""

from __future__ import annotations

import weakref
from threading import local
from types import TracebackType
from typing import Self

from eventlog.append.gate import Gate
from eventlog.append.pending import AcceptedCommand
from eventlog.append.writer import SessionWriter

__all__ = ["Pipeline"]


class Pipeline:
    """The commands of a `with session.pipeline()` block, committed at the end of it.

    All of them are one append, unless the block itself reads the session, which commits the earlier
    ones first. Other threads' commands for this session wait for the end of the block.
    """

    __slots__ = ("__weakref__", "_depth", "_gate", "_outer", "_places", "_waits", "_writer", "commands")

    def __init__(self, writer: SessionWriter, places: local, *, waits: bool) -> None:
        self._writer = writer
        self.commands: list[AcceptedCommand] = []
        """The commands accepted so far, which the writer adds."""
        self._gate: Gate | None = None
        self._places = places
        """Where a thread's commands find the pipeline they are in.

        A weak reference, so that a pipeline whose block an interrupt ended is gone with the block.
        """
        self._waits = waits
        self._depth = 0
        self._outer: weakref.ref[Pipeline] | None = None

    @property
    def is_open(self) -> bool:
        """Whether its block goes on: another thread may have closed it."""
        return self._depth > 0

    def __enter__(self) -> Self:
        if not self._depth:
            if self._waits:
                self._gate = Gate()
                self._writer.shut(self._gate)
            self._outer = getattr(self._places, "pipeline", None)
            self._places.pipeline = weakref.ref(self)
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            place = getattr(self._places, "pipeline", None)
            if place is not None and place() is self:  # not where another thread closes it, as of a generator
                self._places.pipeline = self._outer
            if self._waits:
                if kind is None:
                    self._own()
                self._writer.open_gate()
            if kind is not None and self.commands:
                self._writer.wake()  # no caller waits, so nothing else would have it flushed
            elif kind is None and self._waits:
                self.commit()

    def commit(self) -> None:
        """Block until all commands are durable; raises why none of them is."""
        for command in self.commands[-1:]:
            self._writer.wait(command)

    async def committed(self) -> None:
        """Wait as `commit` does, without blocking the event loop."""
        self._own()
        for command in self.commands[-1:]:
            await self._writer.waited(command)

    def _own(self) -> None:
        """Deliver the commands' outcomes to the caller of this block."""
        for command in self.commands:
            command.owned = True
