"""Ask a model that may fail for a while again: which failures pass, and how long to wait.

What a failed attempt said leaves the view, and a retry part stands for it (`Reply.retry`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from json import JSONDecodeError

from eventlog.errors import CallError, StreamError, UnknownStreamError
from eventlog.session.failure import is_disconnect, provider_error
from eventlog.session.filling import ABORTED, Filled, Filling, chunks_of, fill_with
from eventlog.session.reply import Reply
from eventlog.streams.answer import API
from eventlog.streams.refusals import MEDIA, OPAQUE, OVERFLOW, RATE, TRANSIENT, refusal_kind, status_of
from eventlog.streams.retry_after import asked_wait
from eventlog.validation import require, require_function, require_wait
from projections.loop.context.refused_request import end_reply

_ANSWERED = frozenset({MEDIA, OPAQUE, OVERFLOW})
"""Kinds of refusals that the loop answers with another request."""
LOOK_EVERY = 1.0
"""Seconds of waiting between two looks for an interrupt."""
TOO_LARGE = 413


def fill_retrying(
    reply: Reply,
    ask: Callable[[], object],
    *,
    api: API | None = None,
    transient: tuple[type[Exception], ...] = (),
    attempts: int = 4,
    first_wait: float = 0.5,
    longest_wait: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Filled:
    """Ask a model and fill the reply; see `Reply.fill`.

    `ask` returns the answer: chunks, or one whole answer. It is called again, `attempts` times in
    all, after a broken connection, a timeout, an answer that is no JSON or has no end, a rate limit
    (429), a failure of the provider (5xx, or said by its stream), and errors in `transient`. The
    wait doubles from `first_wait` seconds to `longest_wait`, half of it random, or is what the
    provider asks for (`Retry-After`, `retry-after-ms`, or its words). A provider that asks for more
    than is left of `longest_wait` has refused for its rate. Other errors, and the last one, are
    raised; one that the stream said is a `StreamError` and has ended the reply. An interrupt ends
    it early. `sleep` waits so many seconds; `api` is that of `Reply.fill`.
    """
    require_function(sleep, "sleep is a function that is given seconds")
    again = Attempts(reply, ask, transient, Backoff(attempts=attempts, first=first_wait, longest=longest_wait))
    while True:
        try:
            return fill_with(Filling(reply, api, whole=True), chunks_of(ask()))
        except Exception as error:  # noqa: BLE001  # raised again unless it passes
            waits = again.retry(error)
        for seconds in waits:
            sleep(seconds)
            if again.is_stopped():
                return Filled(ABORTED)


class Backoff:
    """The waits between the attempts of one call: doubled each time, jittered, and bounded."""

    def __init__(self, *, attempts: int, first: float, longest: float) -> None:
        require(int, attempts, "attempts are a whole number")
        for seconds in (first, longest):
            require_wait(seconds)
        if attempts < 1:
            raise CallError(f"{attempts} attempts; expected at least one")
        self._most = attempts
        self._first = first
        self._longest = longest
        self._waited = 0.0
        self.made: int = 1
        """Attempts so far, with the one that is under way."""

    def wait(self, error: Exception) -> float | None:
        """Return the seconds to wait before another attempt after an error; None: there is none.

        It is as long as the provider asks for, but none where it asks for more than is left of the
        longest wait. Half of a wait of its own is random, so that programs that failed together do
        not come back together.
        """
        asked = asked_wait(error)
        if self.made >= self._most or (asked is not None and self._waited + asked > self._longest):
            return None
        seconds: float = min(self._longest, self._first * 2.0 ** (self.made - 1))
        seconds = seconds * random.uniform(0.5, 1.0) if asked is None else asked  # no secret
        self.made += 1
        self._waited += seconds
        return seconds


class Attempts:
    """The attempts of one model call: which error another one may follow, and when."""

    def __init__(self, reply: Reply, ask: object, transient: tuple[type[Exception], ...], backoff: Backoff) -> None:
        require(Reply, reply, "what is filled is a Reply")
        require_function(ask, "`ask` is a function that returns the chunks")
        require(tuple, transient, "transient errors are a tuple of exception classes")
        self._reply = reply
        self._transient = transient
        self._backoff = backoff

    def retry(self, error: Exception) -> list[float]:
        """Record the failed attempt; return the waits, in seconds, before the next one.

        Behind each of them the program looks whether the user asked for a stop. The error is raised
        where no attempt may follow, as what it is.
        """
        passes = isinstance(error, self._transient) or is_transient(_said(error) or error)
        seconds = self._backoff.wait(error) if passes else None
        if seconds is None:
            _fail(self._reply, error)
            _raise_said(error)
            raise error
        self._reply.retry(provider_error(error))
        return [LOOK_EVERY] * int(seconds // LOOK_EVERY) + [seconds % LOOK_EVERY]

    def is_stopped(self) -> bool:
        """Whether the user asked for a stop meanwhile; the reply is aborted then."""
        if not self._reply.interrupt_requested:
            return False
        self._reply.abort()
        return True


def _fail(reply: Reply, error: Exception) -> None:
    """End a reply whose answer is an error or cannot be read; others stay open."""
    said = _said(error) or error
    if isinstance(said, StreamError) and refusal_kind(said) in _ANSWERED:
        reply.retry(provider_error(said))  # the loop asks again: what was said by then is said again
    if isinstance(said, StreamError | UnknownStreamError):
        end_reply(reply, said)


def _raise_said(error: Exception) -> None:
    """Raise an error that a client raises for its stream as what it is.

    `ConnectionError` for an answer that is no JSON: it was garbled on its way. `StreamError` for an
    error that the provider's stream said.
    """
    if isinstance(error, JSONDecodeError):
        raise ConnectionError(f"the answer broke off: it is no JSON ({error})") from error
    said = _said(error)
    if said is not None and said is not error:
        raise said from error


def _said(error: Exception) -> StreamError | None:
    """Return the error of a provider's stream, which a client raises as its own or not at all.

    openai raises `APIError` without a status, anthropic one with the status of the answer, 200.
    """
    if isinstance(error, StreamError):
        return error
    names = {kind.__name__ for kind in type(error).__mro__}
    if "APIError" not in names or status_of(error) is not None or is_disconnect(error):
        return None
    code = getattr(error, "code", None) or getattr(error, "type", None)
    return StreamError(str(error), code=code if isinstance(code, str) else "")


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
