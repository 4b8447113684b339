"""A submitted request, and how waiting callers learn its outcome.

A waiting thread has a plain lock of its own, which costs one futex wake. The asyncio waiters of one
batch are woken by one `call_soon_threadsafe` per event loop. No lock guards a ticket: a waiter
enters its lock or future first and reads the outcome second, the leader sets the outcome first and
reads the waiters second, so one of them always sees the other. Setting an outcome, and waking, may
be repeated.
"""

from __future__ import annotations

import time
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from eventlog.errors import UnknownOutcomeError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator, Iterable

RECHECK = 1.0
"""Seconds after which a waiter looks by itself.

An interrupt may come just before the waiter is woken.
"""

R = TypeVar("R")
T = TypeVar("T")


class Commits(Protocol):
    """The source of a ticket's outcome, once a caller waits for it."""

    def resolve(self, ticket: QueuedTicket[Any, Any], timeout: float | None) -> None:
        """Return when the ticket has its outcome.

        `UnknownOutcomeError` when `timeout` runs out first.
        """
        ...

    def hasten(self) -> None:
        """Have another thread commit everything that is queued."""
        ...


class QueuedTicket(Generic[R, T]):
    """The outcome of one request, now or later: a value or an error."""

    __slots__ = ("__weakref__", "_commits", "_error", "_value", "request", "resolved", "size", "waiters")

    def __init__(self, request: R, size: int = 0, commits: Commits | None = None) -> None:
        self.request: R | None = request
        """None once the outcome is set, so that a stored ticket does not hold the payload."""
        self.size: int = size
        self.resolved: bool = False
        self.waiters: list[Any] = []
        self._commits = commits
        """None where the outcome is set before the ticket is handed out."""
        self._value: Any = None
        self._error: BaseException | None = None

    def succeed(self, value: T) -> None:
        """Set the outcome; `wake` must follow."""
        self._value = value
        self.request = None
        self.resolved = True

    def fail(self, error: BaseException) -> None:
        """Set an error as the outcome; `wake` must follow."""
        self._error = error
        self.request = None
        self.resolved = True

    def done(self) -> bool:
        """Return whether the outcome is known."""
        return self.resolved

    def wait(self, timeout: float | None = None) -> T:
        """Block until the outcome is known; see `commit.Ticket`."""
        if not self.resolved and self._commits is not None:
            self._commits.resolve(self, timeout)
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def resolved_by(self, deadline: float | None, urge: Callable[[], object]) -> bool:
        """Wait for the outcome; return whether it came before the deadline.

        `urge` has the queue committed. It is called each time this caller is among the waiters.
        """
        while not self.resolved:
            bell = Lock()
            bell.acquire()
            try:
                self.waiters.append(bell)
                urge()
                if not self.resolved:
                    pause = RECHECK if deadline is None else min(deadline - time.monotonic(), RECHECK)
                    if pause <= 0:
                        return False
                    bell.acquire(timeout=pause)
            finally:
                if not self.resolved:
                    with suppress(ValueError):
                        self.waiters.remove(bell)
        return True

    def unknown(self, timeout: float) -> UnknownOutcomeError:
        """Return the error of a wait that ended after `timeout` seconds."""
        session, request = (getattr(self.request, name, None) for name in ("session", "request"))
        return UnknownOutcomeError(f"no outcome within {timeout:g} s", session=session, request=request)

    def __await__(self) -> Generator[Any, Any, T]:
        """Wait without blocking the event loop; see `commit.Ticket`."""
        if not self.resolved:
            import asyncio  # slow to import, and here it is loaded already

            future = asyncio.get_running_loop().create_future()
            self.waiters.append(future)
            if self._commits is not None:
                self._commits.hasten()
            if not self.resolved:
                yield from future
        return self.wait()


def refused(request: R, error: BaseException) -> QueuedTicket[R, Any]:
    """Return the ticket of a request that is not even queued."""
    ticket: QueuedTicket[R, Any] = QueuedTicket(request)
    ticket.fail(error)
    return ticket


def wake(tickets: Iterable[QueuedTicket[Any, Any]]) -> None:
    """Wake every caller that waits for these tickets, all of which have their outcome."""
    futures: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for ticket in tickets:
        if ticket.waiters:
            for waiter in tuple(ticket.waiters):
                if hasattr(waiter, "get_loop"):  # a future, of asyncio or of a loop that replaces it
                    futures.setdefault(waiter.get_loop(), []).append(waiter)
                else:
                    try:
                        waiter.release()
                    except RuntimeError:  # it was woken before
                        continue
    for loop, waiting in futures.items():
        with suppress(RuntimeError):  # the loop was closed, so no task waits there
            loop.call_soon_threadsafe(_finish, waiting)


def _finish(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
