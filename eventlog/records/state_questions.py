"""Questions about a session, asked of its state and its log where records are told."""

from __future__ import annotations

from itertools import islice

from eventlog import events as ev
from eventlog.importers.common.conversation import MAX_OPEN
from eventlog.importers.common.conversation_parts import OpenAnswer, OpenCall
from eventlog.importers.common.importer import own_id
from eventlog.session.reader import SessionReader
from eventlog.state.facts import PartFacts
from eventlog.state.settling import closing_message
from eventlog.state.state import State
from eventlog.values import MessageError, Tokens, Tool, Usage


class Earlier:
    """The appends of a session up to a version."""

    def __init__(self, reader: SessionReader, at: int) -> None:
        self._reader = reader
        self._at = at

    def event(self, version: int) -> ev.Event:
        """Return the event of a version."""
        return next(iter(self._reader.events(version - 1, version))).event

    def call(self, part: str) -> tuple[str, str]:
        """Return tool and input of a call that a feed told: its first two events."""
        version = self._reader.find(part)
        events = [recorded.event for recorded in islice(self._reader.events(version - 1, version + 1), 2)]
        tool, given = "", ""
        for event in events:
            if isinstance(event, ev.PartStarted) and isinstance(event.kind, Tool):
                tool = event.kind.tool
            elif isinstance(event, ev.ToolRunning) and event.part == part:
                given = self._reader.text(event.input)
        return tool, given

    def spent(self, message: str) -> Usage:
        """Return the usage recorded for an answer; reads the events since it began."""
        total, cost = Tokens(), None
        for span in self._reader.history(self._at, self._reader.find(message) - 1):
            event = span.item
            if not isinstance(event, ev.UsageRecorded) or event.message != message:
                continue
            old, new = total, event.usage.tokens
            total = Tokens(
                old.input + new.input,
                old.output + new.output,
                old.reasoning + new.reasoning,
                old.cache_read + new.cache_read,
                old.cache_write + new.cache_write,
                new.total if old == Tokens() else None,
            )
            if event.usage.cost is not None:
                cost = event.usage.cost if cost is None else cost + event.usage.cost
        return Usage(total, cost)

    def has_prompt(self) -> bool:
        """Whether a record has told a system prompt; reads events until one has, or all."""
        told = 0
        for span in self._reader.history(self._at):
            event = span.item
            if isinstance(event, ev.SystemPromptSet):
                told = span.first
            elif isinstance(event, ev.RecordKept) and told >= max(1, span.first - event.events):
                return True
        return False

    def title(self) -> str:
        """Return the session's title."""
        return self._reader.info.title


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


RECENT = 64
"""Changes of the open answers that are looked through for an interrupted call."""


def is_effective(name: str, state: State) -> bool:
    """Return whether a message is effective, and was not removed."""
    return name in state.messages and state.is_there(state.messages[name])


def answered_part(call: str, state: State) -> str:
    """Return the part of the newest effective call of this id, "" unless its result is shown."""
    found = _newest_call(call, state)
    if found is None or state.is_pruned(found[2]) or state.status(found[2]) not in {"completed", "failed"}:
        return ""
    return found[1]


def interrupted_call(call: str, state: State) -> tuple[str, str] | None:
    """Return message and part of the newest effective call of this id, if it is interrupted."""
    found = _newest_call(call, state, RECENT)
    return None if found is None or state.status(found[2]) != "interrupted" else found[:2]


def _newest_call(call: str, state: State, among: int | None = None) -> tuple[str, str, PartFacts] | None:
    seen: set[str] = set()
    for _, names in islice(state.opens.newest_first(state.history), among):
        for message in reversed(names):
            if message in seen or not is_effective(message, state):
                continue
            seen.add(message)
            for part, facts in state.messages[message].parts.items():
                if facts.kind == "tool" and facts.call == call and state.history.holds(facts.added):
                    return message, part, facts
    return None
