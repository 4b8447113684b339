"""How a reply is closed that an error ended, and which of these errors let its turn go on."""

from __future__ import annotations

import time
from typing import cast

from eventlog.errors import BlockedError, StreamError, UnknownStreamError
from eventlog.session.held_lease import TAKEN_OVER
from eventlog.streams.records import dump
from eventlog.streams.refusals import MEDIA, OPAQUE, OVERFLOW, RATE, refusal_kind, status_of
from eventlog.streams.retry_after import asked_wait
from eventlog.values import MessageError

CRASHED = MessageError("aborted", "interrupted")
"""How a reply is closed that broke off: its turn goes on."""
ROLLED_BACK = "rolled back"
"""How a rollback into its middle closes it."""
_BROKEN_OFF = (CRASHED.message, TAKEN_OVER, ROLLED_BACK)
"""Messages of errors that say so."""
NOT_BEFORE = "retry_not_before"
"""In the data of a refusal for the rate: the time from which asking again makes sense."""
UNTOLD_WAIT, LONGEST_WAIT = 60.0, 31 * 86_400.0
"""Seconds to that time where the provider tells none, and at most."""
_DISCONNECTS = frozenset({"APIConnectionError", "TransportError"})
"""Errors by which clients say so: openai and anthropic, and httpx below them."""


def is_crash(error: MessageError | None) -> bool:
    """Whether a reply with this error broke off, so that its turn goes on."""
    return error is not None and error.name == CRASHED.name and error.message in _BROKEN_OFF


def failure_of(error: BaseException) -> MessageError:
    """Return how a reply is closed that this error ended.

    A stop of the program, a loop that is blocked and a broken connection leave its turn to go on.
    Of a provider's answer the status and the text are kept, of any other error the name of its
    class alone.
    """
    if isinstance(error, BaseExceptionGroup):  # of a group of tasks: what none of them goes on after counts
        failures = [failure_of(each) for each in cast("BaseExceptionGroup[BaseException]", error).exceptions]
        return next((failure for failure in failures if failure != CRASHED), CRASHED)
    if not isinstance(error, Exception) or isinstance(error, BlockedError) or is_disconnect(error):
        return CRASHED
    if isinstance(error, UnknownStreamError):
        return MessageError("unknown-stream", str(error))
    if isinstance(error, StreamError) or status_of(error) is not None:
        return provider_error(error, ends=True)
    return MessageError("unknown", type(error).__name__)


def is_disconnect(error: BaseException) -> bool:
    """Whether an error says that a connection broke or never was: Python's, or a client's."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_disconnect, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, ConnectionError) or any(kind.__name__ in _DISCONNECTS for kind in type(error).__mro__)


def provider_error(error: BaseException, *, ends: bool = False) -> MessageError:
    """Return an error of a model call as it is recorded: its kind, its text, and its status.

    `ends`: no other call follows at once. Then a refusal for the rate has the time, in UTC
    milliseconds, before which another is refused, too. The kinds that only a loop has an answer to
    are "api": `refusal` names them.
    """
    kind, status = refusal_kind(error), status_of(error)
    data: dict[str, int] = {} if status is None else {"status": status}
    if kind == RATE and ends:
        wait = asked_wait(error)
        data[NOT_BEFORE] = int((time.time() + (UNTOLD_WAIT if wait is None else min(wait, LONGEST_WAIT))) * 1_000)
    name = "api" if kind in {None, OVERFLOW, MEDIA, OPAQUE} else str(kind)
    return MessageError(name, f"{type(error).__name__}: {error}", dump(data) if data else None)
