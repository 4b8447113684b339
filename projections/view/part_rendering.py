"""Render one part of a conversation as neutral parts.

`message_rendering.py` joins the parts of a message, `assembly.py` the messages, and `requests/`
turns them into a provider's form.  Pure: the same part, options and bodies give the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias, TypeGuard

from eventlog.values import INTERRUPTED, WAITING, Attachment, Content, Json
from projections.conversation.parts import (
    CompactionPart,
    FilePart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    SubtaskPart,
    TextPart,
    ToolPart,
)
from projections.view.cleared_arguments import cleared_arguments
from projections.view.constraints import constrained
from projections.view.neutral import Call, File, NeutralPart, Opaque, Reasoning, Result, Text
from projections.view.options import UNCONSTRAINED, Capability, RenderOptions

Resolver: TypeAlias = Callable[[Content], str]
"""Gives the text of a content, loading its body."""

CLEARED = "[Old tool result content cleared]"
QUESTION = "What did we do so far?"
SUBTASK = "The following tool was executed by the user"
MEDIA_HEADING = "Attached media from tool result:"
REDACTED = "[Redacted]"


def text_of(pieces: list[Content], resolve: Resolver) -> str:
    """The text of some pieces."""
    if len(pieces) == 1:
        return resolve(pieces[0])
    return "".join(map(resolve, pieces))


def is_media(mime: str) -> bool:
    """Whether a file is one that providers take as such, and may refuse: an image or a PDF."""
    return mime.startswith("image/") or mime == "application/pdf"


def file_name(mime: str, filename: str | None) -> str:
    """Return type and name of a file, as people and models are told of it."""
    return f"{mime}: {filename or 'file'}"


def named(mime: str, filename: str | None) -> Text:
    """Return the text that stands for a file that is not sent."""
    return Text(f"[Attached {file_name(mime, filename)}]")


def _was_text(part: FilePart, beside: Iterable[Part] = ()) -> bool:
    """Whether a program has turned a file into a text before: a directory, or a plain text.

    That is one on a disk, or one `beside` a text that the program wrote in the same message.
    """
    mime, url = part.file.mime, part.file.url
    if mime != "text/plain":
        return mime == "application/x-directory"
    if type(url) is str and url.startswith("file://"):
        return True
    return any(isinstance(one, TextPart) and one.synthetic for one in beside)


def is_sent(part: Part, message: Message, options: RenderOptions) -> TypeGuard[FilePart]:
    """Whether a user's file goes to the model as such, unless a prune cleared it."""
    if not message.user or not isinstance(part, FilePart):
        return False
    file = part.file
    kind = _capability(file.mime)
    if (
        _was_text(part, message.parts)
        or part.removed
        or part.redacted
        or (kind is not None and kind not in options.capabilities)
    ):
        return False
    return not (options.strip_media and is_media(file.mime)) and not is_replaced(
        part, file.mime, file.filename, options
    )


def is_replaced(part: FilePart | ToolPart, mime: str, filename: str | None, options: RenderOptions) -> bool:
    """Whether a file of a part is named instead of sent to the model of these options."""
    target = options.asked
    return any(
        one.mime == mime and one.name == (filename or "") and (not one.target or not target or one.target == target)
        for one in part.replaced
    )


class PartRendering(NamedTuple):
    """The rendering of a part: its own message, its result, and media that follow the results."""

    said: tuple[NeutralPart, ...] = ()
    results: tuple[Result, ...] = ()
    media: tuple[Text | File, ...] = ()

    @property
    def shown(self) -> bool:
        """Whether the part is in the view at all."""
        return bool(self.said or self.results)


NOTHING = PartRendering()


def render_part(
    message: Message, part: Part, options: RenderOptions, resolve: Resolver, *, shows_compaction: bool = False
) -> PartRendering:
    """Render one part of a message by itself; `shows_compaction` shows a compaction's part."""
    if part.removed:
        return NOTHING
    if message.user:
        found = PartRendering(render_user_part(message, part, options, resolve, shows_question=shows_compaction))
    else:
        found = _assistant_part(message, part, options, resolve, shows_compaction=shows_compaction)
    if options.constraints == UNCONSTRAINED or found is NOTHING:
        return found
    said, results = (tuple(constrained(parts, options.constraints)) for parts in (found.said, found.results))
    return PartRendering(said, tuple(part for part in results if isinstance(part, Result)), found.media)


# -- user --------------------------------------------------------------------------------------


def render_user_part(
    message: Message, part: Part, options: RenderOptions, resolve: Resolver, *, shows_question: bool
) -> tuple[NeutralPart, ...]:
    """Render one part of a user's message, before any provider constraint."""
    match part:
        case TextPart(ignored=False):
            only = part.pieces[0] if len(part.pieces) == 1 else None
            text = REDACTED if part.redacted else only if type(only) is str else text_of(part.pieces, resolve)
            return (Text(text),) if text else ()
        case FilePart() if not _was_text(part, message.parts):
            return (_file_part(part, options, resolve),)
        case CompactionPart():
            return (Text(QUESTION),) if shows_question else ()
        case SubtaskPart():
            return (Text(REDACTED if part.redacted else SUBTASK),)
        case _:
            return ()


