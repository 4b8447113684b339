"""Times as they are given on the command line: how long, and since when."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from projections.cli.exits import UsageFault

__all__ = ["LONG", "SINCE", "milliseconds", "since"]

LONG = "a number and s, m, h, d or w, as in 30d"
SINCE = "a date or time in UTC, as in 2025-01-31 or 2025-01-31T17:30, or how long ago, as in 30d"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_LENGTH = re.compile(r"(\d{1,9})([smhdw])")


def milliseconds(option: str, text: str | None) -> int | None:
    """How long, in milliseconds; `UsageFault` says how it is given."""
    if text is None:
        return None
    found = _LENGTH.fullmatch(text)
    if found is None:
        from eventlog.errors import brief

        raise UsageFault(f"{option} {brief(text)} is no length of time; give {LONG}")
    return int(found[1]) * _UNITS[found[2]] * 1000


def since(option: str, text: str | None) -> int | None:
    """Since when, in UTC milliseconds; `UsageFault` says how it is given."""
    if text is None:
        return None
    if _LENGTH.fullmatch(text):
        return round(time.time() * 1000) - (milliseconds(option, text) or 0)
    try:
        given = datetime.fromisoformat(text)
        return round(given.replace(tzinfo=given.tzinfo or UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        from eventlog.errors import brief

        raise UsageFault(f"{option} {brief(text)} is no time; give {SINCE}") from None
