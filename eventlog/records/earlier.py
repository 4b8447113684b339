"""Facts of earlier appends that command state has not, read when a mapping asks."""

from __future__ import annotations

from itertools import islice

from eventlog import events as ev
from eventlog.session.reader import SessionReader
from eventlog.values import Tokens, Tool, Usage

__all__ = ["Earlier"]


class Earlier:
    """The appends of a session up to a version."""

    def __init__(self, reader: SessionReader, at: int) -> None:
        self._reader = reader
        self._at = at

    def event(self, version: int) -> ev.Event:
        """Return the event of a version."""
        return next(iter(self._reader.events(version - 1, version))).event

    def call(self, part: str) -> tuple[str, str]:
        """Return tool and input of a call that a feed told: its first two events."""
        version = self._reader.find(part)
        events = [recorded.event for recorded in islice(self._reader.events(version - 1, version + 1), 2)]
        tool, given = "", ""
        for event in events:
            if isinstance(event, ev.PartStarted) and isinstance(event.kind, Tool):
                tool = event.kind.tool
            elif isinstance(event, ev.ToolRunning) and event.part == part:
                given = self._reader.text(event.input)
        return tool, given

    def spent(self, message: str) -> Usage:
        """Return the usage recorded for an answer; reads the events since it began."""
        total, cost = Tokens(), None
        for span in self._reader.history(self._at, self._reader.find(message) - 1):
            event = span.item
            if not isinstance(event, ev.UsageRecorded) or event.message != message:
                continue
            old, new = total, event.usage.tokens
            total = Tokens(
                old.input + new.input,
                old.output + new.output,
                old.reasoning + new.reasoning,
                old.cache_read + new.cache_read,
                old.cache_write + new.cache_write,
                new.total if old == Tokens() else None,
            )
            if event.usage.cost is not None:
                cost = event.usage.cost if cost is None else cost + event.usage.cost
        return Usage(total, cost)

    def has_prompt(self) -> bool:
        """Whether a record has told a system prompt; reads events until one has, or all."""
        told = 0
        for span in self._reader.history(self._at):
            event = span.item
            if isinstance(event, ev.SystemPromptSet):
                told = span.first
            elif isinstance(event, ev.RecordKept) and told >= max(1, span.first - event.events):
                return True
        return False

    def title(self) -> str:
        """Return the session's title."""
        return self._reader.info.title
