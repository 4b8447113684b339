"""A view as text for people; `view` and `demo` print it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.cli import output
from projections.cli.screen import safe
from projections.reports.wording import counted

if TYPE_CHECKING:
    from projections.view.model_view import ModelView
    from projections.view.neutral import File, NeutralPart


def print_view(view: ModelView, *, longest: int | None = None) -> None:
    """Print a view for people, each part cut to `longest` characters."""
    from projections.view.neutral import Result

    for segment in view.system:
        output.heading("system")
        output.block(shortened(segment, longest))
    for message in view.messages:
        output.heading(message.role)
        for part in message.parts:
            mark, text = _marked(part)
            output.block(shortened(text, longest), mark)
            for file in part.files if isinstance(part, Result) else ():
                output.block(_file(file), "<- ")
    messages = f"{counted(len(view.messages), 'message')} of the view"
    output.heading(f"{messages}, {counted(view.tokens, 'token')}, version {view.version}")


def shortened(text: str, longest: int | None) -> str:
    """Return the text, cut with a note of its length if it is longer."""
    if longest is None or len(text) <= longest:
        return text
    return f"{text[:longest]}… ({counted(len(text), 'character')})"


def _marked(part: NeutralPart) -> tuple[str, str]:
    """Return the mark before each line of a part, and its text."""
    from projections.view.neutral import Call, File, Opaque, Reasoning, Result

    match part:
        case Reasoning():
            return "~ ", part.text
        case Call():
            return "", safe(f"-> {part.tool}({part.input}) [{part.call}]", one_line=True)
        case Result():
            return "<! " if part.error else "<- ", part.output
        case File():
            return "", _file(part)
        case Opaque():
            return "", part.text or f"({part.kind}, {counted(len(part.data), 'character')})"
        case _:
            return "", part.text


def _file(file: File) -> str:
    return safe(f"file {file.mime} {file.filename or ''}".rstrip(), one_line=True)
