"""One pass over a session's events: its steps, its jumps, where its messages begin.

The pass goes on where it stopped, so a session that grows costs what is new.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

import msgspec

from eventlog import events as ev
from eventlog.codec.deltas import DeltaRun
from eventlog.session.subsessions import subsession_in
from eventlog.values import Opaque, Reasoning, Text, Tokens, Tool
from projections.inspector.catalogue import cost_json
from projections.inspector.comparison import shortened
from projections.inspector.large_text import MOST
from projections.reports.timeline import TimelineBuilder, TimelineEntry
from projections.reports.usage import UsageTotals

if TYPE_CHECKING:
    from eventlog import Session
    from eventlog.codec.decoded import Span
    from eventlog.history.ranges import Range
    from eventlog.models.catalogue import ModelCatalogue

_JUMPS = frozenset(
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
_CALLS_TIMED = frozenset(("opencode", "claude_code", "codex"))
"""Formats whose recordings say when a call began and when its result came."""
_STEPS_TIMED = "opencode"
"""The format whose recordings say when a request was sent; others time what is finished."""
_AT_ONCE = 10
"""Milliseconds within which no model's answer begins."""
_ANSWERS = {"allow": "allowed", "deny": "denied", "stop": "stopped"}


class ToolRun(msgspec.Struct):
    """A call of a step: its part, its tool, when it ran, who answered, who worked."""

    part: str
    tool: str
    state: str = "pending"
    """How far it came, in the words of the command line."""
    began: int | None = None
    ended: int | None = None
    answer: str = ""
    files: int = 0
    """The number of files in its result."""
    subsession: str | None = None
    """The sub-session that did the work."""


class StepRow(msgspec.Struct):
    """One model call as it was recorded."""

    number: int | None
    """Its place among the recorded requests, from 1; None of a call that has none."""
    version: int
    time: int
    message: str
    """"" of a call outside of replies, of which only the usage was recorded."""
    purpose: str
    model: str
    """"" of a summary that was written without one."""
    counted: int | None = None
    view_version: int | None = None
    timed: bool = False
    """Whether `time` is that of the request, and not of a record that was written later."""
    ended: int | None = None
    """When the answer ended, before its calls ran."""
    failed: bool = False
    error: str = ""
    """Name and text of the error with which its reply broke off in this step."""
    first: int | None = None
    """When the first part of the answer began."""
    tools: list[ToolRun] = msgspec.field(default_factory=list["ToolRun"])
    usage: UsageTotals = msgspec.field(default_factory=UsageTotals)
    """Recorded usage; some programs record it in pieces."""

    def since(self, time: int | None) -> int | None:
        """Milliseconds from the request to a moment of the answer; None where not recorded.

        An answer that begins with its request was recorded as a whole, after it had come.
        """
        whole = self.first is not None and self.first <= self.time + _AT_ONCE
        return None if not self.timed or time is None or whole or time <= self.time else time - self.time

    @property
    def is_untold(self) -> bool:
        """Whether a model was called, and has ended, without usage."""
        is_written = self.purpose == "summary" and not self.model
        return self.ended is not None and not self.usage.calls and not is_written

    @property
    def took(self) -> int | None:
        """Milliseconds from the request to the end of the answer."""
        return self.since(self.ended)

    @property
    def work(self) -> int:
        """Milliseconds of the model and of the tools, as far as they are recorded."""
        runs = (run.ended - run.began for run in self.tools if run.began is not None and run.ended is not None)
        return sum(runs, self.took or 0)

    def as_json(self, ranges: list[Range], *, running: bool) -> dict[str, Any]:
        """The row as JSON values; `running` says whether a task may go on with open calls."""
        wait = self.since(self.first) if self.ended is None or (self.first or 0) < self.ended else None
        found: dict[str, Any] = shortened(msgspec.to_builtins(self), MOST)
        for run in found["tools"]:
            run["state"] = shown_state(run["state"], running=running)
        hidden = bool(self.message) and is_hidden(ranges, self.version)
        return {**found, **usage_json(self.usage), "took": self.took, "wait": wait, "hidden": hidden}


def usage_json(usage: UsageTotals) -> dict[str, Any]:
    """Return a sum; `reported` are the tokens of requests, cached ones included."""
    read = usage.input + usage.cache_read + usage.cache_write or max(0, usage.total - usage.output)
    return {
        **{name: getattr(usage, name) for name in Tokens.__struct_fields__[:5]},
        **cost_json(usage),
        "reported": read if usage.calls or usage.total else None,
    }


