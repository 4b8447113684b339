"""Seconds after which a provider wants to be asked again: from headers, or from its words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import isfinite

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0}
_SPAN = r"((?:\d+(?:\.\d+)?(?:ms|[smh]))+)"
_WORDS = re.compile(
    rf"retryDelay\W+{_SPAN}"  # Gemini: google.rpc.RetryInfo in the details of the error
    rf"|(?:try again|retry) (?:in|after) {_SPAN}"  # OpenAI "in 6m0s", Groq "in 7m12.3s", Gemini "in 20.04s"
    r"|(?:try again|retry) (?:in|after) (\d+(?:\.\d+)?) ?sec",  # Azure, Moonshot "after 1 seconds"
    re.IGNORECASE,
)
_PIECE = re.compile(r"(\d+(?:\.\d+)?)(ms|[smh])", re.IGNORECASE)


def asked_wait(error: BaseException, now: Callable[[], datetime] | None = None) -> float | None:
    """Return the seconds that the answer with an error asks for; None if it asks for none.

    `now` tells the time, for a header that has a date.
    """
    found = getattr(getattr(error, "response", None) or error, "headers", None)
    if isinstance(found, Mapping) or hasattr(found, "get"):
        headers: Mapping[str, str] = found  # type: ignore[assignment]
        exact = _number(headers.get("retry-after-ms"))
        if exact is not None:
            return exact / 1_000
        asked = seconds_asked(headers.get("retry-after"), now)
        if asked is not None:
            return asked
    match = _WORDS.search(str(error))
    if match is None:
        return None
    span = match[1] or match[2]
    return float(match[3]) if span is None else sum(float(n) * _UNITS[unit.lower()] for n, unit in _PIECE.findall(span))


def seconds_asked(header: str | None, now: Callable[[], datetime] | None = None) -> float | None:
    """Return the seconds that a `Retry-After` asks for: a number, or the time of a date."""
    text = (header or "").strip()
    number = _number(text)
    if number is not None or not text:
        return number
    from email.utils import parsedate_to_datetime

    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max((at - (now() if now is not None else datetime.now(UTC))).total_seconds(), 0.0)


def _number(text: str | None) -> float | None:
    try:
        found = float(text or "")
    except ValueError:
        return None
    return max(found, 0.0) if isfinite(found) else None
