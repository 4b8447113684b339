"""All that was said, with marks: removed, pruned, redacted, covered by a compaction.  Read newest first, page by page.

Not what the model sees (`view/model_view.py`).  A page is made from the events of its own messages and from the few later ones that
speak of them, so its cost does not grow with the history before it.  `TranscriptProjection` is the same as a whole fold.
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
    """The fold of everything that was said; its state grows with the history."""

    name = "transcript"
    version = 3
    whole = True


PROJECTION = TranscriptProjection()
_TOGETHER = 64
"""Messages whose large texts are read together."""


class TranscriptPart(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
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
    """The compaction (its part) whose summary stands for this message."""


class Transcript:
    """A session's transcript at a version.  Nothing is read before it is asked for."""

    def __init__(self, session: Session, at: int | None = None) -> None:
        require(Session, session, "a transcript is that of a Session")
        if at is not None:
            require_version(at)
        self._session = session
        self.version = session.version if at is None else at

    def page(self, size: int = 50, before: int | None = None) -> list[TranscriptMessage]:
        """The newest `size` messages that began before the version `before`, newest first."""
        require(int, size, "a page's size is a whole number")
        if size < 0:
            raise CallError(f"a page's size is not less than zero, as {brief(size)} is")
        if before is not None:
            require_version(before)
        newest = (said for said in self.newest_first() if before is None or said.version < before)
        return list(islice(newest, min(size, sys.maxsize)))

    def newest_first(self) -> Iterator[TranscriptMessage]:
        """All messages, newest first, reading back as far as they are asked for."""
        backward = BackwardReader(self._session, self.version)
        yield from (said(message, self._session.text) for message in backward.messages())

    def oldest_first(self) -> list[TranscriptMessage]:
        """All messages in order: reads the whole history, forward, and the large texts in bulk."""
        state, _ = state_at(self._session, PROJECTION, self.version)
        texts: dict[bytes, str] = {}

        def resolve(content: Content) -> str:
            return texts[content.digest] if isinstance(content, Body) else content

        found: list[TranscriptMessage] = []
        messages = iter(state.messages.values())
        while some := list(
            islice(messages, _TOGETHER)
        ):  # a message is told while what its bodies were found by is still near
            large = _large(some, texts)
            texts.update(zip(large, self._session.reader.texts(large.values()), strict=True))
            found += [said(message, resolve) for message in some]
        return found


def _large(messages: Iterable[Message], known: Container[bytes]) -> dict[bytes, Body]:
    """The texts that `said` asks for, that are kept by reference, and that are not known."""
    found: dict[bytes, Body] = {}
    for message in messages:
        for part in message.parts:
            for content in _contents(part):
                if type(content) is Body and content.digest not in known:
                    found[content.digest] = content
    return found


def _contents(part: Part) -> Iterable[Content | None]:
    """The texts that `said` asks for."""
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


def said(message: Message, resolve: Resolver) -> TranscriptMessage:
    """A message as a frozen value."""
    parts: list[TranscriptPart] = []
    for part in message.parts:
        parts.append(_redacted(part) if part.redacted else _TOLD[type(part)](part, resolve))  # noqa: PERF401 - a call for each message
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
    """Of a redacted part only its kind is told."""
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


_TOLD: dict[type[Part], Callable[[Any, Resolver], TranscriptPart]] = {
    TextPart: _text,
    ReasoningPart: _reasoning,
    ToolPart: _tool,
    FilePart: _file,
    SubtaskPart: _subtask,
    StepPart: _step,
    NotePart: _note,
    CompactionPart: _compaction,
}
"""How a part of each kind is told."""


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
