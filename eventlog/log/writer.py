"""Group commit: who appends to the journal, one at a time.

The writer's thread takes the writers' lock, reads what other processes have appended, takes everything that is queued, decides
each request in turn (`batch.py`), writes one frame, flushes once, publishes, gives the lock back and tells
the waiters.  A request that is refused is refused alone.  If the frame cannot be written, every request of the batch
fails: with `BusyError` if nothing was written (no room, the lock is held), else with `UnknownOutcomeError`, and
then the log is poisoned until it is opened again: it can be read, and nothing more is written.

An append that somebody waits for and that stands alone is committed by whoever waits (`alone`), which spares it two hand-offs
between threads.  There a signal may strike, as `KeyboardInterrupt` between any two instructions; the writer's thread then
finishes what was begun, and finds out how far it came as it would after the death of another process: from the journal.

Imported by `partition.py` only.
"""

from __future__ import annotations

import signal
from importlib import import_module
from threading import Thread, current_thread, main_thread
from typing import TYPE_CHECKING, Any, TypeAlias

from eventlog.errors import (
    BusyError,
    ClosedError,
    DataError,
    EventlogError,
    PoisonedError,
    StopError,
    UnknownOutcomeError,
)
from eventlog.log.batch import Batch, Salts
from eventlog.log.inbox import Inbox
from eventlog.log.ticket import QueuedTicket, wake

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from eventlog.log.batch import Outcome
    from eventlog.log.partition import Partition

__all__ = ["Writer"]

BATCH_BYTES = 4 << 20
_OTHER_SIGNALS = tuple(number for number in map(int, signal.valid_signals()) if number != signal.SIGINT)
_handler_of: Callable[[int], Any] = import_module("_signal").getsignal
"""As `signal.getsignal`, but without making members of an enumeration: it is asked of every signal there is."""

AnyTicket: TypeAlias = QueuedTicket[Any, Any]


class Writer:
    """The thread and its queue."""

    def __init__(self, partition: Partition, queue_bytes: int, timeout: float) -> None:
        self._partition = partition
        self._inbox = Inbox(queue_bytes, timeout)
        self.poison: EventlogError | None = None
        """Why nothing more is written."""
        self._salts = Salts(partition.options.io)
        self._attempt: Batch | None = None
        """What is being written for an append that stands alone."""
        # A daemon, because the interpreter waits for other threads before the exit handler that closes the log.
        self._thread = Thread(target=self._run, name="eventlog-writer", daemon=True)
        self._thread.start()

    def put(self, ticket: AnyTicket, *, ring: bool = True) -> None:
        """Queue a request; blocks while the queue is full.  Without `ring`, `alone` or `ring` must follow."""
        self._inbox.put(ticket, ring=ring)

    def ring(self) -> None:
        """Have what is queued committed."""
        self._inbox.ring()

    def alone(self, ticket: AnyTicket) -> None:
        """Commit a queued append in this thread if nothing else is queued or being committed; else have it committed."""
        inbox = self._inbox
        if not _signals_only_interrupt():
            inbox.ring()
            return
        try:
            if inbox.claim(ticket):
                self._commit([ticket], alone=True)
                self._attempt = None
                inbox.settle()
        except Exception as error:
            inbox.leave(ticket)
            ticket.wait()  # if it is no fault of this thread alone, the writer's meets it, too, and says what it means
            if not isinstance(error, (RecursionError, MemoryError)):
                raise
        except BaseException:
            inbox.leave(ticket)
            raise

    def stop(self) -> None:
        """Begin to end: what is queued is committed, the partition is closed, then the thread ends."""
        self._inbox.close(ClosedError("the store is closed"))

    def join(self) -> None:
        """Wait for the end."""
        if current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._inbox.wait(Writer.alone.__code__):
                left = self._inbox.left()
                if left is None:
                    self._commit(self._inbox.take(BATCH_BYTES))
                else:
                    self._finish(left)
        finally:
            self._partition.shut()

    def _finish(self, left: AnyTicket) -> None:
        """Commit what the thread that claimed it has left half done, or find that it is in."""
        if left.done():
            wake([left])
        else:
            left.refused = False
            self._commit([left], attempt=self._attempt)
        self._attempt = None
        self._inbox.settle()

    def _commit(self, batch: list[AnyTicket], *, alone: bool = False, attempt: Batch | None = None) -> None:
        """Give every ticket its outcome, whatever happens but an interrupt of one that stands `alone`.

        `attempt` is an earlier one at the same, which may have succeeded.
        """
        try:
            if self.poison is None:
                self._write(batch, alone=alone, attempt=attempt)
            else:
                for ticket in batch:
                    ticket.fail(self.poison)
        except BusyError as error:
            for ticket in batch:
                ticket.fail(error if attempt is None else UnknownOutcomeError(f"it was interrupted; {error}"))
        except BaseException as error:  # a waiter must not hang because of a fault nobody thought of
            if alone and not isinstance(error, EventlogError):
                raise
            self._fail(batch, error)
        wake(batch)

    def _fail(self, batch: list[AnyTicket], error: BaseException) -> None:
        if self.poison is None:
            known = isinstance(error, EventlogError)
            if isinstance(error, (DataError, StopError)):  # damage, or what the system refuses: they say what to do
                self.poison = error
            else:
                self.poison = PoisonedError(str(error) if known else f"the writer failed: {error!r}")
            self._inbox.refuse(self.poison)
            unknown = UnknownOutcomeError("the write failed; open the log again to learn the outcome")
            unknown.__cause__ = error
            error = unknown if isinstance(error, PoisonedError) or not known else error
        for ticket in batch:
            ticket.fail(error)

    def _write(self, tickets: list[AnyTicket], *, alone: bool, attempt: Batch | None) -> None:
        partition = self._partition
        if attempt is None:
            partition.wait_for_room()
        partition.lock.acquire()
        try:
            if attempt is not None and partition.journal.address != attempt.start:
                partition.doubt()
            partition.catch_up_to_write()
            if attempt is not None and attempt.is_in():
                outcomes = attempt.outcomes
            else:
                if not alone:
                    tickets += self._inbox.take(BATCH_BYTES)  # what was queued meanwhile
                outcomes = self._written(tickets, alone=alone)
        finally:
            partition.lock.release()
        for ticket, outcome in zip(tickets, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                ticket.fail(outcome)
            else:
                ticket.succeed(outcome)

    def _written(self, tickets: Sequence[AnyTicket], *, alone: bool) -> list[Outcome]:
        """Decide, write and flush; the writers' lock is held, and all that was committed is known."""
        partition = self._partition
        batch = Batch(partition, self._salts)
        for ticket in tickets:
            batch.decide(ticket)
        if batch.records:
            if alone:
                self._attempt = batch
            partition.append(batch.records, batch.pending)
        return batch.outcomes


def _signals_only_interrupt() -> bool:
    """Whether a signal's handler can do no more in this thread than raise `KeyboardInterrupt`.

    Handlers run in the main thread.  One that is the program's own might want to append something itself, and would wait for what it has just
    interrupted.
    """
    if current_thread() is not main_thread():
        return True
    interrupt = _handler_of(signal.SIGINT)
    if interrupt is not signal.default_int_handler and callable(interrupt):
        return False
    return not any(map(callable, map(_handler_of, _OTHER_SIGNALS)))
