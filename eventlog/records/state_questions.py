"""Questions about a state, asked where records are told."""

from __future__ import annotations

from itertools import islice

from eventlog.errors import NotFoundError
from eventlog.state.state import State

__all__ = ["answered_part", "birth_of", "has_message", "has_part", "interrupted_call", "is_effective", "last_user_upto"]

RECENT = 64
"""Changes of the open answers that are looked through for an interrupted call."""


def has_message(name: str, state: State) -> bool:
    """Return whether a message was ever added under this id."""
    return state.has_message(name)


def has_part(name: str, state: State) -> bool:
    """Return whether a part was ever added under this id."""
    return state.has_part(name)


def birth_of(message: str, state: State) -> int:
    """Return the version that added a message."""
    return state.messages[message].added


def last_user_upto(upto: int, state: State) -> str | None:
    """Return the newest user message up to a version."""
    return state.last_user(upto)


def is_effective(name: str, state: State) -> bool:
    """Return whether a message is effective, and was not removed."""
    try:
        state.message(name)
    except NotFoundError:
        return False
    return True


def answered_part(call: str, state: State) -> str:
    """Return the part of the newest effective call of this id, "" unless its result is shown."""
    seen: set[str] = set()
    for _, names in state.opens.newest_first(state.history):
        for message in reversed(names):
            if message in seen or not is_effective(message, state):
                continue
            seen.add(message)
            for part, facts in state.message(message).parts.items():
                if facts.kind == "tool" and facts.call == call and state.history.holds(facts.added):
                    is_shown = state.status(facts) in {"completed", "failed"} and not state.is_pruned(facts)
                    return part if is_shown else ""
    return ""


def interrupted_call(state: State, call: str) -> tuple[str, str] | None:
    """Return message and part of the newest effective call of this id, if it is interrupted."""
    seen: set[str] = set()
    for _, names in islice(state.opens.newest_first(state.history), RECENT):
        for message in reversed(names):
            if message in seen or state.now(state.messages[message].changes) == "removed":
                continue
            seen.add(message)
            for part, facts in state.messages[message].parts.items():
                if facts.kind == "tool" and facts.call == call and state.history.holds(facts.added):
                    return (message, part) if state.status(facts) == "interrupted" else None
    return None
