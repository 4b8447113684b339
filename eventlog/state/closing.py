"""Events that close the open parts of a state, and the parts that a retry takes out."""

from __future__ import annotations

from eventlog import events as ev
from eventlog.state.facts import CODE_MASK, CODES
from eventlog.state.state import State
from eventlog.values import INTERRUPTED, MessageError

__all__ = ["closing", "closing_parts", "has_run", "said_in_step"]


def closing(state: State, reason: str) -> list[ev.Event]:
    """Return the events that close what is open: parts end, tools fail, messages are aborted."""
    events: list[ev.Event] = []
    for message in state.open_messages():
        events += closing_parts(state, message)
        events.append(ev.MessageFinished(message, None, MessageError("aborted", reason)))
    compaction = state.running_compaction()
    if compaction is not None:
        events.append(ev.CompactionFailed(compaction, reason))
    return events


def closing_parts(state: State, message: str) -> list[ev.Event]:
    """Return the events that close the open parts of an open message."""
    events: list[ev.Event] = []
    for part, facts in state.messages[message].parts.items():
        if not state.history.holds(facts.added):
            continue
        status = state.status(facts)
        if status == "open":
            events.append(ev.PartEnded(part))
        elif facts.kind == "tool" and status in {"pending", "running"}:
            events.append(ev.ToolFailed(part, INTERRUPTED, interrupted=True))
    return events


def said_in_step(state: State, message: str) -> list[str]:
    """Return the texts and calls of the newest step of a message that were not removed."""
    said: list[str] = []
    for part, facts in state.messages[message].parts.items():
        is_there = state.history.holds(facts.added) and state.status(facts) != "removed"
        if facts.kind == "step":
            said.clear()
        elif facts.kind in {"text", "reasoning", "tool"} and is_there:
            said.append(part)
    return said


def has_run(state: State, part: str) -> bool:
    """Return whether a part is a call whose tool was started."""
    facts = state.parts[part]
    return facts.kind == "tool" and any(change & CODE_MASK == CODES["running"] for change in facts.changes)
