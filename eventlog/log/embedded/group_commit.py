"""Group commit: a caller who waits for an append writes all that is queued.

The appends of others are included.

`put` queues a request. Nothing is written until a caller waits: that caller tries to become the
*leader*, without blocking, and commits batch by batch until its own ticket has its outcome. A
caller that finds a leader at work leaves a lock in its ticket, tries once more, and sleeps; a
leader that ends wakes the first queued ticket that has a waiter. For event loops, and for waits
that may take only so long, a helper thread leads. A batch takes the writers' lock, reads what other
processes have appended, decides each request in turn (`batch.py`), writes one frame, flushes once,
publishes, and tells the waiters.

A request that is refused is refused alone. If the frame cannot be written, every request of the
batch fails: with `BusyError` or `StorageError` if nothing was written (no room, no file, no
permission, the lock is held), and the next batch is tried; else the log is poisoned until it is
opened again: it can be read, and nothing more is written. The error is `PoisonedError` where
nothing of the batch is in the store (which was moved), else `UnknownOutcomeError`.

An interrupt (Ctrl-C, an exception that is thrown into a thread) may come anywhere. No request is
lost or committed twice, and no caller hangs:

* The batch is a field of the object. It is complete before its first side effect, stays in the
  field until its last, and every step between may be repeated. An interrupted leader repeats these
  steps before the exception goes on. If that is interrupted too, the batch stays in its field and
  the writers' lock stays held, for the next leader. Requests stay queued until their batch is done.
* Python looks for signals after calls, where a function begins and where a loop goes back, nowhere
  else. The leadership is therefore acquired by one C call that stores its own result
  (`list.extend`), and released by one C call in a `finally`.
* A waiter whose wake-up an interrupt prevented looks by itself after a second (`ticket.py`).

The leadership is a lock that its thread may take again. A signal handler or a finalizer that waits
from inside a commit detects that its own thread leads, and gets an error instead of a
deadlock.
"""

from __future__ import annotations

import os
import time
from _thread import LockType
from collections import deque
from contextlib import suppress
from functools import partial
from threading import RLock, get_ident
from typing import TYPE_CHECKING, NoReturn

from eventlog.errors import (
    BusyError,
    ClosedError,
    DataError,
    EventlogError,
    ForkedProcessError,
    PoisonedError,
    StopError,
    StorageError,
    UnknownOutcomeError,
)
from eventlog.log.append_checks import LeaseChange
from eventlog.log.commit import Append
from eventlog.log.embedded.batch import AnyTicket, Batch
from eventlog.log.ticket import wake
from eventlog.log.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog.log.embedded.locks import WriterLock
    from eventlog.log.embedded.tail import Tail

BATCH_BYTES = 4 << 20
"""About how much is written at once."""