def _file_part(part: FilePart, options: RenderOptions, resolve: Resolver) -> Text | File:
    if part.redacted:
        return Text(REDACTED)
    file = part.file
    if part.pruned or is_replaced(part, file.mime, file.filename, options):
        return named(file.mime, file.filename)
    return _file(file.mime, file.url, file.filename, options, resolve)


def _file(mime: str, url: Content, filename: str | None, options: RenderOptions, resolve: Resolver) -> Text | File:
    if options.strip_media and is_media(mime):
        return named(mime, filename)
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


class ForeignReasoning(Text, frozen=True, gc=False):
    """Another model's reasoning, to be sent as text; a view never contains this type."""


def _assistant_part(
    message: Message, part: Part, options: RenderOptions, resolve: Resolver, *, shows_compaction: bool
) -> PartRendering:
    same = options.model is None or message.model is None or options.model == message.model
    elsewhere = bool(options.target) and message.asked not in {"", options.target}
    stated = same and not elsewhere and message.place >= options.state_from
    match part:
        case TextPart():
            text = REDACTED if part.redacted else text_of(part.pieces, resolve)
            return (
                PartRendering((Text(text, part.metadata if stated else None),))
                if text or options.keep_empty_text
                else NOTHING
            )
        case ReasoningPart():
            return _reason(part, options, resolve, same=same, stated=stated)
        case ToolPart():
            return _tool(part, options, resolve, stated=stated)
        case FilePart() if not _was_text(part):
            return PartRendering((_file_part(part, options, resolve),))
        case OpaquePart() if shows_compaction:
            return PartRendering((_provided(part, options, resolve),))
        case _:
            return NOTHING


def _provided(part: OpaquePart, options: RenderOptions, resolve: Resolver) -> Opaque | Text:
    """Render the provider's compaction that is in force: for other targets by its summary."""
    if part.redacted:
        return Text(REDACTED)
    opaque = part.opaque
    summary = None if opaque.text is None else resolve(opaque.text)
    if summary is not None and opaque.target != options.asked:
        return Text(summary)
    return Opaque(opaque.kind, resolve(opaque.data), summary or "", part.tokens)


def _reason(
    part: ReasoningPart, options: RenderOptions, resolve: Resolver, *, same: bool, stated: bool
) -> PartRendering:
    if part.redacted:
        return PartRendering((Text(REDACTED),))
    if part.pruned:  # an empty thought tells the provider's form that what hangs on it has lost it
        return PartRendering((Reasoning("", None),)) if part.metadata is not None and stated else NOTHING
    text = text_of(part.pieces, resolve)
    if not same:
        return PartRendering((ForeignReasoning(text),)) if text.strip() else NOTHING
    own = part.metadata if stated else None
    if text or own is not None or options.keep_empty_text:
        return PartRendering((Reasoning(text, own),))
    return NOTHING


def _tool(part: ToolPart, options: RenderOptions, resolve: Resolver, *, stated: bool) -> PartRendering:
    input_text: Json = "{}" if part.redacted else (resolve(part.input) or "{}")
    metadata = part.metadata if stated else None
    if part.arguments_pruned:  # an id or a signature vouches for the arguments as they were
        input_text, metadata = cleared_arguments(input_text), None
    call = Call(part.call, part.tool, input_text, part.provider_executed, metadata)
    output, error = _output(part, options, resolve)
    files: list[File] = []
    media: list[Text | File] = []
    for found in _attached(part, options):
        if is_replaced(part, found.mime, found.filename, options):
            shown: Text | File = named(found.mime, found.filename)
        else:
            shown = _file(found.mime, found.url, found.filename, options, resolve)
        if not options.media_in_results and not options.strip_media and is_media(found.mime):
            media.append(shown)
        elif isinstance(shown, File):
            files.append(shown)
        else:
            output = f"{output}\n{shown.text}" if output else shown.text
    result = Result(part.call, part.tool, output, error, tuple(files))
    if part.provider_executed:
        return PartRendering((call, result), (), tuple(media))
    return PartRendering((call,), (result,), tuple(media))


def _attached(part: ToolPart, options: RenderOptions) -> tuple[Attachment, ...]:
    """The files of a tool's result that are sent with it, or named."""
    if part.status != "completed" or part.pruned or part.redacted:
        return ()
    return () if options.strip_media and options.strip_attachments else part.attachments


def _output(part: ToolPart, options: RenderOptions, resolve: Resolver) -> tuple[str, bool]:
    """The text of a call's result, and whether it is an error."""
    if part.redacted:
        return REDACTED, part.status != "completed"
    if part.status == "completed":
        return (CLEARED if part.pruned else _capped(resolve(part.output or ""), options)), False
    if part.status == "failed":
        if part.pruned:
            return CLEARED, True
        if options.interrupted_output and part.interrupted and part.output is not None:
            return _capped(resolve(part.output), options), False
        error = resolve(part.error or "")
        return (error if options.whole_errors else _capped(error, options)), True
    return (WAITING, False) if part.waits else (INTERRUPTED, True)


def _capped(text: str, options: RenderOptions) -> str:
    limit = options.tool_output_limit
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}\n[Tool output truncated: omitted {len(text) - limit} chars]"
