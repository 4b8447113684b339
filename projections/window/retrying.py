"""Fill a reply from a model that may fail for a while: the call is made again.

What a failed attempt said leaves the view, and a retry part stands for it (`Reply.retry`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from eventlog.session.reply import Reply
from eventlog.validation import require, require_function
from eventlog.values import MessageError
from projections.window.backoff import Backoff, is_transient, seconds_asked
from projections.window.fill_loop import ABORTED, fill

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["fill_retrying"]


def fill_retrying(
    reply: Reply,
    ask: Callable[[], Iterable[Any]],
    *,
    transient: tuple[type[Exception], ...] = (),
    attempts: int = 4,
    first_wait: float = 0.5,
    longest_wait: float = 30.0,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Ask a model and fill the reply as `fill` does; returns the finish reason.

    `ask` returns the chunks. It is called again, `attempts` times in all, after a
    `ConnectionError`, a timeout, an error whose `status_code` is 429, 5xx and the like, and those
    in `transient`. The wait doubles from `first_wait` seconds, half of it random, or is what
    `Retry-After` asks for, and is never longer than `longest_wait`. Other errors, and the last one,
    are raised. An interrupt ends it early.
    """
    require(Reply, reply, "what is filled is a Reply")
    require_function(ask, "`ask` is a function that returns the chunks")
    require_function(sleep, "sleep is a function that is given seconds")
    require(tuple, transient, "transient errors are a tuple of exception classes")
    backoff = Backoff(attempts=attempts, first=first_wait, longest=longest_wait)
    for attempt in range(1, attempts):
        try:
            return fill(reply, ask())
        except Exception as error:
            if not (is_transient(error) or isinstance(error, transient)):
                raise
            reply.retry(_recorded(error))
            seconds = backoff.seconds(attempt, _asked(error))
        sleep(seconds)
        if reply.interrupt_requested:
            reply.abort()
            return ABORTED
    return fill(reply, ask())


def _recorded(error: Exception) -> MessageError:
    status = getattr(error, "status_code", None)
    data = None if not isinstance(status, int) else msgspec.json.encode({"status": status}).decode()
    return MessageError("api", f"{type(error).__name__}: {error}", data)


def _asked(error: Exception) -> float | None:
    """The seconds that the answer with the error asks for, if it has headers."""
    headers: Mapping[str, str] | None = getattr(getattr(error, "response", None), "headers", None)
    return None if headers is None else seconds_asked(headers.get("retry-after"))
