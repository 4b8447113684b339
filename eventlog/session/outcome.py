"""Whether a user message is answered: read from the history behind it.

A message is answered where the loop stops at it: by a reply that has seen it, finished with
something other than tool calls, and has no call of the program's tools. A reply that has not seen
it says nothing of it. What was compacted since counts as any other. Nothing is stored for this:
reading costs the turn, not the session.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from eventlog import events as ev
from eventlog.history.effective_history import END
from eventlog.history.ranges import Range, covers
from eventlog.session.failure import is_crash
from eventlog.session.open_work_cache import Work
from eventlog.state.facts import CODE_BITS, MessageFacts
from eventlog.state.state import GOES_ON, State
from eventlog.state.waiting_calls import asked, waits_for_answer
from eventlog.values import MessageError, Tool

if TYPE_CHECKING:
    from eventlog.session.reader import SessionReader

__all__ = [
    "GOES_ON",
    "Outcome",
    "broken_before",
    "ends_turn",
    "has_earlier_question",
    "open_work",
    "outcome_of",
    "pending_question",
    "questions",
]


class Attempt(msgspec.Struct):
    """A reply of the turn: one that has seen its message."""

    message: str
    facts: MessageFacts
    calls: set[str] = msgspec.field(default_factory=set[str])
    """Its calls of the program's tools."""
    ran: bool = False
    """Whether a tool ran, or a call has a result."""
    finish: ev.MessageFinished | None = None


class Outcome(msgspec.Struct, frozen=True):
    """The state of a user message's turn, whichever task runs the session."""

    state: Literal["pending", "asked", "done", "failed", "stopped", "withdrawn"]
    """"asked": it goes on once a person has answered for calls."""
    final: bool = False
    """Whether the task that runs the session cannot change it any more."""
    waiting: bool = False
    """Whether the message is queued and not promoted yet."""
    is_open: bool = False
    """Whether its newest reply is open."""
    replies: tuple[str, ...] = ()
    """The turn's replies that were not removed, in order."""
    broken: tuple[str, ...] = ()
    """The replies that another attempt replaces: the failed one, and those that broke off.

    A reply that broke off after a tool ran is not one of them, nor one with a result.
    """
    removed: int = 0
    """Replies that were removed: attempts that were repeated, as a rule."""
    error: MessageError | None = None
    """Why the newest reply failed or broke off."""


_GO_ON = ("pending", "asked")
WITHDRAWN = Outcome("withdrawn", final=True)


def outcome_of(reader: SessionReader, message: str) -> Outcome:
    """Return what became of a user message; reads what came behind it, up to its answer."""
    with reader.at_once():
        return _outcome_of(reader, message)


def _outcome_of(reader: SessionReader, message: str) -> Outcome:
    upto, forgotten = reader.version, reader.forgotten()
    with reader.deciding() as state:
        facts = state.messages.get(message)
        if facts is None or not state.history.holds(facts.added) or covers(forgotten, facts.added):
            return WITHDRAWN
        if not _says(state, facts):
            return WITHDRAWN
        change, place = state.now(facts.changes), state.place(facts)
        due: Literal["pending", "asked"] = "asked" if waits_for_answer(state) else "pending"
        is_alone = state.last_message == message and not (state.interrupts and state.interrupts[-1][0] > place)
    if change == "removed":
        return WITHDRAWN
    if change == "waiting":
        return Outcome("pending", waiting=True)
    if is_alone:
        return Outcome(due)  # nothing came behind it
    found = _Reading(reader, message).outcome(span.item for span in reader.history(upto, place - 1))
    return replace(found, state=due) if found.state == "pending" else found


def broken_before(reader: SessionReader, message: str) -> Outcome | None:
    """Return the outcome of an earlier question that goes on and whose newest reply broke off.

    The loop that answers this message goes on with both. Costs two events where there is none.
    """
    forgotten = reader.forgotten()
    with reader.deciding() as state:
        if reader.answered == state.messages[message].added - 1:
            return None
        reply = _reply_before(state, message, forgotten)
        if reply is None or state.now(reply.changes) != "finished":
            return None
        versions = (change >> CODE_BITS for change in reversed(reply.changes))
        finished = next(filter(state.history.holds, versions))
    items = (span.item for span in reader.spans(finished - 1, finished))
    if not any(isinstance(item, ev.MessageFinished) and is_crash(item.error) for item in items):
        return None
    with reader.deciding() as state:
        asked = questions(state, forgotten=forgotten)
        question = next((name for name in asked if state.has_seen(reply, state.messages[name])), None)
    if question is None:
        return None
    outcome = outcome_of(reader, question)
    return outcome if outcome.state == "pending" and not outcome.is_open else None


def _reply_before(state: State, message: str, forgotten: Sequence[Range]) -> MessageFacts | None:
    """Return the newest reply that is there and has not seen this message."""
    asked = state.messages[message]
    waits = state.now(asked.changes) == "waiting"
    replies = (facts for _, facts in state.replies() if not covers(forgotten, facts.added))
    return next((facts for facts in replies if waits or not state.has_seen(facts, asked)), None)


