"""When to ask a provider again: which failures pass, and how long to wait."""

from __future__ import annotations

import random
from json import JSONDecodeError

from eventlog.errors import CallError, StreamError
from eventlog.session.failure import is_disconnect
from eventlog.streams.refusals import RATE, TRANSIENT, refusal_kind, status_of
from eventlog.validation import require, require_wait

__all__ = ["Backoff", "is_transient"]

TOO_LARGE = 413


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

    def allows(self, attempt: int, asked: float | None, waited: float) -> bool:
        """Whether another attempt may follow, after the wait that the provider asks for.

        Not where the seconds `waited` so far and `asked` for are more than the longest wait.
        """
        return attempt < self.attempts and (asked is None or waited + asked <= self._longest)

    def seconds(self, attempt: int, asked: float | None = None) -> float:
        """Seconds to wait after a failed attempt; `asked` by the provider, they are those.

        Half of a wait of its own is random, so that programs that failed together do not come back
        together. Never longer than the longest wait.
        """
        if asked is not None:
            return min(self._longest, asked)
        most: float = min(self._longest, self._first * 2.0 ** (attempt - 1))
        return most * random.uniform(0.5, 1.0)  # no secret


def is_transient(error: Exception) -> bool:
    """Whether the same request may succeed later.

    The connection broke, the answer was garbled on its way, or it is a failure or a rate limit of
    the provider. An error of no known kind that a stream says without a status passes, too, unless
    its code names the request. A request over all that a minute allows (413) never passes.
    """
    if is_disconnect(error) or isinstance(error, (TimeoutError, JSONDecodeError)):
        return True
    kind = refusal_kind(error)
    if kind is None and isinstance(error, StreamError) and error.status_code is None:
        return not error.code.startswith("invalid")
    return kind == TRANSIENT or (kind == RATE and status_of(error) != TOO_LARGE)
