"""List the messages that a compaction covers, by their ids, so that each can be recalled.

The messages of an earlier compaction, whose summary a later one updated, are listed under the
earlier one, and its summary under the later one.  Reads the whole history; appends nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from eventlog.errors import NotFoundError
from eventlog.session.session import Session
from eventlog.validation import require
from projections.conversation.coverage import covered_messages
from projections.conversation.parts import Compaction, FilePart, Message, ReasoningPart, SubtaskPart, TextPart, ToolPart
from projections.replay.checkpoints import Checkpoints
from projections.replay.loop import replay
from projections.transcript.transcript import TranscriptProjection
from projections.window.retrieval.part_text import gone
from projections.window.sizing.breakdown import kind_of_part


class CoveredPart(msgspec.Struct, frozen=True):
    """A part that says something."""

    id: str
    kind: str
    tool: str = ""
    title: str = ""
    """The title that the tool gave its result."""
    pruned: bool = False


class CoveredMessage(msgspec.Struct, frozen=True):
    """A message that is covered; `created` is UTC milliseconds."""

    id: str
    role: Literal["user", "assistant"]
    version: int
    created: int
    summary: bool
    """Whether it is the summary of an earlier compaction."""
    parts: tuple[CoveredPart, ...]


class CoveredRange(msgspec.Struct, frozen=True):
    """A compaction and what it covers, in the order in which it was said."""

    compaction: str
    """Its part."""
    status: Literal["requested", "started", "completed", "failed", "undone"]
    """Only a completed one covers anything."""
    marker: str
    """The message that asks for the summary."""
    summary: str | None
    """The summary message."""
    kept: tuple[str, ...]
    """Messages among those covered that stayed visible."""
    messages: tuple[CoveredMessage, ...]
    target: str | None = None
    """The target that alone can read the compaction; None: it counts for all."""


def covered_by(session: Session, name: str) -> CoveredRange:
    """Return what a compaction covers; `name` is its part, its summary, or its marker message.

    Raises `NotFoundError` if the session has no such compaction that counts now.
    """
    require(Session, session, "a session is a Session")
    require(str, name, "an id is a str")
    state, _ = replay(TranscriptProjection(), session.reader, None, Checkpoints(session.store.log))
    found = next((each for each in state.compactions.values() if name in _names(each)), None)
    if found is None:
        raise NotFoundError("compaction", name, session=session.id, gone=gone(session, name))
    messages = [message for message in state.messages.values() if message.covered == found.part and not message.removed]
    if found.is_provided and found.status == "completed":
        messages = [
            message for message in covered_messages(state, found, state.messages.values()) if not message.removed
        ]
    messages.sort(key=lambda message: message.place)
    return CoveredRange(
        found.part, found.status, found.message, found.summary, found.kept, tuple(map(_message, messages)), found.target
    )


def _names(compaction: Compaction) -> set[str | None]:
    return {compaction.part, compaction.message, compaction.summary}


def _message(message: Message) -> CoveredMessage:
    role: Literal["user", "assistant"] = "user" if message.user else "assistant"
    return CoveredMessage(message.id, role, message.version, message.created, message.summary, tuple(_parts(message)))


def _parts(message: Message) -> Iterator[CoveredPart]:
    for part in message.parts:
        if part.removed:
            continue
        if isinstance(part, ToolPart):
            yield CoveredPart(part.id, "tool", part.tool, part.shown_title, part.pruned)
        elif isinstance(part, (TextPart, ReasoningPart, FilePart, SubtaskPart)):
            yield CoveredPart(part.id, kind_of_part(part))
