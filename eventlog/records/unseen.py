"""Questions that the model was not sent whose answers are told in records.

A question stays one as long as it is pending (`session/outcome.py`), also behind a reply with calls
or one that broke off. Of an answer that was told, what it has seen was decided when it began.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from eventlog import events as ev
from eventlog.history.effective_history import END
from eventlog.history.ranges import covers
from eventlog.records.state_questions import Earlier
from eventlog.session.outcome import ends_turn
from eventlog.state.facts import CODE_BITS
from eventlog.state.state import State
from eventlog.values import Tool

T = TypeVar("T")
Finishes = Callable[[str], ev.MessageFinished | None]
"""Finds the event by which the append itself finishes an answer."""


class Seen(NamedTuple):
    """The records that the model of the answers was sent: those up to one, and some behind it."""

    upto: int
    own: Collection[int] = ()

    def has(self, number: int) -> bool:
        """Whether a record was sent."""
        return 0 < number <= self.upto or number in self.own


NumberOf = Callable[..., int]
"""Finds the record that has a version: 0 if none has it, unless `is_told`."""


class Asked(NamedTuple):
    """A user message that counts."""

    place: int
    added: int
    message: str
    reply: int
    """Version that began the newest reply that has seen it, 0 if none has."""


class Reply(NamedTuple):
    """A reply that has seen a question."""

    message: str
    finished: int
    """The version that finished it, 0 if it is open."""
    calls: tuple[int, ...]
    """Versions that began its calls."""


class Unseen:
    """Up to where the model was sent the history, and the questions that it was not sent."""

    def __init__(
        self,
        seen: Seen,
        ask: Callable[[Callable[[State], Any]], Any],
        earlier: Earlier,
        number_of: NumberOf,
        finishes: Finishes,
    ) -> None:
        self._ask, self._earlier, self._finishes = ask, earlier, finishes
        sent = [seen.upto, *seen.own]
        late: list[tuple[int, str]] = []
        for place, added, message, reply in self._asked():
            is_sent = seen.has(number_of(added))
            if reply and is_sent and seen.has(number_of(reply, is_told=True)):
                break  # as it was decided when that reply began
            if reply and not self._is_pending(message):
                break
            if is_sent:
                sent.append(place)
            else:
                late.append((place, message))
        self.upto: int = ask(partial(_shared, max(sent)))
        self.late: list[tuple[int, str]] = late[::-1]

    def _asked(self) -> Iterator[Asked]:
        """Yield the questions, newest first."""
        before = END
        while True:
            found: list[Asked] = self._ask(partial(_asked, before))
            yield from found
            if not found:
                return
            before = found[-1].place

    def _is_pending(self, message: str) -> bool:
        """Whether no reply that has seen a question ends its turn."""
        replies: list[Reply] = self._ask(partial(_replies_to, message))
        return not any(map(self._ends_turn, replies))

    def _ends_turn(self, reply: Reply) -> bool:
        finish = self._earlier.event(reply.finished) if reply.finished else self._finishes(reply.message)
        if not isinstance(finish, ev.MessageFinished) or not ends_turn(finish.reason, finish.error, calls=False):
            return False
        return finish.error is not None or not any(map(self._is_of_program, reply.calls))

    def _is_of_program(self, version: int) -> bool:
        event = self._earlier.event(version)
        kind = event.kind if isinstance(event, ev.PartStarted) else None
        return isinstance(kind, Tool) and not kind.provider_executed


def _shared(upto: int, state: State) -> int:
    """Return the version up to which the history then is that of now."""
    return state.history.shared_with(min(upto, state.version))


def _asked(before: int, state: State) -> list[Asked]:
    """Return the questions before a place, newest first, down to one that a reply has seen."""
    found: list[Asked] = []
    for place, message in state.user_messages():
        added = state.messages[message].added
        if place < before and not covers(state.forgotten, added):
            reply = next((state.messages[name].added for name in _replies(message, state)), 0)
            found.append(Asked(place, added, message, reply))
            if reply:
                break
    return found


def _replies_to(message: str, state: State) -> list[Reply]:
    found: list[Reply] = []
    for name in _replies(message, state):
        facts = state.messages[name]
        versions = (change >> CODE_BITS for change in reversed(facts.changes))
        finished = next(filter(state.history.holds, versions)) if state.now(facts.changes) == "finished" else 0
        calls = (part for part in facts.parts.values() if part.kind == "tool" and state.is_there(part))
        found.append(Reply(name, finished, tuple(part.added for part in calls)))
    return found


def _replies(message: str, state: State) -> Iterator[str]:
    """Yield the replies that are there and have seen a question, newest first."""
    asked = state.messages[message]
    for name, facts in state.replies():
        if facts.added <= asked.added:
            return
        if not covers(state.forgotten, facts.added) and state.has_seen(facts, asked):
            yield name
