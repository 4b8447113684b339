"""Commands that are waited for together: one append, made at the end of the block."""

from __future__ import annotations

import weakref
from contextlib import suppress
from threading import local
from types import TracebackType
from typing import Self

from eventlog.append.backoff import Gate
from eventlog.append.command import Unit
from eventlog.append.writer import SessionWriter
from eventlog.errors import EventlogError


class OpenPipelines(local):
    """For each thread the pipeline of one session that the thread's commands are in.

    The reference is weak: a pipeline whose block an interrupt ended is gone with the block.
    """

    innermost: weakref.ref[Pipeline] | None = None

    def current(self) -> Pipeline | None:
        """Return the running thread's pipeline, or None."""
        innermost = self.innermost
        if innermost is None:
            return None
        pipeline = innermost()
        return pipeline if pipeline is not None and pipeline.is_open else None


class Pipeline:
    """The commands of a `with session.pipeline()` block, committed at the end of it.

    All of them are one append, unless the block itself reads the session, which commits the earlier
    ones first. Other threads' commands for this session wait for the end of the block.
    """

    __slots__ = ("__weakref__", "_depth", "_gate", "_opened", "_outer", "_waits", "_writer", "unit")

    def __init__(self, writer: SessionWriter, opened: OpenPipelines, *, waits: bool) -> None:
        self._writer = writer
        self.unit: Unit = Unit()
        """The commands accepted so far, which the writer adds."""
        self._gate: Gate | None = None
        self._opened = opened
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
                self._gate = Gate(self.unit)
                self._writer.shut(self._gate)
            self._outer = self._opened.innermost
            self._opened.innermost = weakref.ref(self)
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            innermost = self._opened.innermost
            if innermost is not None and innermost() is self:  # not where another thread closes it, as of a generator
                self._opened.innermost = self._outer
            if self._gate is not None:
                if kind is None:
                    self._own()
                with suppress(EventlogError):  # the wait for the commands meets it again
                    self._writer.open_gate(self._gate)
            if kind is not None and self.unit.commands:
                self._writer.wake()  # no caller waits, so nothing else would have it flushed
            elif kind is None and self._waits:
                self.commit()

    def commit(self) -> None:
        """Block until all commands are durable; raises why none of them is."""
        self._own()
        for command in self.unit.commands[-1:]:
            self._writer.wait(command)

    async def committed(self) -> None:
        """Wait as `commit` does, without blocking the event loop."""
        self._own()
        for command in self.unit.commands[-1:]:
            await self._writer.waited(command)

    def _own(self) -> None:
        """Deliver the commands' outcomes to the caller of this block."""
        for command in self.unit.commands:
            command.owned = True
