"""Messages of the transcript as frozen values, and the large texts that they still lack.

A message is made from the state of a conversation without reading bodies: a text with a body in it
is left empty, and a `LargeText` says what belongs there.  `fill` reads the bodies of many messages
together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, cast

import msgspec
from msgspec.structs import force_setattr

from eventlog.codec.large_texts import checked_body_text
from eventlog.log.contract import BodyPlace
from eventlog.values import Agent, Body, Content, Json, MessageError, Model, Patch, Retry
from projections.conversation.parts import (
    CompactionPart,
    FilePart,
    Message,
    NotePart,
    OpaquePart,
    Part,
    ReasoningPart,
    StepPart,
    SubtaskPart,
    TextPart,
    ToolPart,
)
from projections.view.part_rendering import REDACTED, Resolver, file_name


class TranscriptPart(msgspec.Struct, frozen=True, array_like=True, gc=False):
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
    arguments_pruned: bool = False
    attachments: tuple[str, ...] = ()
    """The files of a result, each by type and name."""
    interrupted: bool = False
    """Whether a call has failed because it was interrupted."""

    @property
    def marks(self) -> list[str]:
        """Return the marks that are set."""
        names = ("synthetic", "ignored", "removed", "redacted", "pruned", "arguments_pruned", "interrupted", "open")
        return [name.replace("_", " ") for name in names if getattr(self, name)]


class TranscriptMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message of the transcript; times are UTC milliseconds.

    `version` is that of the event that began it, and the cursor for the page before it. Programs
    wrote a `synthetic` message, such as a question that is repeated behind a compaction; a
    compaction wrote a `summary`; `covered` is the part of the compaction whose summary stands for
    the message. A message with an `error` is as far as it came; one that is `removed` was taken
    back, or is an attempt that was repeated, as is a part.
    """

    id: str
    role: Literal["user", "assistant"]
    version: int
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


