"""One message of a conversation, as the neutral messages that stand for it in the view (spec §4.2-4.5).

Not which messages are in the view (`selection.py`), nor what depends on their neighbours (`arranging.py`), nor any provider's form
(`formats/`).  Pure: the same message, options and bodies give the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from eventlog.state import INTERRUPTED
from eventlog.values import Attachment, Content, Json
from projections.neutral import Call, File, NeutralMessage, NeutralPart, Reasoning, Result, Text
from projections.parts import (
    CompactionPart,
    FilePart,
    Message,
    Part,
    ReasoningPart,
    StepPart,
    SubtaskPart,
    TextPart,
    ToolPart,
)
from projections.render_options import Capability, RenderOptions

__all__ = [
    "CLEARED",
    "MEDIA_HEADING",
    "QUESTION",
    "REDACTED",
    "SUBTASK",
    "Resolver",
    "is_media",
    "left_out",
    "render",
    "text_of",
]

Resolver: TypeAlias = Callable[[Content], str]
"""Gives the text of a content, loading its body."""

CLEARED = "[Old tool result content cleared]"
QUESTION = "What did we do so far?"
SUBTASK = "The following tool was executed by the user"
MEDIA_HEADING = "Attached media from tool result:"
REDACTED = "[Redacted]"
ABORTED = "aborted"
"""Name of the error of a message that somebody stopped."""
NOT_SENT = ("text/plain", "application/x-directory")
"""Kinds of files that were turned into text before."""


def text_of(pieces: list[Content], resolve: Resolver) -> str:
    """The text of some pieces."""
    if len(pieces) == 1:
        return resolve(pieces[0])
    return "".join(map(resolve, pieces))


def is_media(mime: str) -> bool:
    """Whether a file is one that providers take as such, and may refuse: an image or a PDF."""
    return mime.startswith("image/") or mime == "application/pdf"


def left_out(message: Message, options: RenderOptions) -> bool:
    """Whether an assistant message that failed or is unfinished has nothing that the model should see (spec §4.3)."""
    parts = [part for part in message.parts if not part.removed]
    if options.drop_failed:
        if message.error is None:
            return False
        return message.error.name != ABORTED or all(
            isinstance(part, ReasoningPart) or (isinstance(part, StepPart) and part.begins) for part in parts
        )
    if message.finished is not None and message.error is None:
        return False
    return not any(
        isinstance(part, (ToolPart, FilePart)) or (isinstance(part, TextPart) and (part.redacted or any(part.pieces)))
        for part in parts
    )


def render(
    message: Message, options: RenderOptions, resolve: Resolver, *, shows_question: bool
) -> list[NeutralMessage]:
    """The neutral messages of one message; `shows_question`: its compaction part is to be seen."""
    parts = [part for part in message.parts if not part.removed]
    if message.user:
        content = [
            rendered for part in parts for rendered in _user_part(part, options, resolve, shows_question=shows_question)
        ]
        return [NeutralMessage("user", tuple(content), message.id)] if content else []
    if left_out(message, options):
        return []
    return _assistant(message, parts, options, resolve)


# -- user --------------------------------------------------------------------------------------


def _user_part(part: Part, options: RenderOptions, resolve: Resolver, *, shows_question: bool) -> list[NeutralPart]:
    if part.redacted:
        return [Text(REDACTED)]
    match part:
        case TextPart():
            text = "" if part.ignored else text_of(part.pieces, resolve)
            return [Text(text)] if text else []
        case FilePart():
            file = part.file
            if file.mime in NOT_SENT:
                return []
            return [_file(file.mime, file.url, file.filename, options, resolve)]
        case CompactionPart():
            return [Text(QUESTION)] if shows_question else []
        case SubtaskPart():
            return [Text(SUBTASK)]
        case _:
            return []


def _file(mime: str, url: Content, filename: str | None, options: RenderOptions, resolve: Resolver) -> Text | File:
    if options.strip_media and is_media(mime):
        return Text(f"[Attached {mime}: {filename or 'file'}]")
    kind = _capability(mime)
    address = resolve(url)
    if kind == "image" and address.startswith("data:") and not address.partition(",")[2]:
        return Text("ERROR: Image file is empty or corrupted. Please provide a valid image.")
    if kind is not None and kind not in options.capabilities:
        name = f'"{filename}"' if filename else kind
        return Text(f"ERROR: Cannot read {name} (this model does not support {kind} input). Inform the user.")
    return File(mime, address, filename)


def _capability(mime: str) -> Capability | None:
    if mime.startswith("image/"):
        return "image"
    if mime.startswith("audio/"):
        return "audio"
    if mime.startswith("video/"):
        return "video"
    return "pdf" if mime == "application/pdf" else None


# -- assistant ---------------------------------------------------------------------------------


class _Block:
    """What one model call said: the parts of one wire message and the results that follow it."""

    def __init__(self) -> None:
        self.said: list[NeutralPart] = []
        self.results: list[NeutralPart] = []


def _assistant(message: Message, parts: list[Part], options: RenderOptions, resolve: Resolver) -> list[NeutralMessage]:
    same = options.model is None or message.model is None or options.model == message.model
    blocks = [_Block()]
    media: list[Attachment] = []
    for part in parts:
        block = blocks[-1]
        match part:
            case StepPart() if part.begins:
                blocks.append(_Block())
            case TextPart():
                text = REDACTED if part.redacted else text_of(part.pieces, resolve)
                if text or options.keep_empty_text:
                    block.said.append(Text(text, part.metadata if same else None))
            case ReasoningPart():
                _reason(block, part, options, resolve, same=same)
            case ToolPart():
                _tool(block, part, options, resolve, media, same=same)
            case FilePart() if part.redacted:
                block.said.append(Text(REDACTED))
            case FilePart() if part.file.mime not in NOT_SENT:
                file = part.file
                block.said.append(_file(file.mime, file.url, file.filename, options, resolve))
            case _:
                pass
    rendered: list[NeutralMessage] = []
    for block in blocks:
        if block.said:
            rendered.append(NeutralMessage("assistant", _unseparated(block.said, options), message.id))
        if block.results:
            rendered.append(NeutralMessage("tool", tuple(block.results), message.id))
    if media:
        files = (_file(found.mime, found.url, found.filename, options, resolve) for found in media)
        rendered.append(NeutralMessage("user", (Text(MEDIA_HEADING), *files), message.id))
    return rendered


class _Foreign(Text, frozen=True, gc=False):
    """Another model's reasoning, told as text."""


