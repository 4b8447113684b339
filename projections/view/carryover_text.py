"""The words of a carryover, which the view shows behind the summary."""

from __future__ import annotations

from eventlog.values import Todo
from projections.conversation.carryover import Carryover, FileTouch, Pin
from projections.conversation.file_access import paths_of
from projections.view.part_rendering import REDACTED, Resolver

FILES_SHOWN = 60
"""Newest files that the view names; what was touched before is counted."""
PINNED_SHOWN = 8_000
"""Characters shown of one pinned part; `recall` reads the whole.

A pinned fact, which cannot be recalled, is shown whole.
"""


def carried_text(carried: Carryover, resolve: Resolver) -> str:
    """The text behind the summary, "" if there is nothing to carry."""
    sections = [
        ("## Todo list", [_todo(todo) for todo in carried.todos]),
        ("## Pinned", [_pinned(pin, resolve) for pin in carried.pins]),
        ("## Files touched", _files(carried.touches, resolve)),
    ]
    return "\n\n".join("\n".join((title, *lines)) for title, lines in sections if lines)


def _todo(todo: Todo) -> str:
    box = "x" if todo.status in {"completed", "done"} else " "
    state = "" if todo.status in {"pending", "completed", "done", ""} else f" ({todo.status})"
    return f"- [{box}] {todo.text}{state}"


def _pinned(pin: Pin, resolve: Resolver) -> str:
    if pin.redacted:
        return f"- {REDACTED}"
    text = "".join(map(resolve, pin.pieces))
    if not text:
        return f"- part {pin.part}"
    if pin.part is not None and len(text) > PINNED_SHOWN:
        text = f"{text[:PINNED_SHOWN]}\n[the rest of part {pin.part} can be recalled]"
    return "- " + text.replace("\n", "\n  ")


def _files(touches: tuple[FileTouch, ...], resolve: Resolver) -> list[str]:
    found: dict[str, dict[str, None]] = {}
    for touch in touches:
        paths = (touch.path,) if touch.arguments is None else paths_of(touch.tool, resolve(touch.arguments))
        for path in paths:
            accesses = found.pop(path, {})
            accesses[touch.access or "named"] = None
            found[path] = accesses
    lines = [f"- {path} ({', '.join(accesses)})" for path, accesses in found.items()]
    hidden = len(lines) - FILES_SHOWN
    return [f"- {hidden} earlier files", *lines[hidden:]] if hidden > 0 else lines
