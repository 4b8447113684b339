"""Group commit: a thread writes what all callers have queued, in one statement.

`put` queues a request; nothing is written until a caller waits. Then the thread takes all
that is queued, decides each request (`batch.py`), and has the server commit them together
(`attempt.py`). What was decided on a head that another process has changed meanwhile is read again
and decided anew.
"""

from __future__ import annotations

import time
from collections import deque
from threading import Lock, get_ident
from typing import TYPE_CHECKING

from eventlog.errors import BusyError, EventlogError, UnknownOutcomeError
from eventlog.log.postgres.attempt import KnownHeads, settle, unknown
from eventlog.log.postgres.batch import AnyTicket
from eventlog.log.postgres.rows import Known
from eventlog.log.ticket import wake
from eventlog.log.worker import Worker

if TYPE_CHECKING:
    from eventlog.log.postgres.attempt import Target

BATCH_BYTES = 4 << 20
"""About how much is written at once."""
PATIENCE, LONGEST = 0.25, 0.005
"""Share of the last commit's time, and seconds, that a commit waits for company at most."""
_MOMENT = 5e-5


class GroupCommit:
    """The queue of one log, and the thread that commits it."""

    def __init__(self, target: Target, queue_bytes: int) -> None:
        self._target = target
        self._limit = queue_bytes
        self._timeout = target.timeout
        self._queue: deque[AnyTicket] = deque()
        self._queueing = Lock()
        self._bytes = 0
        self._heads = KnownHeads()
        self._worker = Worker("eventlog-commit", self._drain)
        self._draining = Lock()
        self._taken: list[AnyTicket] = []
        """Tickets that are being committed."""
        self._together = 0
        """How many requests were on their way or queued when the last commit ended."""
        self._took = 0.0
        """Seconds that it took."""
        self._thread = 0
        """The thread that commits now."""
        self.refusal: EventlogError | None = None
        """Why nothing more is queued."""

    # --- queueing and waiting

    def put(self, ticket: AnyTicket) -> None:
        """Queue a request.

        Where the queue is full, wait for room; `BusyError` after the timeout.
        """
        deadline = time.monotonic() + self._timeout
        while self._bytes + ticket.size > self._limit:
            try:
                first = self._queue[0]
            except IndexError:
                break
            if self._thread == get_ident() or not first.resolved_by(deadline, self.hasten):
                raise BusyError(f"the queue of {self._limit} bytes was full for {self._timeout:g} s")
        with self._queueing:
            if self.refusal is not None:
                raise self.refusal
            self._bytes += ticket.size
            self._queue.append(ticket)

    def resolve(self, ticket: AnyTicket, timeout: float | None) -> None:
        """Wait until a ticket has its outcome; `UnknownOutcomeError` after `timeout` seconds."""
        if self._thread == get_ident():
            self._reentered(ticket)
        deadline = None if timeout is None else time.monotonic() + timeout
        if not ticket.resolved_by(deadline, self.hasten) and timeout is not None:
            raise ticket.unknown(timeout)

    def hasten(self) -> None:
        """Have the thread commit everything that is queued."""
        if not self._worker.call():
            self._drain()

    def _reentered(self, ticket: AnyTicket) -> None:
        """Refuse to wait from inside a commit of the same thread, as a finalizer does."""
        with self._queueing:
            if ticket not in self._queue:
                raise UnknownOutcomeError("called inside the commit of the same thread that is writing this append")
            self._queue.remove(ticket)
        error = BusyError(
            "called inside a commit of the same thread, which cannot wait for itself; nothing was written"
        )
        ticket.fail(error)
        wake([ticket])
        raise error

    def close(self, refusal: EventlogError) -> None:
        """Queue nothing more, and commit what is queued."""
        if self._thread == get_ident():
            raise BusyError("called inside a commit of the same thread: close the store when that is over")
        with self._queueing:
            self.refusal = self.refusal or refusal
        self._drain()
        self._worker.end(wait=True)

    def learn(self, known: Known) -> None:
        """Take in a head that was read, for the next append that is decided on it."""
        if known.head.session not in self._heads and not self._heads.full:
            self._heads.learn(known.head.session, known)

    def forget(self) -> None:
        """Forget the heads that are known: the tables were written to past the queue."""
        with self._draining:
            self._heads.clear()

    def disown(self, refusal: EventlogError) -> None:
        """Refuse everything after a fork, in the child, which has neither thread nor connection."""
        self._queueing, self._draining = Lock(), Lock()
        self.refusal = refusal
        left, self._queue, self._taken = [*self._taken, *self._queue], deque(), []
        for ticket in left:
            ticket.fail(refusal)

    # --- committing

    def _drain(self) -> None:
        """Commit until nothing is queued."""
        while self._queue or self._taken:
            with self._draining:
                try:
                    self._thread = get_ident()
                    self._give_up("an interrupt")  # nothing, unless a second interrupt came in the first one's way
                    self._gather()
                    begun = time.perf_counter()
                    self._take()
                    self._target.finish(self._heads, list(self._taken))
                    self._together = len(self._taken) + len(self._queue)
                    self._took = time.perf_counter() - begun
                    self._taken.clear()
                except BaseException as error:
                    self._give_up(error)
                    if not isinstance(error, Exception):  # as Ctrl-C, where this is the main thread
                        raise
                finally:
                    self._thread = 0

    def _give_up(self, why: object) -> None:
        """Settle what an unforeseen fault has left without an outcome, so that no waiter hangs.

        It may be interrupted, and is then done again, at the latest once a waiter looks by itself.
        """
        if self._taken:
            self._heads.clear()
            settle([(ticket, unknown(ticket, why)) for ticket in self._taken if not ticket.resolved])
            wake(self._taken)  # also those that it kept from being woken
            self._taken.clear()

    def _gather(self) -> None:
        """Give those whose last request was just committed a moment to queue the next.

        Else the callers fall into two halves that wait for each other.
        """
        until = time.perf_counter() + min(self._took * PATIENCE, LONGEST)
        while len(self._queue) < self._together and time.perf_counter() < until and self.refusal is None:
            time.sleep(_MOMENT)

    def _take(self) -> None:
        """Take what one batch may hold out of the queue.

        An interrupt may come between any two steps: each ticket is in one of the two, or in both.
        """
        taken, size = self._taken, 0
        with self._queueing:
            while self._queue and (not taken or size + self._queue[0].size <= BATCH_BYTES):
                taken.append(self._queue[0])
                self._queue.popleft()
                size += taken[-1].size
            self._bytes = sum([ticket.size for ticket in self._queue]) if self._queue else 0
