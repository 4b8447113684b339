"""Read one part or message from the log by its id, at the cost of its own events.

A part that a prune, a truncation or a compaction hides from the view is read all the same.
Rolled-back and removed parts are gone, and redacted ones show as redacted.  The session's facts
tell at which versions a part began, changed and was edited, so the cost does not grow with the
history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eventlog.codec.decoded import Span
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import NotFoundError
from eventlog.events import LASTING
from eventlog.history.ranges import covers, merged, shared
from eventlog.session.session import Session
from projections.conversation import apply
from projections.conversation.parts import FilePart, Message
from projections.conversation.state import Conversation
from projections.transcript.message import TranscriptMessage, TranscriptPart, transcript_message


def read_part(session: Session, part: str) -> TranscriptPart:
    """Return a whole part; `NotFoundError` if the session has none of this id now."""
    found = transcript_message(_message_with(session, part), session.text)
    for told in found.parts:
        if told.id == part:
            return told
    raise NotFoundError("part", part, session=session.id)


def read_url(session: Session, file: str) -> str:
    """Return the address of a file part, a `data:` URL with its bytes; "" if it is redacted."""
    for part in _message_with(session, file).parts:
        if part.id == file and isinstance(part, FilePart) and not part.redacted:
            return session.text(part.file.url)
    return ""


def read_message(session: Session, message: str) -> TranscriptMessage:
    """Return a message with all its parts; `NotFoundError` if the session has none now."""
    with session.reader.deciding() as state:
        owner = state.message(message)
        if covers(session.reader.forgotten(), owner.added):
            raise NotFoundError("message", message, session=session.id)
        counted = [
            facts
            for facts in owner.parts.values()
            if state.history.holds(facts.added) and state.now(facts.changes) != "removed"
        ]
        ranges = [found for facts in counted for found in state.made_at(facts)]
    return transcript_message(_read(session, Message(message, owner.user, owner.added, 0), ranges), session.text)


def gone(session: Session, name: str) -> str:
    """Return how a message or part left the history; "" for one that is there, or never was."""
    with session.reader.deciding() as state:
        for find in (state.message, state.part):
            try:
                find(name)
            except NotFoundError as error:
                if error.gone:
                    return error.gone
    return ""


def _message_with(session: Session, part: str) -> Message:
    """The message of a part, with this part alone."""
    with session.reader.deciding() as state:
        facts = state.part(part)
        message = facts.message
        owner = state.message(message)
        ranges = state.made_at(facts)
    return _read(session, Message(message, owner.user, owner.added, 0), ranges)


def _read(session: Session, message: Message, ranges: Iterable[tuple[int, int]]) -> Message:
    """The message, with what its parts became at these versions."""
    state = Conversation(whole=True)
    state.add_message(message)
    for span in _effective(session, merged(ranges)):
        if isinstance(span.item, DeltaRun):
            state.apply_run(span.item)
        else:
            apply.apply(state, span.item, span.first, span.time)
    return state.messages[message.id]


def _effective(session: Session, wanted: Iterable[tuple[int, int]]) -> Iterator[Span]:
    """The events of these versions, without what rollbacks hid."""
    effective = session.reader.effective_ranges()
    for first, last in wanted:
        for span in session.reader.spans(first - 1, last):
            if isinstance(span.item, LASTING):
                yield span
                continue
            for low, high in shared([(span.first, span.last)], effective):
                part = span.cut(low - 1, high)
                if part is not None:
                    yield part
