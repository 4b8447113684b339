"""Durations and points in time as options take them."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from projections.cli.exits import UsageFault

__all__ = ["DURATION", "TIME", "milliseconds", "since"]

DURATION = "a number and s, m, h, d or w, as in 30d"
TIME = "a date or time in UTC, as in 2025-01-31 or 2025-01-31T17:30, or how long ago, as in 30d"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"(\d{1,9})([smhdw])")


def milliseconds(option: str, text: str | None) -> int | None:
    """Return a duration in milliseconds; raises `UsageFault` for another text."""
    if text is None:
        return None
    matched = _DURATION.fullmatch(text)
    if matched is None:
        from eventlog.errors import brief

        raise UsageFault(f"{option} {brief(text)} is no duration; give {DURATION}")
    return int(matched[1]) * _UNITS[matched[2]] * 1000


def since(option: str, text: str | None) -> int | None:
    """Return a point in time in UTC milliseconds; raises `UsageFault` for another text."""
    if text is None:
        return None
    if _DURATION.fullmatch(text):
        return round(time.time() * 1000) - (milliseconds(option, text) or 0)
    try:
        moment = datetime.fromisoformat(text)
        return round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        from eventlog.errors import brief

        raise UsageFault(f"{option} {brief(text)} is no time; give {TIME}") from None
