"""Numbers, times and kinds of tokens in words, for output to people."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["KIND_NAMES", "counted", "moment", "policy_named"]

KIND_NAMES = {
    "system": "system prompt",
    "tools": "tool schemas",
    "user": "user text",
    "assistant": "assistant text",
    "reasoning": "reasoning",
    "calls": "tool calls",
    "results": "tool results",
    "attachments": "attachments",
    "summary": "summary",
    "carried": "carried over",
    "frames": "frames",
}
"""Display name of each kind of tokens in a view (`window/sizing/breakdown.py`)."""

DAY = 86_400_000
"""Milliseconds."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 message", "2,000 messages", "0 losses"."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith('s') else 's'}"


def policy_named(name: str) -> str:
    """Return the name of a planner as such: a program may call its own by any words."""
    return f"policy {name}" if name.replace("-", "").isalnum() else f"policy {name!r}"


def moment(milliseconds: int, *, zone: str = "Z", unknown: str = "unknown") -> str:
    """Return a time in UTC, to the second, with the `zone` behind it.

    Imports give records without a time one on the first day of 1970, which is `unknown`. A time
    beyond the calendar is shown as its number.
    """
    if 0 <= milliseconds < DAY:
        return unknown
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") + zone
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
