"""Which event of a tool call may follow: its run, its failure, an ask and the answer."""

from __future__ import annotations

from eventlog import events as ev
from eventlog.errors import RefusedError
from eventlog.errors.base import brief
from eventlog.state.facts import PartFacts
from eventlog.state.state import State
from eventlog.state.waiting_calls import asked_at, may_run

__all__ = ["call_answered", "call_asked", "in_state", "tool_failed", "tool_running"]


def in_state(state: State, part: str, kinds: tuple[str, ...], states: tuple[str, ...]) -> PartFacts:
    """Return the facts of a part of these kinds and states; `RefusedError` for another."""
    facts = state.part(part)
    if facts.kind not in kinds:
        raise RefusedError(f"part {brief(part)} is a {facts.kind} part", expected=f"a {' or '.join(kinds)} part")
    status = state.status(facts)
    if status not in states:
        raise RefusedError(f"part {brief(part)} is {status}", expected=f"a part that is {' or '.join(states)}")
    return facts


def tool_failed(state: State, event: ev.ToolFailed) -> None:
    """An interrupted call fails late, not again."""
    late = () if event.interrupted else ("interrupted",)
    in_state(state, event.part, ("tool",), ("pending", "running", "asked", "allowed", *late))


def tool_running(state: State, event: ev.ToolRunning) -> None:
    """A pending call runs, or one that a person allowed and that never ran."""
    facts = in_state(state, event.part, ("tool",), ("pending", "allowed"))
    if facts.changes and state.status(facts) == "allowed":
        _require_first_run(state, event.part, facts)


def _require_first_run(state: State, part: str, facts: PartFacts) -> None:
    state.message(facts.message)
    if not may_run(state, facts):
        was = "ran before" if asked_at(state, facts) > state.started else "waits in the session that this is a fork of"
        raise RefusedError(f"call {brief(part)} {was}", expected="a call that was asked here and never ran")


def call_asked(state: State, event: ev.CallAsked) -> None:
    """A call is asked before it runs; one of a sub-session, and one asked again, also after."""
    facts = in_state(state, event.part, ("tool",), ("pending", "running", "interrupted", "allowed"))
    state.message(facts.message)


def call_answered(state: State, event: ev.CallAnswered) -> None:
    """The first answer wins; an interrupt stops an allowed call that has not begun, too."""
    answerable = ("asked", "allowed") if event.verdict == "stop" else ("asked",)
    facts = in_state(state, event.part, ("tool",), answerable)
    _require_first_run(state, event.part, facts)
    if asked_at(state, facts) != event.asked:
        raise RefusedError(f"call {brief(event.part)} was asked again", expected="an answer to the newest ask")
    if event.edit is not None and event.verdict != "allow":
        raise RefusedError("arguments for a call that is denied", expected="edited arguments with an allowed call")
