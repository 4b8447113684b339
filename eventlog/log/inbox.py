"""The writer's queue: bounded in bytes, it blocks who puts too much in and never drops.

Putting costs one lock; the writer is woken only when it sleeps.  It need not be woken for a request that stands alone and is waited for:
whoever waits may take it out (`claim`), and nothing else is taken out until it is given back (`settle`, or `leave` if it was
interrupted).  Imported by this package only.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any

from eventlog.errors import BusyError

if TYPE_CHECKING:
    from types import CodeType

    from eventlog.log.ticket import QueuedTicket

__all__ = ["RECHECK", "Inbox"]

RECHECK = 1.0
"""Seconds after which a sleeping writer looks by itself: a signal may hit a producer just before it rings."""


class Inbox:
    """Requests on their way to the writer, in the order of submission."""

    def __init__(self, limit: int, timeout: float) -> None:
        self._limit = limit
        self._timeout = timeout
        self._mutex = Lock()
        self._queue: deque[QueuedTicket[Any, Any]] = deque()
        self._bytes = 0
        self._bell = Lock()
        self._bell.acquire()
        self._asleep = False
        self._blocked: list[Any] = []
        self._refusal: BaseException | None = None
        self._closed = False
        self._claimed: QueuedTicket[Any, Any] | None = None
        self._claimant = 0
        """The thread that claimed it; 0 if it has left it."""

    def put(self, ticket: QueuedTicket[Any, Any], *, ring: bool = True) -> None:
        """Queue a request; `BusyError` if there is no room within the timeout, or why nothing is taken any more.

        Without `ring`, `claim` or `ring` must follow.
        """
        deadline = 0.0
        while True:
            with self._mutex:
                if self._refusal is not None:
                    raise self._refusal
                if not self._queue or self._bytes + ticket.size <= self._limit:
                    self._queue.append(ticket)
                    self._bytes += ticket.size
                    if ring:
                        self._ring()
                    return
                room = Lock()
                room.acquire()
                self._blocked.append(room)
            now = time.monotonic()
            deadline = deadline or now + self._timeout
            if now >= deadline or not room.acquire(timeout=deadline - now):
                raise BusyError(f"the queue of {self._limit} bytes was full for {self._timeout:g} s")

    def wait(self, claimed_in: CodeType) -> bool:
        """Sleep until there is something to do: something is queued, or was claimed and left; False once closed and empty.

        `claimed_in` is the function whose frame a claimant stands in.
        """
        while True:
            with self._mutex:
                self._asleep = False
                if self._claimed is None:
                    if self._queue:
                        return True
                    if self._closed:
                        return False
                elif not _stands_in(self._claimant, claimed_in):
                    return True
                self._bell.acquire(blocking=False)  # whatever rang before was for what is done by now
                self._asleep = True
            self._bell.acquire(timeout=RECHECK)

    def take(self, most_bytes: int) -> list[QueuedTicket[Any, Any]]:
        """What is queued, at least one request if there is one, and at most about `most_bytes`."""
        with self._mutex:
            queue = self._queue
            if self._bytes <= most_bytes:
                batch = list(queue)
                queue.clear()
                self._bytes = 0
            else:
                batch = [queue.popleft()]
                size = batch[0].size
                while queue and size + queue[0].size <= most_bytes:
                    size += queue[0].size
                    batch.append(queue.popleft())
                self._bytes -= size
            blocked, self._blocked = self._blocked, []
        for room in blocked:
            room.release()
        return batch

    def claim(self, ticket: QueuedTicket[Any, Any]) -> bool:
        """Take a request out to commit it in this thread, if nothing else is queued or being committed; else the writer is woken."""
        with self._mutex:
            queue = self._queue
            free = self._asleep and self._claimed is None and not self._closed and not self._blocked
            if free and len(queue) == 1 and queue[0] is ticket:
                self._claimant = get_ident()
                self._claimed = ticket
                self._bytes = 0
                queue.clear()
                return True
            self._ring()
        return False

    def settle(self) -> None:
        """The claimed request has its outcome."""
        with self._mutex:
            self._claimed = None
            self._ring()

    def leave(self, ticket: QueuedTicket[Any, Any]) -> None:
        """Its claimant was interrupted: the writer has to see to it."""
        with self._mutex:
            if self._claimed is ticket:
                self._claimant = 0
                self._ring()

    def left(self) -> QueuedTicket[Any, Any] | None:
        """The request that was claimed and left, after `wait`; it has to be seen to, and then `settle` be called."""
        with self._mutex:
            if self._claimed is not None and self._queue and self._queue[0] is self._claimed:
                self._queue.popleft()  # interrupted in `claim` itself
            return self._claimed

    def ring(self) -> None:
        """Have what is queued committed."""
        with self._mutex:
            self._ring()

    def _ring(self) -> None:
        if self._asleep and (self._queue or self._closed if self._claimed is None else not self._claimant):
            self._asleep = False
            self._bell.release()

    def refuse(self, reason: BaseException) -> None:
        """Refuse what comes from now on, with this error, the first one that is given; what is queued is still taken."""
        self._end(reason, closed=False)

    def close(self, reason: BaseException) -> None:
        """The same, and `take` returns nothing once all is taken."""
        self._end(reason, closed=True)

    def _end(self, reason: BaseException, *, closed: bool) -> None:
        with self._mutex:
            if self._refusal is None:
                self._refusal = reason
            self._closed = self._closed or closed
            blocked, self._blocked = self._blocked, []
            self._ring()
        for room in blocked:
            room.release()


def _stands_in(thread: int, code: CodeType) -> bool:
    """Whether a thread is somewhere inside this function."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - there is no other way to ask
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None
