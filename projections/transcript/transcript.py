"""Transcript of a session: all messages, with marks for removed, pruned, covered ones.

It is read newest first, page by page. A page is made from the events of its own messages and the
few later ones about them, so its cost does not grow with the history before it.
`TranscriptProjection` gives the same messages from a projection of the whole history.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import islice
from typing import Any, Literal

import msgspec

from eventlog.errors import CallError, brief
from eventlog.session.session import Session
from eventlog.validation import require, require_version
from eventlog.values import Agent, Body, Content, Json, MessageError, Model, Patch, Retry
from projections.conversation.parts import (
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
from projections.conversation.projection import ConversationProjection
from projections.replay.loop import state_at
from projections.transcript.pages import BackwardReader
from projections.view.part_rendering import REDACTED, Resolver, text_of

__all__ = ["Transcript", "TranscriptMessage", "TranscriptPart", "TranscriptProjection"]


class TranscriptProjection(ConversationProjection):
    """The projection of all messages; its state grows with the history."""

    name = "transcript"
    version = 3
    whole = True


PROJECTION = TranscriptProjection()
_TOGETHER = 64
"""Messages whose large texts are read together."""


class TranscriptPart(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A part of the transcript; `text` is the full output, not its preview."""

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
    """Whether the part has not ended."""

    @property
    def marks(self) -> list[str]:
        """Return the marks that are set."""
        names = ("synthetic", "ignored", "removed", "redacted", "pruned", "open")
        return [name for name in names if getattr(self, name)]


class TranscriptMessage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
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
    """Id of the compaction part whose summary covers this message."""


class Transcript:
    """A session's transcript at a version, read on demand."""

    def __init__(self, session: Session, at: int | None = None) -> None:
        require(Session, session, "session is a Session")
        if at is not None:
            require_version(at)
        self._session = session
        self.version = session.version if at is None else at

    def page(self, size: int = 50, before: int | None = None) -> list[TranscriptMessage]:
        """Return the newest `size` messages that began before version `before`, newest first."""
        require(int, size, "size is an int")
        if size < 0:
            raise CallError(f"size {brief(size)} is negative; give the number of messages of the page")
        if before is not None:
            require_version(before)
        newest = (message for message in self.newest_first() if before is None or message.version < before)
        return list(islice(newest, min(size, sys.maxsize)))

    def newest_first(self) -> Iterator[TranscriptMessage]:
        """Yield all messages, newest first; reads back as far as the caller iterates."""
        backward = BackwardReader(self._session, self.version)
        yield from (transcript_message(message, self._session.text) for message in backward.messages())

    def oldest_first(self) -> list[TranscriptMessage]:
        """Return all messages in order; reads the whole history forward, large texts in bulk."""
        state, _ = state_at(self._session, PROJECTION, self.version)
        texts: dict[bytes, str] = {}

        def resolve(content: Content) -> str:
            return texts[content.digest] if isinstance(content, Body) else content

        result: list[TranscriptMessage] = []
        messages = iter(state.messages.values())
        while some := list(islice(messages, _TOGETHER)):
            large = _large(some, texts)
            texts.update(zip(large, self._session.reader.texts(large.values()), strict=True))
            result += [transcript_message(message, resolve) for message in some]
        return result


def _large(messages: Iterable[Message], loaded: Container[bytes]) -> dict[bytes, Body]:
    """Return the bodies that these messages refer to, without the loaded ones."""
    bodies: dict[bytes, Body] = {}
    for message in messages:
        for part in message.parts:
            for content in _contents(part):
                if type(content) is Body and content.digest not in loaded:
                    bodies[content.digest] = content
    return bodies


def _contents(part: Part) -> Iterable[Content | None]:
    """Return the contents that the transcript shows of a part."""
    if part.redacted:
        return ()
    if type(part) is TextPart or type(part) is ReasoningPart:
        return part.pieces
    if type(part) is ToolPart:
        output = part.output if part.full is None else part.full
        if part.pieces or part.live:
            return (output, part.input, part.error, *part.pieces, *part.live)
        return (output, part.input, part.error)
    if type(part) is FilePart:
        return (part.file.url,)
    return (part.subtask.prompt,) if type(part) is SubtaskPart else ()


def transcript_message(message: Message, resolve: Resolver) -> TranscriptMessage:
    """Return a message as a frozen value."""
    parts: list[TranscriptPart] = []
    for part in message.parts:
        parts.append(_redacted(part) if part.redacted else _CONVERTERS[type(part)](part, resolve))  # noqa: PERF401 - a call for each message
    return TranscriptMessage(
        message.id,
        "user" if message.user else "assistant",
        message.version,
        message.created,
        tuple(parts),
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


def _redacted(part: Part) -> TranscriptPart:
    """Return a redacted part, which has only its kind."""
    return TranscriptPart(part.id, _kind(part), REDACTED, removed=part.removed, redacted=True)


def _text(part: TextPart, resolve: Resolver) -> TranscriptPart:
    return TranscriptPart(
        part.id,
        "text",
        text_of(part.pieces, resolve),
        synthetic=part.synthetic,
        ignored=part.ignored,
        removed=part.removed,
        open=not part.ended,
    )


def _reasoning(part: ReasoningPart, resolve: Resolver) -> TranscriptPart:
    text = text_of(part.pieces, resolve)
    return TranscriptPart(part.id, "reasoning", text, removed=part.removed, open=not part.ended)


def _tool(part: ToolPart, resolve: Resolver) -> TranscriptPart:
    output = part.full if part.full is not None else part.output
    status = part.status
    return TranscriptPart(
        part.id,
        "tool",
        resolve(output) if output is not None else text_of(part.live, resolve),
        part.tool,
        part.call,
        resolve(part.input) if part.input else text_of(part.pieces, resolve),
        part.title,
        status,
        resolve(part.error) if part.error is not None else "",
        removed=part.removed,
        pruned=part.pruned,
        open=status in {"pending", "running"},
    )


def _file(part: FilePart, resolve: Resolver) -> TranscriptPart:
    file = part.file
    url = resolve(file.url)
    return TranscriptPart(
        part.id,
        "file",
        "" if file.url and url.startswith("data:") else url,
        mime=file.mime,
        filename=file.filename,
        synthetic=file.synthetic,
        removed=part.removed,
    )


def _subtask(part: SubtaskPart, resolve: Resolver) -> TranscriptPart:
    task = part.subtask
    text = resolve(task.prompt)
    return TranscriptPart(part.id, "subtask", text, title=task.description, tool=task.agent, removed=part.removed)


def _step(part: StepPart, resolve: Resolver) -> TranscriptPart:
    del resolve
    return TranscriptPart(part.id, _kind(part), status=part.reason, removed=part.removed)


def _note(part: NotePart, resolve: Resolver) -> TranscriptPart:
    del resolve
    return TranscriptPart(part.id, _kind(part), _noted(part), removed=part.removed)


def _compaction(part: CompactionPart, resolve: Resolver) -> TranscriptPart:
    del resolve
    return TranscriptPart(part.id, "compaction", removed=part.removed)


_CONVERTERS: dict[type[Part], Callable[[Any, Resolver], TranscriptPart]] = {
    TextPart: _text,
    ReasoningPart: _reasoning,
    ToolPart: _tool,
    FilePart: _file,
    SubtaskPart: _subtask,
    StepPart: _step,
    NotePart: _note,
    CompactionPart: _compaction,
}
"""The function that converts each kind of part."""


def _noted(part: NotePart) -> str:
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
