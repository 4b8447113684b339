"""Calls of tools: which event may follow, and those that a person was asked for.

A call is asked, then allowed or denied. Once allowed it runs once, also if rollbacks, redos and
forks come between.
"""

from __future__ import annotations

from eventlog import events as ev
from eventlog.errors import NotFoundError, RefusedError
from eventlog.errors.base import brief
from eventlog.state.facts import PartFacts, versions_of
from eventlog.state.state import State


def asked(state: State) -> tuple[str, ...]:
    """Return the calls that were asked and have no result; some are allowed, or run."""
    return state.asks.newest(state.history)


def waiting(state: State) -> list[tuple[str, PartFacts]]:
    """Return the calls that were asked and have not begun to run, with their facts."""
    calls = ((part, state.parts[part]) for part in asked(state))
    return [(part, facts) for part, facts in calls if state.status(facts) in {"asked", "allowed"}]


def waits_for_answer(state: State) -> bool:
    """Whether all that is left to do is to answer for calls: none may run now."""
    calls = asked(state)
    if not calls or state.open_messages():
        return False
    return all(state.status(state.parts[part]) == "asked" for part in calls)


def asked_at(state: State, facts: PartFacts) -> int:
    """Return the version of the newest effective ask of a call; 0 if there is none."""
    return next(filter(state.history.holds, versions_of(facts.changes, "asked")), 0)


def may_run(state: State, facts: PartFacts) -> bool:
    """Whether a call that was asked never ran since, in any history, and is of this session.

    A fork inherits no call that waits.
    """
    since = asked_at(state, facts)
    return since > state.started and next(versions_of(facts.changes, "running"), 0) <= since


def effective_call(state: State, message: str, call: str) -> tuple[str, PartFacts]:
    """Return the part of an effective call, and its facts."""
    for part, facts in state.message(message).parts.items():
        if facts.kind == "tool" and facts.call == call and state.is_there(facts):
            return part, facts
    raise NotFoundError("call", call)


# -- which event may follow ------------------------------------------------------------


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
