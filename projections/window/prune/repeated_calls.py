"""Tool calls that repeat or alternate: how a model is seen to go round in circles.

Two calls are the same if the tool is, and the inputs are equal as JSON. Not what is done about it
(`next_step.py`). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import tee
from typing import NamedTuple

import msgspec

from eventlog.values import Content
from projections.conversation.parts import Message, ToolPart
from projections.view.part_rendering import Resolver


def call_key(part: ToolPart, text: Callable[[Content], str]) -> tuple[str, str]:
    """Return the tool and its canonical input; equal calls have equal keys."""
    given = text(part.input) if part.input else "".join(map(text, part.pieces))
    try:
        found = msgspec.json.encode(msgspec.json.decode(given), order="deterministic").decode()
    except (msgspec.DecodeError, ValueError, RecursionError):
        found = given
    return part.tool, found


class RepeatedCall(NamedTuple):
    """The newest calls, all equal or two that alternate: their tools, and parts, oldest first."""

    tools: tuple[str, ...]
    """One tool, or those of the two calls."""
    parts: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The actions of the model."""
        times = f"{len(self.parts)} times in a row"
        if len(self.tools) == 1:
            return f"the model called {self.tools[0]} {times} with the same input"
        first, second = self.tools
        return f"the model alternated between two calls, of {first} and {second}, {times} with the same inputs"


def repeated_call(messages: Iterable[Message], limit: int, resolve: Resolver) -> RepeatedCall | None:
    """Find calls in a row that are the same, or two that alternate; None if there are too few.

    They are the newest calls of `messages`, which come newest first; calls are the same if tool and
    input, as JSON, are. It takes `limit` equal calls, or two that alternate as often, so that each
    is made `limit` times: A B A B A B. With a `limit` of 0 nothing is found.

    Results make no difference, nor does what is said between the calls; a message of the user's
    does.
    """
    if limit <= 0:
        return None
    for period, calls in enumerate(tee(_newest_first(messages)), 1):
        row = _row(calls, period, resolve)
        if len(row) >= limit * period:
            oldest_first = row[::-1]
            tools = [part.tool for part in oldest_first[:period]]
            return RepeatedCall(tuple(tools), tuple(part.id for part in oldest_first))
    return None


def _row(calls: Iterable[ToolPart], period: int, resolve: Resolver) -> list[ToolPart]:
    """The first of these calls that each equal the one `period` places before."""
    row: list[ToolPart] = []
    for part in calls:
        if len(row) >= period:
            other = row[-period]
            if part.tool != other.tool or call_key(part, resolve) != call_key(other, resolve):
                break
        row.append(part)
    return row


def _newest_first(messages: Iterable[Message]) -> Iterator[ToolPart]:
    """The calls since the last message of the user's own."""
    for message in messages:
        if message.user and not message.synthetic and not message.removed:
            return
        for part in reversed(message.parts):
            if isinstance(part, ToolPart) and not (part.removed or message.removed):
                yield part
