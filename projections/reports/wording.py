"""Numbers, times and kinds of tokens in words, for output to people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from projections.reports.cache_uses import CacheUse

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

DAMAGE_ADVICE = (
    "`eventlog verify` lists all damage; restore from a backup, or save what is sound with `eventlog repair`"
)
"""Advice for an error of damaged data."""
KEY_ADVICE = "name the key file with --key-file or EVENTLOG_KEY_FILE; a destroyed key cannot be recovered"
"""Advice for an error of a missing key."""

DAY = 86_400_000
"""Milliseconds."""


def cache_words(use: CacheUse) -> str:
    """Return what a step read from its provider's cache, what it missed, why, and the money."""
    told = f"{use.reported:,} of {counted(use.tokens, 'token')} from the cache"
    if not use.cause:
        return told
    if not use.missed:
        return f"{told}, {use.expected:,} expected; the reason is {use.cause}"
    event = "" if use.event is None else f" at version {use.event}"
    lost = "" if use.lost is None else f", ${use.lost}"
    return f"{told}, {use.missed:,} missed ({use.cause}{event}{lost})"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 message", "2,000 messages", "0 losses"."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith('s') else 's'}"


def pruned_words(parts: int, arguments: int, policy: str = "") -> str:
    """Return the extent of a prune: "2 parts, arguments of 1 call, policy recency"."""
    words = [counted(parts, "part")] if parts or not arguments else []
    words += [f"arguments of {counted(arguments, 'call')}"] if arguments else []
    return ", ".join([*words, *([policy_named(policy)] if policy else [])])


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
