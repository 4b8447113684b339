"""The texts of a part, which come in pieces: strings, and references of large texts."""

from __future__ import annotations

from typing import cast

from eventlog import events as ev
from eventlog.codec.redaction import blank
from eventlog.values import Content
from projections.conversation.parts import Part, ReasoningPart, StepPart, SubtaskPart, TextPart, ToolPart


def join_part(part: Part) -> None:
    """Join the growing texts of a part into their canonical form: no two strings side by side."""
    if type(part) is TextPart or type(part) is ReasoningPart:
        _join(part.pieces)
    elif type(part) is ToolPart:
        _join(part.pieces)
        _join(part.live)


def _join(pieces: list[Content]) -> None:
    if len(pieces) > 1 or (pieces and not pieces[0]):
        pieces[:] = joined(pieces)


def texts_of(part: Part) -> tuple[Content, ...]:
    """Return the texts of a part, for a pin."""
    match part:
        case TextPart() | ReasoningPart():
            return tuple(joined(part.pieces))
        case ToolPart():
            found = part.output if part.status == "completed" else part.error
            return () if found is None else (found,)
        case SubtaskPart():
            return (part.subtask.prompt,)
        case _:
            return ()


def joined(pieces: list[Content]) -> list[Content]:
    """The pieces with neighbouring strings made one, and empty ones left out."""
    try:
        text = "".join(cast("list[str]", pieces))
    except TypeError:  # large texts are among them
        pass
    else:
        return [text] if text else []
    result: list[Content] = []
    strings: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            strings.append(piece)
            continue
        if any(strings):
            result.append("".join(strings))
        strings = []
        result.append(piece)
    if any(strings):
        result.append("".join(strings))
    return result


_CONTENT = (
    "pieces", "live", "metadata", "input", "output", "full", "error", "title", "details", "attachments", "replaced",
    "reason",
)  # fmt: skip


def empty(part: Part) -> None:
    """Take the content out of a redacted part, as a scrub does."""
    if isinstance(part, StepPart):
        return
    bare = type(part)(part.id)
    for name in part.__struct_fields__:
        if name in _CONTENT:
            setattr(part, name, getattr(bare, name))
        elif name in {"file", "subtask", "note", "opaque"}:
            born = blank(ev.PartStarted("", part.id, getattr(part, name)), (part.id,), digests=False)
            setattr(part, name, cast("ev.PartStarted", born).kind)
