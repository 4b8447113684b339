"""Counts of a session: messages, parts, tools, deltas, events by kind, and usage.

Messages, parts and tools are counted in the effective history, which a rollback shortens; messages
and parts that were removed are not counted. Events, deltas and usage are counted in everything that
was recorded. No body is read.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from eventlog import events as ev
from eventlog.codec.decoded import Span
from eventlog.codec.deltas import DeltaRun
from eventlog.history.ranges import covers
from eventlog.session.session import Session
from eventlog.validation import require
from eventlog.values import Opaque, Tool
from projections.reports.usage import UsageTotals, usage_by_model


class ToolStats(msgspec.Struct):
    """Calls of one tool by outcome; `unfinished` calls are pending or running."""

    tool: str
    calls: int = 0
    completed: int = 0
    failed: int = 0
    interrupted: int = 0
    unfinished: int = 0


class SessionStats(msgspec.Struct):
    """The numbers of one session."""

    version: int
    events: int
    """Events of its own stream."""
    inherited: int
    """Events inherited from the session it was forked from."""
    hidden: int
    """Events that a rollback hides, or that were forgotten."""
    kinds: dict[str, int]
    """Events by class, own and inherited."""
    deltas: int
    delta_characters: int
    user_messages: int
    """Those that a fork inherited included, as in `assistant_messages`."""
    assistant_messages: int
    parts: dict[str, int]
    """Parts by kind."""
    tools: list[ToolStats]
    usage: list[UsageTotals]
    """Usage of the session itself, without what a fork inherited."""
    inherited_usage: list[UsageTotals]


class _Tally:
    """Counts in the effective history, without messages and parts that were removed."""

    def __init__(self) -> None:
        self.roles: dict[str, str] = {}
        """By message that was not removed."""
        self._parts: dict[str, tuple[str, str]] = {}
        """By part that was not removed by itself, its message and kind."""
        self._calls: dict[str, tuple[str, str]] = {}
        """By part of a call, its tool and state."""

    def count(self, event: ev.Event) -> None:
        """Count one event."""
        match event:
            case ev.UserMessageAdded():
                self.roles[event.message] = "user"
            case ev.AssistantMessageStarted():
                self.roles[event.message] = "assistant"
            case ev.MessageRemoved():
                self.roles.pop(event.message, None)
            case ev.PartRemoved():
                self._parts.pop(event.part, None)
            case ev.PartStarted(kind=kind):
                name = "provider-compaction" if isinstance(kind, Opaque) else str(kind.__struct_config__.tag)
                self._parts[event.part] = event.message, name
                if isinstance(kind, Tool):
                    self._calls[event.part] = kind.tool, "unfinished"
            case ev.StepStarted():
                self._parts[event.part] = event.message, "step-start"
            case ev.StepFinished():
                self._parts[event.part] = event.message, "step-finish"
            case ev.CompactionRequested():
                self._parts[event.part] = event.message, "compaction"
            case ev.ToolCompleted():
                self._end_call(event.part, "completed")
            case ev.CallAnswered(verdict="deny" | "stop"):
                self._end_call(event.part, "failed")
            case ev.ToolFailed():
                self._end_call(event.part, "interrupted" if event.interrupted else "failed")
            case _:
                pass

    def _end_call(self, part: str, state: str) -> None:
        if part in self._calls:
            self._calls[part] = self._calls[part][0], state

    def parts(self) -> dict[str, int]:
        """Return the parts by kind, the most frequent first."""
        return dict(Counter(kind for message, kind in self._parts.values() if message in self.roles).most_common())

    def tools(self) -> list[ToolStats]:
        """Return the calls by tool, the most frequent first."""
        found: dict[str, ToolStats] = {}
        for part, (name, state) in self._calls.items():
            if part in self._parts and self._parts[part][0] in self.roles:
                tool = found.setdefault(name, ToolStats(name))
                tool.calls += 1
                setattr(tool, state, getattr(tool, state) + 1)
        return sorted(found.values(), key=lambda tool: (-tool.calls, tool.tool))


def own_messages(session: Session) -> set[str]:
    """Return the ids of a session's messages without those that a fork inherited."""
    version = session.version
    ranges, tally = session.reader.effective_ranges(version), _Tally()
    for span in session.reader.spans(session.info.forked_at or 0, version):
        if not isinstance(span.item, DeltaRun) and covers(ranges, span.first):
            tally.count(span.item)
    return set(tally.roles)


def session_stats(session: Session) -> SessionStats:
    """Return the counts of a session; reads its events."""
    require(Session, session, "statistics are those of a Session")
    info, models = session.info, session.store.host.models
    version = session.version
    base, ranges, tally = info.forked_at or 0, session.reader.effective_ranges(version), _Tally()
    kinds: Counter[str] = Counter()
    deltas = characters = 0
    spending: tuple[list[Span], list[Span]] = ([], [])
    for span in session.reader.spans(upto=version):
        item = span.item
        if isinstance(item, DeltaRun):
            deltas += item.count
            characters += len(item.text)
            kinds["PartDelta"] += item.count
            continue
        kinds[type(item).__name__] += 1
        if isinstance(item, ev.PartDelta):
            deltas += 1
            characters += len(item.text)
        if isinstance(item, (ev.UsageRecorded, ev.AssistantMessageStarted, ev.StepStarted)):
            spending[span.first <= base].append(span)
        if covers(ranges, span.first):
            tally.count(item)
    messages = Counter(tally.roles.values())
    return SessionStats(
        version=version,
        events=version - base,
        inherited=base,
        hidden=version - sum(last - first + 1 for first, last in ranges),
        kinds=dict(kinds.most_common()),
        deltas=deltas,
        delta_characters=characters,
        user_messages=messages["user"],
        assistant_messages=messages["assistant"],
        parts=tally.parts(),
        tools=tally.tools(),
        usage=usage_by_model(spending[0], models),
        inherited_usage=usage_by_model(spending[1], models),
    )
