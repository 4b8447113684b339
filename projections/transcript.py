"""All that was said, with marks: removed, pruned, redacted, covered by a compaction.  Read newest first, page by page.

Not what the model sees (`model_view.py`).  A page is made from the events of its own messages and from the few later ones that
speak of them, so its cost does not grow with the history before it.  `TranscriptProjection` is the same as a whole fold.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal

import msgspec

from eventlog.session import Session
from eventlog.values import Agent, Json, MessageError, Model, Patch, Retry
from projections.backward import Backward
from projections.conversation_projection import ConversationProjection
from projections.parts import (
    CompactionPart,
    FilePart,
    Message,
    NotePart,
    Part,
    ReasoningPart,
    StepPart,
    SubtaskPart,
    TextPart,
    ToolPart,
)
from projections.rendering import REDACTED, Resolver, text_of

__all__ = ["Said", "Transcript", "TranscriptPart", "TranscriptProjection"]


class TranscriptProjection(ConversationProjection):
    """The fold of everything that was said; its state grows with the history."""

    name = "transcript"
    whole = True


class TranscriptPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part as it was said.  `text` is what a person would read of it: the whole output, not its preview."""

    id: str
    kind: str
    text: str = ""
    tool: str = ""
    call: str = ""
    input: Json = ""
    title: str = ""
    status: str = ""
    error: str = ""
    mime: str = ""
    filename: str | None = None
    synthetic: bool = False
    ignored: bool = False
    removed: bool = False
    redacted: bool = False
    pruned: bool = False
    open: bool = False
    """It has not ended."""


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of the transcript; times are UTC milliseconds."""

    id: str
    role: Literal["user", "assistant"]
    version: int
    """Version of the event that began it; also the cursor for the page before it."""
    created: int
    parts: tuple[TranscriptPart, ...]
    finished: int | None = None
    agent: str = ""
    model: Model | None = None
    reason: str | None = None
    error: MessageError | None = None
    synthetic: bool = False
    summary: bool = False
    removed: bool = False
    covered: str | None = None
    """The compaction (its part) whose summary stands for this message."""


class Transcript:
    """A session's transcript at a version.  Nothing is read before it is asked for."""

    def __init__(self, session: Session, at: int | None = None) -> None:
        self._session = session
        self.version = session.version if at is None else at

    def page(self, size: int = 50, before: int | None = None) -> list[Said]:
        """The newest `size` messages that began before the version `before`, newest first."""
        newest = (said for said in self.newest_first() if before is None or said.version < before)
        return list(islice(newest, size))

    def newest_first(self) -> Iterator[Said]:
        """All messages, newest first, reading back as far as they are asked for."""
        backward = Backward(self._session, self.version)
        yield from (said(message, self._session.store.text) for message in backward.messages())

    def oldest_first(self) -> list[Said]:
        """All messages in order: reads the whole history."""
        return [*self.newest_first()][::-1]


def said(message: Message, resolve: Resolver) -> Said:
    """A message as a frozen value."""
    return Said(
        message.id,
        "user" if message.user else "assistant",
        message.version,
        message.created,
        tuple(_part(part, resolve) for part in message.parts),
        message.finished,
        message.agent,
        message.model,
        message.reason,
        message.error,
        message.synthetic,
        message.summary,
        message.removed,
        message.covered,
    )


def _part(part: Part, resolve: Resolver) -> TranscriptPart:
    """A part as a frozen value; of a redacted one only its kind is told."""
    kind = _kind(part)
    if part.redacted:
        return TranscriptPart(part.id, kind, REDACTED, removed=part.removed, redacted=True)
    match part:
        case TextPart():
            return TranscriptPart(
                part.id,
                kind,
                text_of(part.pieces, resolve),
                synthetic=part.synthetic,
                ignored=part.ignored,
                removed=part.removed,
                open=not part.ended,
            )
        case ReasoningPart():
            text = text_of(part.pieces, resolve)
            return TranscriptPart(part.id, kind, text, removed=part.removed, open=not part.ended)
        case ToolPart():
            return _tool(part, kind, resolve)
        case FilePart():
            file = part.file
            return TranscriptPart(
                part.id,
                kind,
                "" if file.url and resolve(file.url).startswith("data:") else resolve(file.url),
                mime=file.mime,
                filename=file.filename,
                synthetic=file.synthetic,
                removed=part.removed,
            )
        case SubtaskPart():
            task = part.subtask
            return TranscriptPart(
                part.id, kind, resolve(task.prompt), title=task.description, tool=task.agent, removed=part.removed
            )
        case StepPart():
            return TranscriptPart(part.id, kind, status=part.reason, removed=part.removed)
        case NotePart():
            return TranscriptPart(part.id, kind, _note(part), removed=part.removed)
        case CompactionPart():
            return TranscriptPart(part.id, kind, removed=part.removed)


def _tool(part: ToolPart, kind: str, resolve: Resolver) -> TranscriptPart:
    output = part.full if part.full is not None else part.output
    return TranscriptPart(
        part.id,
        kind,
        resolve(output) if output is not None else text_of(part.live, resolve),
        tool=part.tool,
        call=part.call,
        input=resolve(part.input) if part.input else text_of(part.pieces, resolve),
        title=part.title,
        status=part.status,
        error=resolve(part.error) if part.error is not None else "",
        removed=part.removed,
        pruned=part.pruned,
        open=part.status in {"pending", "running"},
    )


def _note(part: NotePart) -> str:
    match part.note:
        case Agent():
            return part.note.name
        case Patch():
            return "\n".join(part.note.files)
        case Retry():
            return part.note.error.message
        case _:
            return part.note.snapshot


def _kind(part: Part) -> str:
    match part:
        case NotePart():
            return type(part.note).__name__.lower()
        case StepPart():
            return "step-start" if part.begins else "step-finish"
        case _:
            return type(part).__name__.removesuffix("Part").lower()