def has_earlier_question(reader: SessionReader, message: str) -> bool:
    """Whether the question before this message waits for its answer, too."""
    forgotten = reader.forgotten()
    with reader.deciding() as state:
        before = next(questions(state, state.place(state.messages[message]), forgotten), None)
    return before is not None and outcome_of(reader, before).state == "pending"


def open_work(reader: SessionReader) -> Work:
    """Return what is left to do: something for a loop, only answers of a person, or nothing.

    A reply or compaction is open, an allowed call has not run, or a question has no answer. One
    that is queued is found among the newest messages only, which the state has in memory.
    """
    with reader.deciding() as state:
        opened = [state.messages[message] for message in state.open_messages()]
        if any(not facts.summary for facts in opened) or state.open_compaction() is not None:
            return "open"  # an open summary is its compaction's, or a sub-session's that is written anew
        if asked(state):
            return "asked" if waits_for_answer(state) else "open"
    newest, queued = _asked(reader)
    is_open = queued is not None or (newest is not None and outcome_of(reader, newest).state == "pending")
    return "open" if is_open else ""


def pending_question(reader: SessionReader) -> str | None:
    """Return the question that a loop answers now: the newest, or the oldest queued one.

    The newest one also if it is answered; None if nothing was asked. A message that a compaction
    added belongs to the turn of the question before it.
    """
    newest, queued = _asked(reader)
    if newest is None or queued is not None:
        return queued
    question = newest
    while _is_of_compaction(reader, question):
        with reader.deciding() as state:
            before = next(questions(state, state.place(state.messages[question]), reader.forgotten()), None)
        if before is None:
            return newest
        question = before
    is_same = question == newest or outcome_of(reader, question).state == outcome_of(reader, newest).state
    return question if is_same else newest


def _is_of_compaction(reader: SessionReader, message: str) -> bool:
    with reader.deciding() as state:
        added = state.messages[message].added
    items = (span.item for span in reader.spans(added - 1, added))
    return any(isinstance(item, ev.UserMessageAdded) and item.cause is not None for item in items)


def _asked(reader: SessionReader) -> tuple[str | None, str | None]:
    """Return the newest question, and the oldest queued one if a loop promotes it now.

    Behind an answer that failed or was stopped it does so once the user has queued another.
    """
    forgotten = reader.forgotten()
    with reader.deciding() as state:
        newest = next(questions(state, forgotten=forgotten), None)
        queued = sorted(
            (facts.added, name)
            for name, facts in state.hot_messages.items()
            if facts.user and state.is_there(facts) and state.now(facts.changes) == "waiting" and _says(state, facts)
        )
    if not queued or newest is None:
        return newest, queued[0][1] if queued else None
    found = outcome_of(reader, newest)
    if found.state in _GO_ON:
        return newest, None
    with reader.deciding() as state:
        ends = [state.messages[reply].changes[-1:] for reply in found.replies if reply in state.messages]
        replies = [change >> CODE_BITS for newest_change in ends for change in newest_change]  # none of an open one
        stops = [version for version, kind in state.interrupts if kind == "requested"]
    ended = max([*replies, *(stops if found.state == "stopped" else ())], default=0)
    goes_on = found.state in {"done", "withdrawn"} or queued[-1][0] > ended
    return newest, queued[0][1] if goes_on else None


def unanswered_questions(reader: SessionReader, through: str | None = None) -> list[str]:
    """Return the questions that wait for their answer, up to a message, the oldest first.

    A question before one that is answered is answered, too.
    """
    forgotten = reader.forgotten()
    with reader.deciding() as state:
        last = None if through is None else state.messages.get(through)
        before = END if last is None else state.place(last) + 1
        found = [*takewhile(lambda name: not state.answered(name), questions(state, before, forgotten))]
    step = 1
    while True:  # those of turns that go on: twice as many are looked at each time
        with reader.deciding() as state:
            before = state.place(state.messages[found[-1]]) if found else before
            seen = [*islice(questions(state, before, forgotten), step)]
        is_last = not seen or outcome_of(reader, seen[-1]).state not in _GO_ON
        if is_last:
            seen = seen[: bisect_left(seen, True, key=lambda name: outcome_of(reader, name).state not in _GO_ON)]
        found += seen
        if is_last or not seen:
            return found[::-1]
        step *= 2


def questions(state: State, before: int = END, forgotten: Sequence[Range] = ()) -> Iterator[str]:
    """Yield the user messages whose place is before a version, newest first.

    Without those that wait, those that only ask for a compaction, those with nothing that a model
    can see, and forgotten ones. A reply that has seen one of them has seen the older ones, too.
    """
    for place, name in state.user_messages():
        facts = state.messages[name]
        asks = all(part.kind != "compaction" for part in facts.parts.values())
        if place < before and asks and not covers(forgotten, facts.added) and _says(state, facts):
            yield name


