"""Whether a reply is the second answer in a row to one request that calls nothing.

A loop asks again behind an answer whose reason promises more, and must not do so without end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from eventlog import events as ev
from eventlog.errors.base import brief
from eventlog.state.facts import versions_of
from eventlog.state.state import GOES_ON
from eventlog.streams.odd_endings import UNKNOWN
from eventlog.values import MessageError, Text

if TYPE_CHECKING:
    from eventlog.session.reader import SessionReader
    from eventlog.state.facts import MessageFacts
    from eventlog.state.state import State


def ending_of(reader: SessionReader, message: str, reason: str, api: str) -> ev.MessageFinished:
    """Return the last event of a reply without calls, of which a loop would ask again.

    A second such answer in a row ends the turn. `api` is the API that the answer came from; a
    `reason` that promises no more is that of an answer with nothing to read.
    """
    found = second_idle_answer(reader, message)
    if found is None:
        return ev.MessageFinished(message, reason if reason in GOES_ON else UNKNOWN, None)
    if found == "idle":
        return ev.MessageFinished(message, "stop", None)
    read = f"read as {api}" if api else "of no API that was recognised"
    why = "" if reason in GOES_ON else f" and ended with {brief(reason)}"
    error = MessageError("empty", f"the provider sent no content, twice in a row; its answer was {read}{why}")
    return ev.MessageFinished(message, None, error)


def second_idle_answer(reader: SessionReader, message: str) -> Literal["empty", "idle"] | None:
    """Return what this open reply and the finished one before it are, if neither has a call.

    "empty": neither says anything; "idle": one has a text. None: they are not two such answers. The
    caller has flushed what was streamed. No user message may stand between them.
    """
    with reader.deciding() as state:
        facts = state.messages.get(message)
        before = None if facts is None else _before(state, message)
        if facts is None or before is None or _does(state, facts) or _does(state, before):
            return None
        finished = next(versions_of(before.changes, "finished"), 0)
        upto = state.version
    for recorded in reader.events(finished - 1, finished) if finished else ():
        end = recorded.event
        if isinstance(end, ev.MessageFinished) and end.error is None and end.reason in GOES_ON:
            says = any(_texts(reader, before, finished)) or any(_texts(reader, facts, upto))
            return "idle" if says else "empty"
    return None


def _before(state: State, message: str) -> MessageFacts | None:
    """The newest other reply behind the newest user message, if it was not removed."""
    asked = state.last_user()
    since = 0 if asked is None else state.messages[asked].added
    for _, names in state.opens.newest_first(state.history):
        for name in names:
            facts = state.messages[name]
            if name != message and not facts.summary:
                return facts if facts.added > since and state.now(facts.changes) != "removed" else None
    return None


def _does(state: State, facts: MessageFacts) -> bool:
    """Whether a reply has calls, files or the like, which are no texts."""
    kinds = {part.kind for part in facts.parts.values() if state.status(part) != "removed"}
    return not kinds <= {"text", "reasoning", "step", "other"}


def _texts(reader: SessionReader, facts: MessageFacts, upto: int) -> Iterator[str]:
    """Yield the pieces of a reply's texts that were not removed and have words."""
    with reader.deciding() as state:
        parts = {name for name, part in facts.parts.items() if part.kind == "text" and state.is_there(part)}
    for recorded in reader.events(facts.added - 1, upto):
        event = recorded.event
        if isinstance(event, ev.PartDelta) and event.part in parts and event.text.strip():
            yield event.text
        elif isinstance(event, ev.PartStarted) and event.part in parts and isinstance(event.kind, Text):
            yield from [str(event.kind.text)] if event.kind.text else []
