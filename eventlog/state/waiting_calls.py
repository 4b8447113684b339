"""Calls that a person was asked for: those that wait, and whether one may run.

A call is asked, then allowed or denied. Once allowed it runs once, also if rollbacks, redos and
forks come between.
"""

from __future__ import annotations

from eventlog.errors import NotFoundError
from eventlog.state.facts import PartFacts, versions_of
from eventlog.state.state import State

__all__ = ["asked", "asked_at", "effective_call", "may_run", "waiting", "waits_for_answer"]


def asked(state: State) -> tuple[str, ...]:
    """Return the calls that were asked and have no result; some are allowed, or run."""
    recent = state.asks.recent
    if not recent:
        return ()
    return recent[-1][1] if recent[-1][0] >= state.history.starts[-1] else state.asks.newest(state.history)


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
        is_there = facts.kind == "tool" and facts.call == call and state.history.holds(facts.added)
        if is_there and state.status(facts) != "removed":
            return part, facts
    raise NotFoundError("call", call)
