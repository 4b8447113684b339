"""Open answers and calls of a session, when records are told to it."""

from __future__ import annotations

from itertools import islice

from eventlog import events as ev
from eventlog.importers.common.conversation import MAX_OPEN
from eventlog.importers.common.conversation_parts import OpenAnswer, OpenCall
from eventlog.importers.common.importer import own_id
from eventlog.state.settling import closing_message
from eventlog.state.state import State
from eventlog.values import MessageError

__all__ = ["OpenThings"]

_SETTLED = MessageError("aborted", "interrupted")


class OpenThings:
    """Open answers and calls of a state, and what was said last."""

    def __init__(self, state: State, time: int) -> None:
        self.answers: list[OpenAnswer] = []
        self.ended: set[str] = set()
        """Open answers whose step has ended."""
        self.calls: dict[str, OpenCall] = {}
        self.settling: list[ev.Event] = []
        """Closes what a dead owner left open."""
        self.last_user: str | None = state.last_user()
        recent = {name for _, names in islice(state.opens.newest_first(state.history), MAX_OPEN) for name in names}
        self.begun: bool = self.last_user is not None or bool(recent)
        self.latest: OpenAnswer | None = None
        if recent:
            self.latest = OpenAnswer(max(recent, key=lambda name: state.messages[name].added), time, None)
        self.compaction: tuple[str, str] | None = None
        """Part and message of one whose summary comes with a later record."""
        compaction = state.running_compaction()
        if compaction is not None:
            asked = state.parts[compaction].message
            if compaction == own_id(asked, "compaction"):
                self.compaction = compaction, asked
            else:
                self.settling.append(ev.CompactionFailed(compaction, "interrupted"))
        for message in state.open_messages():
            self._take(state, message, time)

    def _take(self, state: State, message: str, time: int) -> None:
        facts = state.messages[message]
        if own_id(message, "step") not in facts.parts:
            self.settling += closing_message(state, message, _SETTLED)
            return
        answer = OpenAnswer(message, time, None, parts=len(facts.parts))
        for part, other in facts.parts.items():
            if other.kind != "tool" or not state.history.holds(other.added):
                continue
            status = state.status(other)
            if status in {"pending", "running"}:
                self.calls[other.call] = OpenCall(part, answer, "", "")
                answer.calls.add(other.call)
            if status != "removed":
                answer.call_ids.add(other.call)
        self.answers.append(answer)
        if state.now(facts.steps) == "finished":
            self.ended.add(message)
