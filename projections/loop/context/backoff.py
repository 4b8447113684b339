"""When to ask a provider again: which failures pass, and how long to wait."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from json import JSONDecodeError

from eventlog.errors import CallError, StreamError
from eventlog.session.outcome import is_disconnect
from eventlog.validation import require, require_wait

__all__ = ["Backoff", "asked_wait", "is_transient", "seconds_asked"]

AGAIN = frozenset({408, 409, 425, 429, *range(500, 600)})
"""Statuses after which the same request may succeed."""


class Backoff:
    """The waits between attempts: doubled each time, jittered, and bounded."""

    def __init__(self, *, attempts: int, first: float, longest: float) -> None:
        require(int, attempts, "attempts are a whole number")
        for seconds in (first, longest):
            require_wait(seconds)
        if attempts < 1:
            raise CallError(f"{attempts} attempts; expected at least one")
        self.attempts = attempts
        self._first = first
        self._longest = longest

    def seconds(self, attempt: int, asked: float | None = None) -> float:
        """Seconds to wait after a failed attempt; `asked` by the provider, they are those.

        Never longer than the longest wait. Half of a wait of its own is random, so that programs
        that failed together do not come back together.
        """
        if asked is not None:
            return min(self._longest, asked)
        most: float = min(self._longest, self._first * 2.0 ** (attempt - 1))
        return most * random.uniform(0.5, 1.0)  # no secret


def is_transient(error: Exception) -> bool:
    """Whether the same request may succeed later.

    The connection broke, the answer was garbled on its way, or the status says so. An error that a
    stream says without a status passes, too, unless its code names the request.
    """
    if is_disconnect(error) or isinstance(error, (TimeoutError, JSONDecodeError)):
        return True
    if isinstance(error, StreamError) and error.status_code is None:
        return not error.code.startswith(("invalid", "context_length"))
    return getattr(error, "status_code", None) in AGAIN


def seconds_asked(header: str | None, now: Callable[[], datetime] | None = None) -> float | None:
    """Return the seconds that a `Retry-After` asks for: a number, or the time of a date."""
    text = (header or "").strip()
    if not text:
        return None
    try:
        return max(float(text), 0.0)
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max((at - (now() if now is not None else datetime.now(UTC))).total_seconds(), 0.0)


def asked_wait(error: Exception) -> float | None:
    """Return the seconds that the answer with an error asks for, if it has headers."""
    headers: Mapping[str, str] | None = getattr(getattr(error, "response", None), "headers", None)
    return None if headers is None else seconds_asked(headers.get("retry-after"))
