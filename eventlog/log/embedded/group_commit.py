"""Group commit: a caller who waits for an append writes all that is queued.

The appends of others are included.
`put` queues a request.  Nothing is written until a caller waits: that caller tries to become the *leader*, without blocking, and
commits batch by batch until its own ticket has its outcome.  Who finds a leader at work leaves a lock in its ticket, tries once more,
and sleeps; a leader that ends wakes the first queued ticket that has a waiter.  For event loops, and for waits that may take only so
long, a helper thread leads.  A batch takes the writers' lock, reads what other processes have appended, decides each request in turn
(`batch.py`), writes one frame, flushes once, publishes, and tells the waiters.

A request that is refused is refused alone.  If the frame cannot be written, every request of the batch fails: with `BusyError` or
`StorageError` if nothing was written (no room, no file, no permission, the lock is held), and the next batch is tried; else with
`UnknownOutcomeError`, and then the log is poisoned until it is opened again: it can be read, and nothing more is written.

An interrupt (Ctrl-C, an exception that is thrown into a thread) may come anywhere, and loses, doubles and hangs nothing:

* A batch in flight is a field, set before the first side effect and cleared after the last, and every step may be repeated.  The
  leader that is interrupted repeats them before the exception goes on; if that is interrupted too, the flight stays in its field, and
  the writers' lock stays held, for the next leader.  Requests stay queued until then.
* Python looks for signals after calls, where a function begins and where a loop goes back, nowhere else.  So what must not be lost
  is taken by one C call that stores its result itself (`list.extend`), and given back by one C call at the beginning of a `finally`.
* Who was to be woken and was not, because the interrupt came just before, looks by itself after a second.

The leadership is a lock that its thread may take again: a signal handler, a finalizer, a `check` that waits from inside a commit
finds itself to be the leader, and is told so instead of waiting for itself (`_reentered`).
"""

from __future__ import annotations

import os
import time
from _thread import LockType
from contextlib import suppress
from functools import partial
from threading import Lock, RLock, get_ident
from typing import TYPE_CHECKING, NoReturn, Protocol

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
from eventlog.log.embedded.batch import AnyTicket, Batch, Flight
from eventlog.log.embedded.commit_helper import RECHECK, CommitHelper
from eventlog.log.embedded.request_queue import RequestQueue
from eventlog.log.ticket import wake

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog.log.embedded.journal.journal import Journal
    from eventlog.log.embedded.locks import WriterLock
    from eventlog.log.embedded.lookup import Lookup
    from eventlog.log.embedded.memtable import Generation

__all__ = ["GroupCommit"]


class CommitTarget(Protocol):
    """The partition, as the leader sees it."""

    position: int
    lookup: Lookup
    journal: Journal

    @property
    def lock(self) -> WriterLock:
        """The writers' lock."""
        ...

    def wait_for_room(self) -> None:
        """Wait while too much is not folded yet."""
        ...

    def catch_up_to_write(self) -> None:
        """Read what other processes have appended; under the writers' lock."""
        ...

    def publish(self, generation: Generation) -> None:
        """What was just written is committed; may be repeated."""
        ...

    def salt(self) -> bytes:
        """Random bytes for a leaf."""
        ...


