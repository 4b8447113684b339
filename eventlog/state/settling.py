"""Events that close the open parts of a state, and the parts that a retry takes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eventlog import events as ev
from eventlog.state.facts import PartFacts, versions_of
from eventlog.state.state import State
from eventlog.state.waiting_calls import asked, asked_at, may_run, waiting
from eventlog.values import INTERRUPTED, MessageError

ASKED = "tool-calls"
"""Reason of a finished reply whose calls wait for a person."""


def closing(state: State, reason: str) -> list[ev.Event]:
    """Return the events that close what is open: parts end, tools fail, messages are aborted.

    Calls that wait for a person stay, unless they ran in a history that was left.
    """
    events: list[ev.Event] = []
    messages = state.open_messages()
    for message in messages:
        events += closing_message(state, message, MessageError("aborted", reason))
    for part in asked(state):
        facts = state.parts[part]
        status = state.status(facts)
        if status in {"asked", "allowed"}:
            is_over = not may_run(state, facts)
        else:
            is_over = status == "running" and facts.message not in messages
        if is_over:
            events.append(ev.ToolFailed(part, INTERRUPTED, interrupted=True))
    compaction = state.running_compaction()
    if compaction is not None:
        events.append(ev.CompactionFailed(compaction, reason))
    return events


def closing_message(state: State, message: str, error: MessageError) -> list[ev.Event]:
    """Return the events that close a message; with calls that wait it has no error."""
    begun = _begun(state, message)
    waits = any(part in begun for part, _ in waiting(state))
    end = ev.MessageFinished(message, ASKED) if waits else ev.MessageFinished(message, None, error)
    return [*closing_parts(state, message), end]


def closing_parts(state: State, message: str, *, final: bool = False) -> list[ev.Event]:
    """Return the events that close a message's open parts; none if it has not begun.

    With `final` also calls that wait for a person.
    """
    over = {"pending", "running", "asked", "allowed"} if final else {"pending", "running"}
    events: list[ev.Event] = []
    for part, facts in _begun(state, message).items():
        if not state.history.holds(facts.added):
            continue
        status = state.status(facts)
        if status == "open":
            events.append(ev.PartEnded(part))
        elif facts.kind == "tool" and status in over:
            events.append(ev.ToolFailed(part, INTERRUPTED, interrupted=True))
    return events


def closing_texts(state: State, message: str, texts: Iterable[str]) -> list[ev.Event]:
    """Return the ends of `texts` that are open in a message; none if it has not begun."""
    begun = _begun(state, message)
    return [ev.PartEnded(text) for text in texts if text in begun and state.status(begun[text]) == "open"]


def denials(state: State) -> list[ev.Event]:
    """Return the events by which an interrupt denies all calls that wait or have not begun."""
    calls = (found for found in waiting(state) if may_run(state, found[1]))
    return [ev.CallAnswered(part, asked_at(state, facts), "stop") for part, facts in calls]


def said_in_step(state: State, message: str) -> list[str]:
    """Return the texts and calls of the newest step of a message that were not removed."""
    said: list[str] = []
    for part, facts in state.messages[message].parts.items():
        if facts.kind == "step":
            said.clear()
        elif facts.kind in {"text", "reasoning", "tool", "opaque"} and state.is_there(facts):
            said.append(part)
    return said


def has_run(state: State, part: str) -> bool:
    """Return whether a part is a call whose tool was started."""
    facts = state.parts[part]
    return facts.kind == "tool" and any(versions_of(facts.changes, "running"))


def _begun(state: State, message: str) -> Mapping[str, PartFacts]:
    """Return the parts of a message; none if it has not begun."""
    return state.messages[message].parts if state.has_message(message) else {}
