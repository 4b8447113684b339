"""The requests that are not committed yet, in the order of submission.

No lock: every change is one call into a deque.  The leader takes a copy of what it is about to write; a request leaves the queue
when its batch has landed, so that an interrupt before loses none.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eventlog.log.ticket import QueuedTicket

__all__ = ["BATCH_BYTES", "RequestQueue"]

BATCH_BYTES = 4 << 20
"""About how much is written at once."""


class RequestQueue(deque["QueuedTicket[Any, Any]"]):
    """A deque of tickets, and about how many bytes they are.

    Threads add unguarded, and each batch counts anew.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self._bytes = 0

    def put(self, ticket: QueuedTicket[Any, Any]) -> None:
        """Add a request."""
        self._bytes += ticket.size
        self.append(ticket)

    def in_the_way(self, size: int) -> QueuedTicket[Any, Any] | None:
        """The first request if there is no room for `size` bytes more.

        One of any size fits into an empty queue.
        """
        if self._bytes + size > self.limit:
            with suppress(IndexError):
                return self[0]
        return None

    def take(self, into: list[QueuedTicket[Any, Any]]) -> None:
        """Copy what goes into one batch, at least one request.

        It is in one call first, so that a signal handler sees it as taken.
        """
        into.clear()
        into.extend(self)
        if self._bytes > BATCH_BYTES:
            size = 0
            for number, ticket in enumerate(into):
                size += ticket.size
                if size > BATCH_BYTES and number:
                    del into[number:]
                    break

    def drop(self, tickets: Iterable[QueuedTicket[Any, Any]]) -> None:
        """Remove what was taken and has landed; may be repeated."""
        for ticket in tickets:
            if self and self[0] is ticket:
                self.popleft()
        self._bytes = sum([ticket.size for ticket in tuple(self)]) if self else 0

    def withdraw(self, ticket: QueuedTicket[Any, Any]) -> None:
        """Remove a request that was not taken."""
        with suppress(ValueError):
            self.remove(ticket)

    def waiters(self) -> Iterable[Any]:
        """The locks and futures of those who wait, in the order of their requests."""
        return (waiter for ticket in tuple(self) for waiter in tuple(ticket.waiters))