class History:
    """Steps, jumps and beginnings of messages of one session, up to a version."""

    def __init__(self, models: ModelCatalogue | None = None) -> None:
        """`models` estimate the cost of calls that have none."""
        self.version: int = 0
        self.steps: list[StepRow] = []
        """Calls whose request was recorded."""
        self.rows: list[StepRow] = []
        """All calls, those that were recorded without a request as well."""
        self.jumps: list[TimelineEntry] = []
        self.messages: list[int] = []
        """Versions at which messages begin, ascending."""
        self.usage: UsageTotals = UsageTotals()
        """The usage of all rows."""
        self.attached: dict[str, int] = {}
        """By call the version of its result, if that has files."""
        self._models = models
        self._builder = TimelineBuilder()
        self._begun: dict[str, tuple[int, ev.AssistantMessageStarted]] = {}
        """By message its time and its beginning."""
        self._format = ""
        """The format that the session was imported from."""
        self._open: dict[str, StepRow] = {}
        """The newest step of each message."""
        self._runs: dict[str, tuple[StepRow, ToolRun]] = {}
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
            case ev.SessionStarted():
                self._format = "" if item.origin is None else item.origin.format
            case ev.AssistantMessageStarted():
                self._begun[item.message] = span.time, item
                self.messages.append(span.first)
            case ev.UserMessageAdded():
                self.messages.append(span.first)
            case ev.StepStarted():
                self._begin(item, span)
            case ev.StepFinished() | ev.MessageFinished():
                self._finish(item, span)
            case ev.UsageRecorded():
                call = self._row(item.message, span.first, used=True) or self._alone(item, span)
                call.usage.add(item, self._models)
                call.failed = item.failed
                self.usage.add(item, self._models)
            case ev.PartStarted(kind=Text() | Reasoning() | Tool()):
                if (row := self._row(item.message, span.first)) is not None:
                    self._answer(row, item, span.time)
            case ev.ToolRunning() | ev.CallAsked() if item.part in self._runs:
                row, run = self._runs[item.part]
                row.ended = row.ended or span.time
                run.state = "running" if isinstance(item, ev.ToolRunning) else "asked"
                if isinstance(item, ev.ToolRunning):
                    run.subsession = subsession_in(item.metadata) or run.subsession
                    if not self._format or self._format in _CALLS_TIMED:
                        run.began = span.time
            case ev.CallAnswered() if item.part in self._runs:
                run = self._runs[item.part][1]
                run.state = "allowed" if item.verdict == "allow" else "failed"
                run.answer = _ANSWERS[item.verdict] + (item.by and f" by {item.by}")
            case ev.ToolCompleted() | ev.ToolFailed():
                if isinstance(item, ev.ToolCompleted) and item.attachments:
                    self.attached[item.part] = span.first
                if (found := self._runs.pop(item.part, None)) is not None:
                    run = found[1]
                    run.ended, run.state = span.time, "completed"
                    run.subsession = subsession_in(item.metadata) or run.subsession
                    if isinstance(item, ev.ToolFailed):
                        run.state = "interrupted" if item.interrupted else "failed"
                    run.files = len(item.attachments) if isinstance(item, ev.ToolCompleted) else 0
            case _:
                pass
        if is_jump(item):
            self.jumps += self._builder.entries(item, span.first, span.time)

    def _answer(self, row: StepRow, event: ev.PartStarted, time: int) -> None:
        row.first = time if row.first is None else row.first
        row.ended = None  # the answer goes on
        if isinstance(event.kind, Tool):
            row.tools.append(ToolRun(event.part, event.kind.tool))
            self._runs[event.part] = row, row.tools[-1]

    def _finish(self, event: ev.StepFinished | ev.MessageFinished, span: Span) -> None:
        error = event.error if isinstance(event, ev.MessageFinished) else None
        row = self._open.get(event.message) if error is None else self._row(event.message, span.first)
        if row is None:
            return
        row.ended = row.ended or span.time
        row.failed = row.failed or event.reason == "error"
        if error is not None:
            row.error = f"{error.name}: {error.message}" if error.message else error.name

    def _alone(self, event: ev.UsageRecorded, span: Span) -> StepRow:
        """Return a new row for a call that belongs to no reply."""
        row = StepRow(None, span.first, span.time, "", event.purpose, str(event.model or ""))
        self.rows.append(row)
        return row

    def _row(self, message: str | None, version: int, *, used: bool = False) -> StepRow | None:
        """Return the newest call of a reply; one without a request gets a row without a number."""
        if message in self._open or message not in self._begun:
            return self._open.get(message or "")
        time, begun = self._begun[message]
        if begun.model is None and begun.summary and not used:
            return None  # written without a model
        purpose, model, is_timed = "summary" if begun.summary else "turn", str(begun.model or ""), not self._format
        row = self._open[message] = StepRow(None, version, time, message, purpose, model, timed=is_timed)
        self.rows.append(row)
        return row

    def _begin(self, event: ev.StepStarted, span: Span) -> None:
        begun, time = self._begun.get(event.message), span.time
        if begun is not None and event.message not in self._open and not self._format:
            time = begun[0]  # before its model is called; the step is recorded with the first part
        row = StepRow(
            number=len(self.steps) + 1,
            version=span.first,
            time=time,
            message=event.message,
            purpose=event.purpose,
            model="" if begun is None else str(begun[1].model or ""),
            counted=event.counted,
            view_version=event.view_version,
            timed=event.view_version is not None or self._format in {"", _STEPS_TIMED},
        )
        self.steps.append(row)
        self.rows.append(row)
        self._open[event.message] = row


def shown_state(status: str, *, running: bool) -> str:
    """Return the word for the state of a call; without a task that runs it no end will come."""
    return "unfinished" if status in {"pending", "running"} and not running else status


def is_jump(event: ev.Event) -> bool:
    """Return whether an event changes the view, or where the conversation goes."""
    return type(event) in _JUMPS or (isinstance(event, ev.PartStarted) and isinstance(event.kind, Opaque))


def is_hidden(ranges: list[tuple[int, int]], version: int) -> bool:
    """Return whether a version is in none of the effective ranges, which ascend."""
    place = bisect_right(ranges, (version, 1 << 62)) - 1
    return place < 0 or ranges[place][1] < version
