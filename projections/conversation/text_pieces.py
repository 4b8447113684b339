"""The texts of a part, which come in pieces: strings, and references of large texts."""

from __future__ import annotations

from typing import cast

from eventlog.values import Content
from projections.conversation.parts import Part, ReasoningPart, SubtaskPart, TextPart, ToolPart


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
