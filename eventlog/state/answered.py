"""Whether a session has nothing left to do, as far as its facts tell without a reading."""

from __future__ import annotations

from eventlog import events as ev
from eventlog.history.seen_by_reply import has_seen
from eventlog.state.state import GOES_ON, State

__all__ = ["is_answered_by"]


def is_answered_by(state: State, finish: ev.MessageFinished) -> bool:
    """Whether nothing is left to do once this reply finished; False if that is not certain.

    It is, if a plain answer is the newest message, has seen the newest question, and nothing
    else was ever begun or queued.
    """
    if finish.error is not None or finish.reason in GOES_ON or finish.message != state.last_message:
        return False
    facts = state.hot_messages.get(finish.message)
    if facts is None or facts.summary or state.now(facts.changes) != "finished":
        return False
    if state.queued or not state.history.holds(facts.added) or state.open_messages():
        return False
    if any(not has_seen(facts.added, facts.seen, version) for version, _ in state.users.recent[-1:]):
        return False
    return state.open_compaction() is None and all(part.kind != "tool" for part in facts.parts.values())
