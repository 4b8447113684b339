"""The writer's queue: bounded in bytes, it blocks who puts too much in and never drops.

Putting costs one lock; the writer is woken only when it sleeps.
"""

from __future__ import annotations

import time
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, Any

from eventlog.errors import BusyError

if TYPE_CHECKING:
    from eventlog.log.ticket import QueuedTicket

__all__ = ["Inbox"]

_RECHECK = 1.0
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

    def put(self, ticket: QueuedTicket[Any, Any]) -> None:
        """Queue a request; `BusyError` if there is no room within the timeout, or why nothing is taken any more."""
        deadline = 0.0
        while True:
            with self._mutex:
                if self._refusal is not None:
                    raise self._refusal
                if not self._queue or self._bytes + ticket.size <= self._limit:
                    self._queue.append(ticket)
                    self._bytes += ticket.size
                    if self._asleep:
                        self._asleep = False
                        self._bell.release()
                    return
                room = Lock()
                room.acquire()
                self._blocked.append(room)
            now = time.monotonic()
            deadline = deadline or now + self._timeout
            if now >= deadline or not room.acquire(timeout=deadline - now):
                raise BusyError(f"the queue of {self._limit} bytes was full for {self._timeout:g} s")

    def take(self, most_bytes: int) -> list[QueuedTicket[Any, Any]]:
        """What is queued, at least one request and at most about `most_bytes`; nothing once closed and empty."""
        while True:
            with self._mutex:
                queue = self._queue
                if queue:
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
                    break
                if self._closed:
                    return []
                self._bell.acquire(blocking=False)  # whatever rang before was for what is taken by now
                self._asleep = True
            self._bell.acquire(timeout=_RECHECK)
        for room in blocked:
            room.release()
        return batch

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
            if self._asleep:
                self._asleep = False
                self._bell.release()
        for room in blocked:
            room.release()