class GroupCommit:
    """The queue, the leadership, and the batch in flight."""

    def __init__(
        self, tail: Tail, lock: WriterLock, wait_for_room: Callable[[float], None], queue_bytes: int, timeout: float
    ) -> None:
        self._tail = tail
        self._lock = lock
        self._wait_for_room = wait_for_room
        self._timeout = timeout
        self._limit = queue_bytes
        self._queue: deque[AnyTicket] = deque()
        """The requests to commit, in their order; no lock: every change is one call."""
        self._bytes = 0
        """About how much that is: threads add unguarded, and each batch counts anew."""
        self._helper = Worker("eventlog-commit", partial(self._lead, None, blocking=True))
        self._batch: Batch | None = None
        """The batch in flight."""
        self._leadership = RLock()
        self._leader = 0
        """The thread that leads."""
        self._refusal: EventlogError | None = None
        """Why nothing more is queued."""

    # --- queueing and waiting

    def put(self, ticket: AnyTicket) -> None:
        """Queue a request.

        Where the queue is full, commit some of it first, or wait for the leader.
        """
        if self._bytes + ticket.size > self._limit and self._queue:
            self._make_room(ticket.size)
        refusal = self._refusal
        if refusal is not None:
            raise refusal
        self._bytes += ticket.size
        self._queue.append(ticket)
        if self._refusal is not None and not self.leads:  # the last one to lead may not have seen it
            self._lead(None, blocking=True)

    def _make_room(self, size: int) -> None:
        """Return when the queue has room for `size` bytes, or is empty.

        `BusyError` after the timeout.
        """
        deadline = time.monotonic() + self._timeout
        if self.leads:
            raise BusyError(f"the queue of {self._limit} bytes is full, inside a commit of the same thread")
        while self._refusal is None and self._bytes + size > self._limit:
            try:
                first = self._queue[0]
            except IndexError:
                return
            if not first.resolved_by(deadline, partial(self._lead_alone, first)):
                raise BusyError(f"the queue of {self._limit} bytes was full for {self._timeout:g} s")

    def resolve(self, ticket: AnyTicket, timeout: float | None) -> None:
        """Lead, or wait for the leader, until a ticket has its outcome.

        `UnknownOutcomeError` after `timeout` seconds. A wait that may take only so long leaves
        leading to the helper: how long the disk takes is not known before.
        """
        if self._leader == get_ident():
            self._reentered(ticket)
        if timeout is None:
            if not self._leader:
                self._lead(ticket)
            if not ticket.resolved:
                ticket.resolved_by(None, partial(self._lead_alone, ticket))
        elif not ticket.resolved_by(time.monotonic() + timeout, self.hasten):
            raise ticket.unknown(timeout)

    def _lead_alone(self, ticket: AnyTicket) -> None:
        if not self._leader:  # a leader may have gone without seeing the bell
            self._lead(ticket)

    def hasten(self) -> None:
        """Have the helper commit everything that is queued."""
        if not self._helper.call():
            self._lead(None, blocking=True)

    @property
    def leads(self) -> bool:
        """Whether this thread leads, and so runs a signal handler or a finalizer."""
        return self._leader == get_ident()

    def _reentered(self, ticket: AnyTicket) -> NoReturn:
        """Refuse to wait from inside a commit of the same thread."""
        if self._batch is not None and ticket in self._batch.tickets:
            raise UnknownOutcomeError("called inside the commit of the same thread that is writing this append")
        with suppress(ValueError):
            self._queue.remove(ticket)
        error = BusyError(
            "called inside a commit of the same thread, which cannot wait for itself; nothing was written"
        )
        ticket.fail(error)
        wake([ticket])
        raise error

    # --- leading

    def _lead(
        self, ticket: AnyTicket | None, *, blocking: bool = False, shut: Callable[[], None] | None = None
    ) -> None:
        """Commit until the ticket has its outcome, or nothing is queued, and `shut`.

        Return at once if another thread leads.
        With `blocking` wait for that thread.
        """
        mine: list[bool] = []
        try:
            mine.extend(map(self._leadership.acquire, (blocking,)))
            if mine[0]:
                try:
                    self._leader = get_ident()
                    while self._queue or self._batch if ticket is None else not ticket.resolved:
                        try:
                            if self._batch is None or not self._batch.ready:
                                self._prepare()
                            self._finish()
                        except BaseException:  # an interrupt: nothing else comes through
                            self._finish()
                            raise
                    if shut is not None and not self._tail.closed:
                        self._helper.end()
                        shut()
                finally:
                    self._leader = 0
        finally:
            if mine and mine[0]:
                self._leadership.release()
                if self._batch is not None and self._batch.ready:  # a second interrupt left it half written
                    self._helper.call()
                if self._queue:
                    self._call_next()

    def _call_next(self) -> None:
        """Wake the first waiter in the queue, to lead."""
        for ticket in tuple(self._queue):
            for waiter in tuple(ticket.waiters):
                if isinstance(waiter, LockType):
                    with suppress(RuntimeError):  # it was woken before
                        waiter.release()
                    return

    def _prepare(self) -> None:
        """Decide what is queued, and prepare its frame.

        Nothing has happened until the batch is ready.
        """
        tail = self._tail
        self._batch = batch = Batch(tail)
        tickets, outcomes = batch.tickets, batch.outcomes
        tickets.extend(self._queue)
        try:
            if tail.poison is not None or tail.closed:
                tail.refuse()
            if self._bytes > BATCH_BYTES:
                _cut(tickets)
            deadline = 0.0
            if tail.memtable.size >= tail.limit:
                deadline = time.monotonic() + self._timeout
                self._wait_for_room(deadline)
            tail.lock_to_write(self._lock, deadline)
            batch.part.position = tail.position
            for ticket in tickets:
                request = ticket.request
                try:
                    if isinstance(request, Append):
                        outcomes.append(batch.decide(request))
                    else:  # None only waits for what was queued before it
                        outcomes.append(batch.decide_lease(request) if isinstance(request, LeaseChange) else None)
                except Exception as error:  # noqa: BLE001 - any error is its own request's outcome
                    outcomes.append(error)
            if batch.records:
                batch.part.end, batch.part.size = tail.journal.prepare(batch.records)
            batch.ready = True
        except Exception as error:  # noqa: BLE001 - a waiter must not hang because of an unforeseen fault
            if isinstance(error, BusyError):  # what came meanwhile does not wait for as long again
                tickets[:] = self._queue
            batch.error = self._reason(error)
            batch.ready = True
        finally:
            if not batch.ready:
                self._lock.release()

    def _finish(self) -> None:
        """Write the batch in flight, and wake its waiters.  Every step may be repeated."""
        batch = self._batch
        if batch is None or not batch.ready:
            return
        if batch.records and batch.error is None:
            try:
                if not batch.durable:
                    if self._tail.poison is not None:
                        self._tail.refuse()
                    self._tail.journal.put()
                    batch.durable = True
                self._tail.publish(batch.part)
            except Exception as error:  # noqa: BLE001 - as above
                batch.error = self._reason(error)
        self._lock.release()
        queue, waiting = self._queue, False
        outcomes = batch.outcomes if batch.error is None else [batch.error] * len(batch.tickets)
        for ticket, outcome in zip(batch.tickets, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                ticket.fail(outcome)
            else:
                ticket.succeed(outcome)
            waiting = waiting or bool(ticket.waiters)
            if queue and queue[0] is ticket:
                queue.popleft()
        self._bytes = sum([ticket.size for ticket in tuple(queue)]) if queue else 0
        if waiting:
            wake(batch.tickets)
        self._batch = None

    def _reason(self, error: Exception) -> BaseException:
        """Return the outcome of the tickets of a batch that failed.

        The log is poisoned unless nothing was written.
        """
        if self._tail.poison is not None or self._tail.closed:
            return self._tail.why_closed()
        batch = self._batch
        assert batch is not None
        if isinstance(error, BusyError | StorageError) and not batch.durable:
            return error
        known = isinstance(error, EventlogError)
        if isinstance(error, DataError | StopError):  # damage, or what the system refuses: they say what to do
            poison = error
        else:
            poison = PoisonedError(str(error) if known else f"the commit failed: {error!r}")
        self._refusal = self._refusal or poison
        self._tail.poison = poison
        if known and (not batch.ready or self._tail.journal.erased):
            return error
        unknown = UnknownOutcomeError("the write failed; open the log again to learn the outcome")
        unknown.__cause__ = error
        return unknown

    # --- the end

    def close(self, shut: Callable[[], None]) -> None:
        """Commit what is queued, and `shut` once; return when that is done.

        Where an interrupt broke it off, it may be repeated.
        """
        if self.leads:
            raise BusyError("called inside a commit of the same thread: close the store when that is over")
        self._refusal = self._refusal or ClosedError("the store is closed")
        self._lead(None, blocking=True, shut=shut)

    @property
    def refuses(self) -> bool:
        """Whether no more requests are queued: it is closed, being closed, or poisoned."""
        return self._refusal is not None

    # --- forking

    def hold_still(self) -> bool:
        """Let no other thread lead, before a fork.

        Returns whether this one leads, and so forks in the middle of a commit.
        """
        self._leadership.acquire()
        return self.leads

    def move_on(self) -> None:
        """Go on after a fork, in the parent."""
        self._leadership.release()
        self._call_next()

    def disown(self) -> None:
        """Refuse everything after a fork, in the child."""
        self._refusal = self._tail.poison = ForkedProcessError(
            f"the log was opened before os.fork(); open it again in this process ({os.getpid()})"
        )
        self._leadership.release()


def _cut(tickets: list[AnyTicket]) -> None:
    """Drop the tickets that one batch may not hold; at least one stays."""
    size = 0
    for number, ticket in enumerate(tickets):
        size += ticket.size
        if size > BATCH_BYTES and number:
            del tickets[number:]
            return
