"""A submitted request, and how its waiters learn the outcome.

A waiting thread has a plain lock of its own, which costs one futex wake; the asyncio waiters of one batch are
woken by one `call_soon_threadsafe` per event loop.  No lock guards a ticket: a waiter enters its lock or future
first and looks at the outcome second, the writer sets the outcome first and looks at the waiters second, so
one of them always sees the other.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from eventlog.errors import UnknownOutcomeError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

__all__ = ["QueuedTicket", "wake"]

R = TypeVar("R")
T = TypeVar("T")


class QueuedTicket(Generic[R, T]):
    """The outcome of one request, now or later: a value or an error."""

    __slots__ = ("__weakref__", "_error", "_settled", "_value", "refused", "request", "size", "waiters")

    def __init__(self, request: R, size: int = 0) -> None:
        self.request: R | None = request
        """Dropped with the outcome: a request may name the ticket it follows, and they must not pile up."""
        self.size = size
        self.refused = False
        """Decided against; the writer sets it before the outcome, for the requests that follow in the same batch."""
        self.waiters: list[Any] = []
        self._settled = False
        self._value: T | None = None
        self._error: BaseException | None = None

    def succeed(self, value: T) -> None:
        """Set the outcome; `wake` must follow."""
        self._value = value
        self.request = None
        self._settled = True

    def fail(self, error: BaseException) -> None:
        """Set an error as the outcome; `wake` must follow."""
        self._error = error
        self.refused = True
        self.request = None
        self._settled = True

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._settled

    def failed(self) -> bool:
        """Whether the outcome is, or will be, an error; see `contract.Ticket`."""
        return self.refused

    def wait(self, timeout: float | None = None) -> T:
        """Block until the outcome is known; see `contract.Ticket`."""
        if not self._settled:
            lock = Lock()
            lock.acquire()  # the writer releases it, so it cannot be a `with`
            self.waiters.append(lock)
            if not self._settled and not lock.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
                request = self.request
                raise UnknownOutcomeError(
                    f"no outcome within {timeout:g} s",
                    session=getattr(request, "session", None),
                    request=getattr(request, "request", None),
                )
        return self._outcome()

    def __await__(self) -> Generator[Any, Any, T]:
        """Wait without blocking the event loop; see `contract.Ticket`."""
        if not self._settled:
            future = asyncio.get_running_loop().create_future()
            self.waiters.append(future)
            if not self._settled:
                yield from future
        return self._outcome()

    def _outcome(self) -> T:
        if self._error is not None:
            raise self._error
        return cast("T", self._value)


def wake(tickets: Iterable[QueuedTicket[Any, Any]]) -> None:
    """Wake everyone who waits for these tickets, which all have their outcome."""
    futures: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for ticket in tickets:
        for waiter in ticket.waiters:
            if isinstance(waiter, asyncio.Future):
                future = cast("asyncio.Future[None]", waiter)
                futures.setdefault(future.get_loop(), []).append(future)
            else:
                waiter.release()
    for loop, waiting in futures.items():
        with suppress(RuntimeError):  # the loop was closed; nobody waits there any more
            loop.call_soon_threadsafe(_finish, waiting)


def _finish(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
