"""Group commit: the one thread of a log that appends to the journal.

It takes everything that is queued, takes the writers' lock, reads what other processes have appended, decides
each request in turn (`log/rules.py`), writes one frame, flushes once, publishes, gives the lock back and tells
the waiters.  A request that is refused is refused alone.  If the frame cannot be written, every request of the batch
fails: with `BusyError` or `StorageError` if nothing was written (no room, no file, no permission, the lock is held), and the next batch is tried;
else with `UnknownOutcomeError`, and then the log is poisoned until it is opened again: it can be read, and nothing more is written.
"""

from __future__ import annotations

from threading import Thread, current_thread
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from eventlog.errors import (
    BusyError,
    ClosedError,
    DataError,
    EventlogError,
    PoisonedError,
    StopError,
    StorageError,
    UnknownOutcomeError,
)
from eventlog.log.contract import Append, Commit, Committed, Head, LeaseState
from eventlog.log.embedded.inbox import Inbox
from eventlog.log.embedded.journal.frames import CommitRecord, LeaseRecord, Record
from eventlog.log.embedded.memtable import Generation
from eventlog.log.rules import Seen, admit, commit_of, may_replace_lease
from eventlog.log.ticket import QueuedTicket, wake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.log.embedded.journal.journal import Journal
    from eventlog.log.embedded.locks import WriterLock
    from eventlog.log.embedded.lookup import Lookup

__all__ = ["LeaseChange", "Writer"]

BATCH_BYTES = 4 << 20


class LeaseChange(msgspec.Struct, frozen=True):
    """A lease record to write if the session's one still equals `replaces`."""

    session: str
    state: LeaseState
    replaces: LeaseState


AnyTicket: TypeAlias = QueuedTicket[Any, Any]


class CommitTarget(Protocol):
    """The partition, as the writer sees it."""

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
        """What was just written is committed."""
        ...

    def salt(self) -> bytes:
        """Random bytes for a leaf."""
        ...

    def shut(self) -> None:
        """Fold and release everything."""
        ...


class Writer:
    """The thread and its queue."""

    def __init__(self, partition: CommitTarget, queue_bytes: int, timeout: float) -> None:
        self._partition = partition
        self._inbox = Inbox(queue_bytes, timeout)
        self.poison: EventlogError | None = None
        """Why nothing more is written."""
        # A daemon, because the interpreter waits for other threads before the exit handler that closes the log.
        self._thread = Thread(target=self._run, name="eventlog-writer", daemon=True)
        self._thread.start()

    def put(self, ticket: AnyTicket) -> None:
        """Queue a request; blocks while the queue is full."""
        self._inbox.put(ticket)

    def stop(self) -> None:
        """Begin to end: what is queued is committed, the partition is closed, then the thread ends."""
        self._inbox.close(ClosedError("the store is closed"))

    def join(self) -> None:
        """Wait for the end."""
        if current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            while batch := self._inbox.take(BATCH_BYTES):
                self._commit(batch)
        finally:
            self._partition.shut()

    def _commit(self, batch: list[AnyTicket]) -> None:
        """Give every ticket its outcome, whatever happens."""
        try:
            if self.poison is None:
                self._write(batch)
            else:
                for ticket in batch:
                    ticket.fail(self.poison)
        except (BusyError, StorageError) as error:  # before a byte of it was written
            for ticket in batch:
                ticket.fail(error)
        except BaseException as error:  # noqa: BLE001 - a waiter must not hang because of a fault nobody thought of
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

    def _write(self, tickets: list[AnyTicket]) -> None:
        partition = self._partition
        partition.wait_for_room()
        partition.lock.acquire()
        try:
            partition.catch_up_to_write()
            batch = _Batch(partition)
            outcomes = [batch.decide(ticket) for ticket in tickets]
            if batch.records:
                pending = batch.pending
                pending.size = partition.journal.append(batch.records, pending.position)
                pending.end = partition.journal.address
                partition.publish(pending)
        finally:
            partition.lock.release()
        for ticket, outcome in zip(tickets, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                ticket.fail(outcome)
            else:
                ticket.succeed(outcome)


class _Batch:
    """The requests of one commit that were accepted so far, on top of what is committed (`rules.Past`)."""

    __slots__ = ("_lookup", "_salt", "pending", "records")

    def __init__(self, partition: CommitTarget) -> None:
        self._lookup = partition.lookup
        self._salt = partition.salt
        self.pending = Generation()
        self.pending.position = partition.position
        self.records: list[Record] = []

    def decide(self, ticket: AnyTicket) -> Committed | bool | BaseException | None:
        """The outcome of a request if the commit succeeds."""
        request = ticket.request
        try:
            if isinstance(request, Append):
                return self._append(request)
            if isinstance(request, LeaseChange):
                return self._lease(request)
        except BaseException as error:  # noqa: BLE001 - whatever a check raises is its request's outcome, and no other's
            ticket.refused = True
            return error
        return None  # only waits for what was queued before it

    def _append(self, append: Append) -> Committed:
        head = admit(self, append)
        if isinstance(head, Committed):
            return head
        pending = self.pending
        position = pending.position + 1
        bodies = self._new_bodies(append.bodies) if append.bodies else []
        commit, after = commit_of(head, append, position, self._salt())
        session, first, count, digest = commit.session, commit.first, commit.count, append.digest
        pending.add_commit(commit, after, digest, bodies)
        pending.position += count
        self.records.append(
            CommitRecord(
                session, first, count, position, commit.time, commit.payload, commit.salt, commit.leaf,
                commit.epoch, append.messages, append.creates_at, append.card, commit.request, digest, bodies,
            )
        )  # fmt: skip
        if append.lease is not None:
            self.records.append(_lease_record(session, append.lease))
        return Committed(session, first, first + count - 1, position)

    def _new_bodies(self, bodies: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Those that are not stored yet."""
        known, pending = self._lookup.has_body, self.pending.bodies
        return [pair for pair in bodies if pair[0] not in pending and not known(pair[0])]

    def _lease(self, change: LeaseChange) -> bool:
        head = may_replace_lease(self, change.session, change.replaces)
        if head is None:
            return False
        self.pending.heads[change.session] = msgspec.structs.replace(head, lease=change.state)
        self.records.append(_lease_record(change.session, change.state))
        return True

    def head_of(self, session: str) -> Head | None:
        """See `rules.Past`."""
        head = self.pending.heads.get(session)
        return head if head is not None else self._lookup.head_of(session)

    def seen(self, session: str, request: str) -> Seen | None:
        """See `rules.Past`."""
        seen = self.pending.requests.get((session, request))
        return seen if seen is not None else self._lookup.seen(session, request)

    def commits_after(self, session: str, version: int) -> Sequence[Commit]:
        """See `rules.Past`."""
        found = list(self._lookup.commits_after(session, version))
        return found + [commit for commit in self.pending.commits.get(session, ()) if commit.last > version]


def _lease_record(session: str, state: LeaseState) -> LeaseRecord:
    return LeaseRecord(session, state.epoch, state.owner, state.until)