class LargeText(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A text of a part that is not filled in yet: its pieces, bodies among them."""

    message: int
    """Index of the message among those it was made with."""
    part: int
    """Index of the part in its message."""
    field: str
    pieces: tuple[Content, ...]
    place: BodyPlace | None = None
    """Where the body lies, if the text is one."""


def transcript_message(message: Message, resolve: Resolver) -> TranscriptMessage:
    """Return a message as a frozen value, with all its texts."""
    return transcript_header(message, tuple(transcript_part(part, resolve) for part in message.parts))


def frozen_message(message: Message, index: int, large: list[LargeText], resolve: Resolver) -> TranscriptMessage:
    """Return a message as a frozen value; add the texts that it lacks to `large`.

    They are added under `index`.
    `resolve` is asked only for what a `data:` URL may hide in.
    """
    parts: list[TranscriptPart] = []
    lacking: list[tuple[str, Sequence[Content]]] = []
    for place, part in enumerate(message.parts):
        parts.append(_frozen_part(part, lacking, resolve))
        if lacking:
            large += [LargeText(index, place, field, tuple(pieces)) for field, pieces in lacking]
            lacking.clear()
    return transcript_header(message, tuple(parts))


def transcript_part(part: Part, resolve: Resolver) -> TranscriptPart:
    """Return a part as a frozen value, with all its texts."""
    lacking: list[tuple[str, Sequence[Content]]] = []
    frozen = _frozen_part(part, lacking, resolve)
    for field, pieces in lacking:
        force_setattr(frozen, field, "".join(map(resolve, pieces)))
    return frozen


def _frozen_part(part: Part, lacking: _Lacking, resolve: Resolver) -> TranscriptPart:
    """Return a part as a frozen value; add the texts that it lacks to `lacking`."""
    if part.redacted:
        return redacted_part(part.id, _kind(part), removed=part.removed)
    return _CONVERTERS[type(part)](part, lacking, resolve)


def transcript_header(message: Message, parts: tuple[TranscriptPart, ...] = ()) -> TranscriptMessage:
    """Return a message as a frozen value, with these parts."""
    return TranscriptMessage(
        message.id,
        "user" if message.user else "assistant",
        message.version,
        message.created,
        parts,
        message.finished,
        message.agent,
        message.model,
        message.reason,
        message.error,
        message.synthetic or message.cause is not None,
        message.summary,
        message.removed,
        message.covered,
    )


def redacted_part(part: str, kind: str, *, removed: bool) -> TranscriptPart:
    """Return a redacted part, which has only its kind."""
    return TranscriptPart(part, kind, REDACTED, removed=removed, redacted=True)


def fill(
    messages: Sequence[TranscriptMessage],
    large: Iterable[LargeText],
    texts: Callable[[Sequence[Body]], Iterable[str]],
    read_at: Callable[[Sequence[BodyPlace]], Sequence[bytes] | None] | None,
) -> None:
    """Fill in large texts of messages.

    `texts` returns those of bodies; `read_at` returns bodies at their places, None if it cannot.
    """
    placed: list[tuple[TranscriptPart, LargeText]] = []
    lacking: list[tuple[TranscriptPart, LargeText]] = []
    for text in large:
        part = messages[text.message].parts[text.part]
        if not part.redacted:
            (lacking if text.place is None or read_at is None else placed).append((part, text))
    places = [text.place for _, text in placed if text.place is not None]
    found = read_at(places) if places and read_at is not None else ()
    if found is None:
        lacking += placed
    else:
        for (part, text), packed in zip(placed, found, strict=True):
            force_setattr(part, text.field, checked_body_text(cast("Body", text.pieces[0]), packed))
    bodies = {piece.digest: piece for _, text in lacking for piece in text.pieces if type(piece) is Body}
    read = dict(zip(bodies, texts(list(bodies.values())), strict=True))
    for part, text in lacking:
        pieces = [read[piece.digest] if type(piece) is Body else cast("str", piece) for piece in text.pieces]
        force_setattr(part, text.field, pieces[0] if len(pieces) == 1 else "".join(pieces))


# -- one converter for each kind of part -----------------------------------------------------------

_Lacking = list[tuple[str, Sequence[Content]]]


def _say(field: str, pieces: Sequence[Content], lacking: _Lacking) -> str:
    """Return the text of some pieces; with a body among them "" for now."""
    for piece in pieces:
        if type(piece) is Body:
            lacking.append((field, pieces))
            return ""
    return "".join(cast("Sequence[str]", pieces))


def _text(part: TextPart, lacking: _Lacking, _resolve: Resolver) -> TranscriptPart:
    return TranscriptPart(
        part.id,
        "text",
        _say("text", part.pieces, lacking),
        synthetic=part.synthetic,
        ignored=part.ignored,
        removed=part.removed,
        open=not part.ended,
    )


def _reasoning(part: ReasoningPart, lacking: _Lacking, _resolve: Resolver) -> TranscriptPart:
    text = _say("text", part.pieces, lacking)
    return TranscriptPart(part.id, "reasoning", text, removed=part.removed, pruned=part.pruned, open=not part.ended)


def _tool(part: ToolPart, lacking: _Lacking, _resolve: Resolver) -> TranscriptPart:
    output = part.full if part.full is not None else part.output
    status = part.status
    return TranscriptPart(
        part.id,
        "tool",
        _say("text", part.live if output is None else (output,), lacking),
        part.tool,
        part.call,
        _say("input", (part.input,) if part.input else part.pieces, lacking),
        part.title,
        status,
        _say("error", () if part.error is None else (part.error,), lacking),
        removed=part.removed,
        pruned=part.pruned,
        open=status in {"pending", "asked", "allowed", "running"},
        arguments_pruned=part.arguments_pruned,
        attachments=tuple(file_name(file.mime, file.filename) for file in part.attachments),
        interrupted=part.interrupted,
    )


def _file(part: FilePart, lacking: _Lacking, resolve: Resolver) -> TranscriptPart:
    file = part.file
    shown = not file.url or not resolve(file.url).startswith("data:")
    return TranscriptPart(
        part.id,
        "file",
        _say("text", (file.url,), lacking) if shown else "",
        mime=file.mime,
        filename=file.filename,
        synthetic=file.synthetic,
        removed=part.removed,
        pruned=part.pruned,
    )


def _subtask(part: SubtaskPart, lacking: _Lacking, _resolve: Resolver) -> TranscriptPart:
    task = part.subtask
    text = _say("text", (task.prompt,), lacking)
    return TranscriptPart(part.id, "subtask", text, title=task.description, tool=task.agent, removed=part.removed)


def _step(part: StepPart, _lacking: _Lacking, _resolve: Resolver) -> TranscriptPart:
    return TranscriptPart(part.id, _kind(part), status=part.reason, removed=part.removed)


def _note(part: NotePart, _lacking: _Lacking, _resolve: Resolver) -> TranscriptPart:
    return TranscriptPart(part.id, _kind(part), _noted(part), removed=part.removed)


def _compaction(part: CompactionPart, _lacking: _Lacking, _resolve: Resolver) -> TranscriptPart:
    return TranscriptPart(part.id, "compaction", removed=part.removed)


def _opaque(part: OpaquePart, lacking: _Lacking, _resolve: Resolver) -> TranscriptPart:
    text = () if part.opaque.text is None else (part.opaque.text,)
    return TranscriptPart(part.id, "provider-compaction", _say("text", text, lacking), removed=part.removed)


_CONVERTERS: dict[type[Part], Callable[[Any, _Lacking, Resolver], TranscriptPart]] = {
    TextPart: _text,
    ReasoningPart: _reasoning,
    ToolPart: _tool,
    FilePart: _file,
    SubtaskPart: _subtask,
    StepPart: _step,
    NotePart: _note,
    OpaquePart: _opaque,
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