class GroupCommit:
    """The queue, the leadership, and the batch in flight."""

    def __init__(self, partition: CommitTarget, queue_bytes: int, timeout: float) -> None:
        self._partition = partition
        self._lock = partition.lock
        self._unlock = self._lock.release
        self._timeout = timeout
        self._queue = RequestQueue(queue_bytes)
        self._helper = CommitHelper(partial(self._lead, None, blocking=True), self._queue)
        self._taken: list[AnyTicket] = []
        """What the leader is about to write; the queue begins with it."""
        self._flight: Flight | None = None
        self._leadership = RLock()
        self._leader = 0
        """The thread that leads."""
        self._suspect: AnyTicket | None = None
        """In whose check an interrupt came: if one comes there again, it is the check that raises it."""
        self._refusal: BaseException | None = None
        self._ended = False
        self._disowned = False
        self.poison: EventlogError | None = None
        """Why nothing more is written."""

    # --- queueing and waiting

    def put(self, ticket: AnyTicket) -> None:
        """Queue a request; where the queue is full, commit some of it first, or wait for who does."""
        if self._queue.in_the_way(ticket.size) is not None:
            self._make_room(ticket.size)
        if self._refusal is not None:
            raise self._refusal
        self._queue.put(ticket)

    def _make_room(self, size: int) -> None:
        """Return when the queue has room for `size` bytes, or is empty.

        `BusyError` after the timeout.
        """
        deadline = time.monotonic() + self._timeout
        while self._refusal is None and (first := self._queue.in_the_way(size)) is not None:
            if self.leads:
                raise BusyError(f"the queue of {self._queue.limit} bytes is full, inside a commit of the same thread")
            if not self._settled_by(first, deadline, lead=True):
                raise BusyError(f"the queue of {self._queue.limit} bytes was full for {self._timeout:g} s")

    def settle(self, ticket: AnyTicket, timeout: float | None) -> None:
        """Lead, or wait for the leader, until a ticket has its outcome.

        `UnknownOutcomeError` after `timeout` seconds.
        A wait that may take only so long leaves leading to the helper: how long the disk takes is not known.
        """
        if self._leader == get_ident():
            self._reentered(ticket)
        if timeout is None:
            if not self._leader:
                self._lead(ticket)
            if not ticket.settled:
                self._settled_by(ticket, None, lead=True)
        elif not self._settled_by(ticket, time.monotonic() + timeout, lead=False):
            request = ticket.request
            raise UnknownOutcomeError(
                f"no outcome within {timeout:g} s",
                session=getattr(request, "session", None),
                request=getattr(request, "request", None),
            )

    def _settled_by(self, ticket: AnyTicket, deadline: float | None, *, lead: bool) -> bool:
        """Whether a ticket has its outcome before the deadline."""
        if lead and not self._leader:
            self._lead(ticket)
        while not ticket.done():
            bell = Lock()
            bell.acquire()
            try:
                ticket.waiters.append(bell)
                if not lead:
                    self.hasten()
                elif not self._leader:  # who led before may have gone without seeing the bell
                    self._lead(ticket)
                if not ticket.done():
                    if self._disowned:
                        raise _forked()
                    pause = RECHECK if deadline is None else min(deadline - time.monotonic(), RECHECK)
                    if pause <= 0:
                        return False
                    bell.acquire(timeout=pause)
            finally:
                if not ticket.done():
                    with suppress(ValueError):
                        ticket.waiters.remove(bell)
        return True

    def hasten(self) -> None:
        """Have the helper commit everything that is queued."""
        if self._ended or not self._helper.call():
            self._lead(None, blocking=True)

    @property
    def leads(self) -> bool:
        """Whether this very thread is in the middle of a commit.

        So it is in a signal handler, a finalizer or a check.
        """
        return self._leader == get_ident()

    def _reentered(self, ticket: AnyTicket) -> NoReturn:
        """Who waits from inside a commit would wait for himself."""
        if any(ticket is other for other in self._taken):
            raise UnknownOutcomeError("called inside the commit of the same thread that is writing this append")
        self._queue.withdraw(ticket)
        error = BusyError(
            "called inside a commit of the same thread, which cannot wait for itself; nothing was written"
        )
        ticket.fail(error)
        wake([ticket])
        raise error

    # --- leading

    def _lead(self, ticket: AnyTicket | None, *, blocking: bool = False) -> None:
        """Commit until the ticket has its outcome, or nothing is queued.

        Return at once if another thread leads.
        With `blocking` wait for that thread.
        """
        mine: list[bool] = []
        try:
            mine.extend(map(self._leadership.acquire, (blocking,)))
            if mine[0]:
                try:
                    self._leader = get_ident()
                    while self._queue or self._flight if ticket is None else not ticket.settled:
                        self._commit()
                finally:
                    self._leader = 0
        finally:
            if mine and mine[0]:
                self._leadership.release()
                if self._queue:
                    self._call_next()

    def _call_next(self) -> None:
        """Wake the first waiter in the queue, to lead."""
        for waiter in self._queue.waiters():
            if isinstance(waiter, LockType):
                with suppress(RuntimeError):  # it was woken before
                    waiter.release()
                return

    def _commit(self) -> None:
        """Commit one batch, or what is left of the one in flight."""
        try:
            if self._flight is None:
                self._take_off()
            self._land()
        except BaseException:  # an interrupt: nothing else comes through
            self._land()
            raise

    def _take_off(self) -> None:
        """Decide what is queued, and prepare its frame.

        Nothing has happened until the flight is in its field.
        """
        taken, locked = self._taken, False
        batch: Batch | None = None
        self._queue.take(taken)
        try:
            pending: Generation | None = None
            if self._disowned or self._ended or self.poison is not None:
                self._refuse()
            partition = self._partition
            partition.wait_for_room()
            locked = True
            self._lock.acquire()
            partition.catch_up_to_write()
            batch = Batch(partition.lookup, partition.position, partition.salt)
            outcomes = [batch.decide(ticket) for ticket in taken]
            if batch.records:
                pending = batch.pending
                pending.end, pending.size = partition.journal.prepare(batch.records)
            self._flight = Flight(taken, outcomes, pending)
        except Exception as error:  # noqa: BLE001 - a waiter must not hang because of an unforeseen fault
            flight = Flight(taken, [None] * len(taken), None)
            flight.error = self._reason(error)
            self._flight = flight
        except BaseException as interrupt:
            if batch is not None and batch.interrupted is not None:
                self._suspected(batch.interrupted, interrupt)
            raise
        finally:
            if locked and (self._flight is None or self._flight.pending is None):
                self._unlock()

    def _refuse(self) -> NoReturn:
        """Raise why nothing is written any more."""
        if self._disowned:
            raise _forked()
        raise self.poison or ClosedError("the store is closed")

    def _suspected(self, ticket: AnyTicket, interrupt: BaseException) -> None:
        """Take note of an interrupt that came while a request was decided.

        If that is not the first time, it is the request's own check that raises it.
        """
        if self._suspect is ticket:
            self._queue.withdraw(ticket)
            ticket.fail(interrupt)
            wake([ticket])
        self._suspect = ticket

    def _land(self) -> None:
        """Write the batch in flight, tell its waiters, and forget it.  Every step may be repeated."""
        flight = self._flight
        if flight is None:
            return
        if flight.pending is not None:
            if flight.error is None:
                try:
                    if not flight.durable:
                        if self._disowned or self.poison is not None:
                            self._refuse()
                        self._partition.journal.put()
                        flight.durable = True
                    self._partition.publish(flight.pending)
                except Exception as error:  # noqa: BLE001 - as above
                    flight.error = self._reason(error)
            if not self._ended:
                self._unlock()
        flight.settle()
        self._queue.drop(flight.tickets)
        wake(flight.tickets)
        self._flight = None

    def _reason(self, error: Exception) -> BaseException:
        """The outcome of the tickets of a batch that failed.

        The log is poisoned unless nothing was written.
        """
        if self._disowned:
            return _forked()
        if self.poison is not None or self._ended or isinstance(error, BusyError | StorageError):
            return error
        known = isinstance(error, EventlogError)
        if isinstance(error, DataError | StopError):  # damage, or what the system refuses: they say what to do
            poison = error
        else:
            poison = PoisonedError(str(error) if known else f"the commit failed: {error!r}")
        self._refusal = self._refusal or poison
        self.poison = poison
        if known and not isinstance(poison, PoisonedError):
            return error
        unknown = UnknownOutcomeError("the write failed; open the log again to learn the outcome")
        unknown.__cause__ = error
        return unknown

    # --- the end

    def close(self, shut: Callable[[], None]) -> None:
        """Commit what is queued, and `shut`; return when that is done, by any thread.

        Where an interrupt broke it off, it may be repeated.
        """
        if self.leads:
            raise BusyError("called inside a commit of the same thread: close the store when that is over")
        mine: list[bool] = []
        try:
            self._refusal = self._refusal or ClosedError("the store is closed")
            mine.extend(map(self._leadership.acquire, (True,)))
            try:
                self._leader = get_ident()
                if not self._ended:
                    self._end(shut)
            finally:
                self._leader = 0
        finally:
            if mine:
                self._leadership.release()

    def _end(self, shut: Callable[[], None]) -> None:
        try:
            while self._queue or self._flight:
                self._commit()
        finally:
            if self._flight is not None:  # interrupted twice
                self.poison = self.poison or PoisonedError("a commit was interrupted while the store was closed")
                self._flight.error = UnknownOutcomeError("the store was closed while this append was written")
            shut()
            self._ended = True
            self._helper.end()
            while self._queue or self._flight:
                self._commit()

    @property
    def refuses(self) -> bool:
        """Whether nothing more is taken: it is closed, or being closed, or poisoned."""
        return self._refusal is not None or self.poison is not None

    # --- forking

    def hold_still(self) -> bool:
        """Let no other thread lead, before a fork.

        Returns whether this one leads, and so forks in the middle of a commit.
        """
        self._leadership.acquire()
        return self.leads

    def move_on(self) -> None:
        """After a fork, in the parent."""
        self._leadership.release()
        self._call_next()

    def disown(self) -> None:
        """After a fork, in the child: nothing is written here."""
        self._disowned = True
        self._refusal = _forked()


def _forked() -> ForkedProcessError:
    return ForkedProcessError(f"the log was opened before os.fork(); open it again in this process ({os.getpid()})")
