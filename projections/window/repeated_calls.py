"""Identical tool calls in a row: how a model is seen to go round in circles.

Two calls are the same if the tool is, and the inputs are equal as JSON. Not what is done about it
(`next_step.py`). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from eventlog.values import Content
from projections.conversation.parts import Message, ToolPart
from projections.window.sizing.measure import Measure

__all__ = ["RepeatedCall", "call_key", "repeated_call"]


def call_key(part: ToolPart, text: Callable[[Content], str]) -> tuple[str, str]:
    """Return the tool and its canonical input; equal calls have equal keys."""
    given = text(part.input) if part.input else "".join(map(text, part.pieces))
    try:
        found = msgspec.json.encode(msgspec.json.decode(given), order="deterministic").decode()
    except (msgspec.DecodeError, ValueError, RecursionError):
        found = given
    return part.tool, found


class RepeatedCall(NamedTuple):
    """The newest calls, all equal: the tool, their number, and their parts, oldest first."""

    tool: str
    times: int
    parts: tuple[str, ...]


def repeated_call(messages: Iterable[Message], limit: int, measure: Measure) -> RepeatedCall | None:
    """Find calls in a row that are the same; None if they are fewer than `limit`, or it is 0.

    They are the newest calls of `messages`, which come newest first; calls are the same if tool and
    input, as JSON, are.

    Results make no difference, nor does what is said between the calls; a message of the user's
    does.
    """
    if limit <= 0:
        return None
    row: list[ToolPart] = []
    for part in _newest_first(messages):
        if row and (part.tool != row[0].tool or call_key(part, measure.text) != call_key(row[0], measure.text)):
            break
        row.append(part)
    if len(row) < limit:
        return None
    return RepeatedCall(row[0].tool, len(row), tuple(part.id for part in reversed(row)))


def _newest_first(messages: Iterable[Message]) -> Iterator[ToolPart]:
    """The calls since the last message of the user's own."""
    for message in messages:
        if message.user and not message.synthetic and not message.removed:
            return
        for part in reversed(message.parts):
            if isinstance(part, ToolPart) and not (part.removed or message.removed):
                yield part
