"""When two tool calls are the same: the same tool, and inputs that are equal as JSON.

Pure.  Imported by the planners beside it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from eventlog.values import Content
from projections.parts import ToolPart

__all__ = ["call_key"]


def call_key(part: ToolPart, text: Callable[[Content], str]) -> tuple[str, str]:
    """The tool and its canonical input; equal for calls that are the same.  `text` gives the text behind a content."""
    given = text(part.input) if part.input else "".join(map(text, part.pieces))
    try:
        found = msgspec.json.encode(msgspec.json.decode(given), order="deterministic").decode()
    except (msgspec.DecodeError, ValueError, RecursionError):
        found = given
    return part.tool, found
