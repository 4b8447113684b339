"""One pass over a session's events: its steps, its jumps, where its messages begin.

The pass goes on where it stopped, so a session that grows costs what is new.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

import msgspec

from eventlog import events as ev
from eventlog.codec.deltas import DeltaRun
from eventlog.values import Opaque, Reasoning, Text, Tokens, Tool
from projections.inspector.comparison import shortened
from projections.inspector.large_text import MOST
from projections.reports.timeline import TimelineBuilder, TimelineEntry
from projections.reports.usage import UsageTotals

if TYPE_CHECKING:
    from eventlog import Session
    from eventlog.codec.decoded import Span
    from eventlog.models.catalogue import ModelCatalogue
    from eventlog.values import Model

JUMPS = frozenset(
    (
        ev.SessionForked,
        ev.Pruned,
        ev.Restored,
        ev.MediaReplaced,
        ev.MediaRestored,
        ev.CompactionCompleted,
        ev.CompactionFailed,
        ev.CompactionUndone,
        ev.RolledBack,
        ev.MessageRemoved,
        ev.PartRedacted,
        ev.RecordForgotten,
        ev.Settled,
        ev.InterruptRequested,
        ev.CallAsked,
        ev.CallAnswered,
        ev.MessageFinished,
    )
)
"""Events that change the view, or where the conversation goes."""

_ANSWERS = {"allow": "allowed", "deny": "denied", "stop": "stopped"}


class ToolRun(msgspec.Struct):
    """A call of a step: its part, its tool, when it ran, and who answered if it waited."""

    part: str
    tool: str
    began: int | None = None
    ended: int | None = None
    failed: bool = False
    answer: str = ""


class StepRow(msgspec.Struct):
    """One model call as it was recorded."""

    number: int
    version: int
    time: int
    message: str
    purpose: str
    model: str
    counted: int | None
    view_version: int | None
    ended: int | None = None
    failed: bool = False
    first: int | None = None
    """When the first part of the answer began."""
    tools: list[ToolRun] = msgspec.field(default_factory=list["ToolRun"])
    usage: UsageTotals = msgspec.field(default_factory=UsageTotals)
    """Recorded usage; some programs record it in pieces."""

    def as_json(self, *, hidden: bool) -> dict[str, Any]:
        """The row as JSON values."""
        return {**shortened(msgspec.to_builtins(self), MOST), **usage_json(self.usage), "hidden": hidden}


def usage_json(usage: UsageTotals) -> dict[str, Any]:
    """Return a sum; `reported` are the tokens of requests, cached ones included."""
    read = usage.input + usage.cache_read + usage.cache_write or max(0, usage.total - usage.output)
    return {
        **{name: getattr(usage, name) for name in Tokens.__struct_fields__[:5]},
        "calls": usage.calls,
        "unknown": usage.unknown,
        "cost": str(usage.cost) if usage.calls > usage.unpriced else None,
        "estimate": str(usage.estimate) if usage.estimated else None,
        "reported": read if usage.calls else None,
    }


class History:
    """Steps, jumps and beginnings of messages of one session, up to a version."""

    def __init__(self, models: ModelCatalogue | None = None) -> None:
        """`models` estimate the cost of calls that have none."""
        self.version: int = 0
        self.steps: list[StepRow] = []
        self.jumps: list[TimelineEntry] = []
        self.messages: list[int] = []
        """Versions at which messages begin, ascending."""
        self.usage: UsageTotals = UsageTotals()
        """All usage, also of calls that no step shows."""
        self.attached: dict[str, int] = {}
        """By call the version of its result, if that has files."""
        self._models = models
        self._builder = TimelineBuilder()
        self._models_of: dict[str, Model | None] = {}
        self._open: dict[str, StepRow] = {}
        """The newest step of each message."""
        self._runs: dict[str, ToolRun] = {}
        """The calls that have no result yet."""

    def catch_up(self, session: Session) -> None:
        """Take in what was appended since the last call."""
        version = session.version
        if version == self.version:
            return
        for span in session.reader.spans(self.version, version):
            self._add(span)
        self.version = version

    def begins_within(self, first: int, last: int) -> bool:
        """Whether a message begins at one of these versions."""
        place = bisect_left(self.messages, first)
        return place < len(self.messages) and self.messages[place] <= last

    def _add(self, span: Span) -> None:
        item = span.item
        if isinstance(item, DeltaRun):
            return
        match item:
            case ev.AssistantMessageStarted():
                self._models_of[item.message] = item.model
                self.messages.append(span.first)
            case ev.UserMessageAdded():
                self.messages.append(span.first)
            case ev.StepStarted():
                self._begin(item, span)
            case ev.StepFinished() if item.message in self._open:
                self._open[item.message].ended = span.time
            case ev.UsageRecorded():
                self.usage.add(item, self._models)
                if (row := self._open.get(item.message or "")) is not None:
                    row.usage.add(item, self._models)
                    row.failed = item.failed
            case ev.PartStarted() if item.message in self._open:
                self._answer(self._open[item.message], item, span.time)
            case ev.ToolRunning() if item.part in self._runs:
                self._runs[item.part].began = span.time
            case ev.CallAnswered() if item.part in self._runs:
                self._runs[item.part].answer = _ANSWERS[item.verdict] + (item.by and f" by {item.by}")
            case ev.ToolCompleted() | ev.ToolFailed():
                if isinstance(item, ev.ToolCompleted) and item.attachments:
                    self.attached[item.part] = span.first
                if (run := self._runs.pop(item.part, None)) is not None:
                    run.ended, run.failed = span.time, isinstance(item, ev.ToolFailed)
            case _:
                pass
        if type(item) in JUMPS or (isinstance(item, ev.PartStarted) and isinstance(item.kind, Opaque)):
            self.jumps += self._builder.entries(item, span.first, span.time)

    def _answer(self, row: StepRow, event: ev.PartStarted, time: int) -> None:
        if not isinstance(event.kind, (Text, Reasoning, Tool)):
            return
        row.first = time if row.first is None else row.first
        if isinstance(event.kind, Tool):
            run = self._runs[event.part] = ToolRun(event.part, event.kind.tool)
            row.tools.append(run)

    def _begin(self, event: ev.StepStarted, span: Span) -> None:
        row = StepRow(
            number=len(self.steps) + 1,
            version=span.first,
            time=span.time,
            message=event.message,
            purpose=event.purpose,
            model=str(self._models_of.get(event.message) or ""),
            counted=event.counted,
            view_version=event.view_version,
        )
        self.steps.append(row)
        self._open[event.message] = row


def is_hidden(ranges: list[tuple[int, int]], version: int) -> bool:
    """Return whether a version is in none of the effective ranges, which ascend."""
    place = bisect_right(ranges, (version, 1 << 62)) - 1
    return place < 0 or ranges[place][1] < version