def _reason(block: _Block, part: ReasoningPart, options: RenderOptions, resolve: Resolver, *, same: bool) -> None:
    if part.redacted:
        block.said.append(Text(REDACTED))
        return
    text = text_of(part.pieces, resolve)
    if not same:
        if text.strip():
            block.said.append(_Foreign(text))
    elif text or part.metadata is not None or options.keep_empty_text:
        block.said.append(Reasoning(text, part.metadata))


def _unseparated(said: list[NeutralPart], options: RenderOptions) -> tuple[NeutralPart, ...]:
    """Turn another model's reasoning into plain texts, kept apart from the text that follows."""
    result: list[NeutralPart] = []
    for index, part in enumerate(said):
        if isinstance(part, _Foreign):
            followed = index + 1 < len(said) and isinstance(said[index + 1], Text)
            result.append(Text(part.text + options.reasoning_separator if followed else part.text))
        else:
            result.append(part)
    return tuple(result)


def _tool(
    block: _Block,
    part: ToolPart,
    options: RenderOptions,
    resolve: Resolver,
    media: list[Attachment],
    *,
    same: bool,
) -> None:
    input_text: Json = "{}" if part.redacted else (resolve(part.input) or "{}")
    block.said.append(Call(part.call, part.tool, input_text, part.provider_executed, part.metadata if same else None))
    output, error = _output(part, options, resolve)
    files: list[Attachment] = []
    if part.status == "completed" and not part.pruned and not part.redacted and not options.strip_media:
        files = list(part.attachments)
        if not options.media_in_results:
            media.extend(found for found in files if is_media(found.mime))
            files = [found for found in files if not is_media(found.mime)]
    kept: list[File] = []
    for found in files:
        shown = _file(found.mime, found.url, found.filename, options, resolve)
        if isinstance(shown, File):
            kept.append(shown)
        else:
            output = f"{output}\n{shown.text}" if output else shown.text
    result = Result(part.call, part.tool, output, error, tuple(kept))
    (block.said if part.provider_executed else block.results).append(result)


def _output(part: ToolPart, options: RenderOptions, resolve: Resolver) -> tuple[str, bool]:
    """The text of a call's result, and whether it is an error."""
    if part.redacted:
        return REDACTED, part.status == "failed"
    if part.status == "completed":
        return (CLEARED if part.pruned else _capped(resolve(part.output or ""), options)), False
    if part.status == "failed":
        if part.pruned:
            return CLEARED, True
        if options.interrupted_output and part.interrupted and part.output is not None:
            return _capped(resolve(part.output), options), False
        return resolve(part.error or ""), True
    return INTERRUPTED, True


def _capped(text: str, options: RenderOptions) -> str:
    limit = options.tool_output_limit
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}\n[Tool output truncated: omitted {len(text) - limit} chars]"