def _says(state: State, message: MessageFacts) -> bool:
    """Whether a user message has a part that a model can see."""
    return any(part.kind in {"text", "file", "subtask"} and state.is_there(part) for part in message.parts.values())


def ends_turn(reason: str | None, error: MessageError | None, *, calls: bool) -> bool:
    """Whether a finished reply ends the turns of what it has seen, well or not.

    `calls`: it has a call of the program's tools. A request that was refused for its size is made
    again.
    """
    if error is not None:
        return not is_crash(error) and error.name != "overflow"
    return reason not in GOES_ON and not calls


class _Reading:
    """The turn of one message, read event by event."""

    def __init__(self, reader: SessionReader, message: str) -> None:
        self._state: State = reader.state()
        self._message = message
        self._asked: MessageFacts = self._state.messages[message]
        self._later: list[MessageFacts] = []
        """The questions behind it."""
        self._attempts: dict[str, Attempt] = {}
        self._calls: dict[str, Attempt] = {}
        self._removed = 0
        self._interrupted = False

    def outcome(self, items: Iterator[object]) -> Outcome:
        """Read until the message has its answer, or a later question ends its turn."""
        for item in items:
            match item:
                case ev.UserMessageAdded(synthetic=False, cause=None, delivery="steer") | ev.MessagePromoted():
                    if item.message != self._message and self._asks(item.message):
                        if self._is_over():
                            return self._now(final=True)
                        self._later.append(self._state.messages[item.message])
                case ev.AssistantMessageStarted(summary=False):
                    reply = self._state.messages.get(item.message)
                    if reply is None or not self._state.has_seen(reply, self._asked):
                        continue
                    if not self._holds(item.message):
                        self._removed += 1
                    elif self._is_over() and self._answers_later(reply):
                        return self._now(final=True)
                    else:
                        self._attempts[item.message] = Attempt(item.message, reply)
                case ev.PartStarted(kind=Tool(provider_executed=False)):
                    self._called(item.message, item.part)
                case ev.PartRemoved():
                    if item.part in self._calls:
                        self._calls[item.part].calls.discard(item.part)
                case ev.ToolRunning():
                    if item.part in self._calls:
                        self._calls[item.part].ran = True
                case ev.ToolCompleted() | ev.ToolFailed(interrupted=False):
                    if item.part in self._calls:  # also one that came late, to a call that had not begun
                        self._calls[item.part].ran = True
                case ev.MessageFinished():
                    if item.message in self._attempts:
                        self._attempts[item.message].finish = item
                        if self._verdict() == "done":
                            return self._now(final=True)
                case ev.InterruptRequested():
                    self._interrupted = True
                case ev.RolledBack():
                    self._interrupted = False
                case _:
                    pass
        return self._now()

    def _holds(self, message: str) -> bool:
        """Whether a message is still part of the conversation."""
        facts: MessageFacts | None = self._state.messages.get(message)
        return facts is not None and self._state.now(facts.changes) != "removed"

    def _asks(self, message: str) -> bool:
        """Whether a message of the conversation is a question."""
        return self._holds(message) and _says(self._state, self._state.messages[message])

    def _answers_later(self, reply: MessageFacts) -> bool:
        """Whether a reply has seen a later question that those before it had not."""
        said = [attempt.facts for attempt in self._attempts.values()]
        return any(
            self._state.has_seen(reply, asked) and not any(self._state.has_seen(before, asked) for before in said)
            for asked in self._later
        )

    def _called(self, message: str, part: str) -> None:
        attempt = self._attempts.get(message)
        if attempt is not None:
            attempt.calls.add(part)
            self._calls[part] = attempt

    def _is_over(self) -> bool:
        return self._verdict() in {"failed", "stopped"}

    def _verdict(self) -> Literal["pending", "done", "failed", "stopped"]:
        """Return the state of the turn as far as it is read, which the newest reply decides."""
        newest = next(reversed(self._attempts.values()), None)
        if newest is not None and newest.finish is not None:
            error = newest.finish.error
            if ends_turn(newest.finish.reason, error, calls=bool(newest.calls)):
                if error is None:
                    return "done"
                return "stopped" if self._interrupted or error.name == "aborted" else "failed"
        return "stopped" if self._interrupted else "pending"

    def _now(self, *, final: bool = False) -> Outcome:
        state, attempts = self._verdict(), list(self._attempts.values())
        newest = attempts[-1].finish if attempts else None
        broken = [
            attempt.message
            for attempt in attempts
            if attempt.finish is not None and is_crash(attempt.finish.error) and not attempt.ran
        ]
        if state == "failed":
            broken.append(attempts[-1].message)
        return Outcome(
            state,
            final=final,
            is_open=bool(attempts) and newest is None,
            replies=tuple(self._attempts),
            broken=tuple(broken),
            removed=self._removed,
            error=None if newest is None else newest.error,
        )
