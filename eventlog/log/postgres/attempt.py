"""The way of queued requests to their outcomes: decide, write, and settle what is lost.

Where the connection is lost before the server has answered, the outcome is unknown at first. It is
settled on a new connection, by looking for the commits, each of which has a salt that no other one
has. What is not there is written again under the guard of the same revision, so at most one of the
two tries goes in, also if the lost one is still at work. Only if no connection is to be had in
time, or the server warns that a commit may not be replicated, is it `UnknownOutcomeError`. A result
that is *repeated* by its request id, or a lease that a lost try has set, is acknowledged after
another write on the same server, which is durable only if everything before it is.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec.structs import replace
from psycopg import Error, RawCursor
from psycopg.errors import UniqueViolation

from eventlog.errors import BusyError, EventlogError, UnknownOutcomeError
from eventlog.log.append_checks import RequestResult
from eventlog.log.commit import Append, Committed
from eventlog.log.merkle import SALT_BYTES
from eventlog.log.postgres.batch import AnyTicket, Batch
from eventlog.log.postgres.clock import ServerClock
from eventlog.log.postgres.faults import is_passing, may_have_committed, typed
from eventlog.log.postgres.reader import RESTORED
from eventlog.log.postgres.rows import Known
from eventlog.log.postgres.statements import APPEND, APPEND_WITH_BODIES, BARRIER, FIND
from eventlog.log.ticket import wake

if TYPE_CHECKING:
    from eventlog.log.postgres.connections import Connections, LogConnection
    from eventlog.log.postgres.reader import Reader

_MOST = 4096
"""Heads that are remembered."""
_PAUSE = 0.01


class Target(NamedTuple):
    """The log that is written to."""

    connections: Connections
    reader: Reader
    partitions: int
    partition_of: Callable[[str], int]
    timeout: float
    """Seconds in which a lost connection is replaced."""
    note: Callable[[Iterable[tuple[int, int]]], None]
    """Called with positions that partitions reached."""
    time: ServerClock

    def finish(self, heads: KnownHeads, tickets: Sequence[AnyTicket]) -> None:
        """Return when each ticket has its outcome."""
        Attempt(self, heads, tickets).finish()


Tried: TypeAlias = dict[AnyTicket, list[tuple[int, bytes]]]
"""Commits of unknown outcome, by last version and salt; of a lease nothing but the try."""


class _Try(NamedTuple):
    """A commit of unknown outcome."""

    ticket: AnyTicket
    append: Append
    last: int
    salt: bytes


class KnownHeads(dict[str, Known]):
    """Heads as they were last read or written here."""

    def learn(self, session: str, known: Known | None) -> None:
        """Remember a head, or that it is not known any more."""
        if known is None:
            self.pop(session, None)
            return
        self[session] = known

    @property
    def full(self) -> bool:
        """Whether no more are to be learnt before the next batch begins."""
        return len(self) >= _MOST

    def trim(self) -> None:
        """Forget all heads if there are too many.

        Not while a batch is decided: it relies on those that it has read.
        """
        if self.full:
            self.clear()


def settle(outcomes: Iterable[tuple[AnyTicket, Any]]) -> None:
    """Tell the waiters of some tickets their outcome."""
    done: list[AnyTicket] = []
    for ticket, outcome in outcomes:
        if isinstance(outcome, BaseException):
            ticket.fail(outcome)
        else:
            ticket.succeed(outcome)
        done.append(ticket)
    wake(done)


def unknown(ticket: AnyTicket, why: object) -> UnknownOutcomeError:
    """Return the outcome of a ticket that may have been committed."""
    request = ticket.request
    failure = UnknownOutcomeError(
        f"the outcome is not known: {why if isinstance(why, EventlogError) else type(why).__name__}",
        session=getattr(request, "session", None),
        request=getattr(request, "request", None),
    )
    failure.__cause__ = why if isinstance(why, BaseException) else None
    return failure


class Attempt:
    """Some tickets on their way to their outcomes."""

    def __init__(self, target: Target, heads: KnownHeads, tickets: Sequence[AnyTicket]) -> None:
        self._target = target
        self._heads = heads
        self._tickets = tickets
        self._deadline = time.monotonic() + target.timeout
        self._fresh: set[str] = set()
        self._requests: dict[tuple[str, str], RequestResult] = {}
        self._tried: Tried = {}

    def finish(self) -> None:
        """Return when each ticket has its outcome."""
        target = self._target
        self._heads.trim()
        while self._tickets:
            batch = Batch(
                self._tickets,
                self._heads,
                requests=self._requests,
                fresh=self._fresh,
                lease_may_be_set=self._tried,
                partition_of=target.partition_of,
                salt=lambda: os.urandom(SALT_BYTES),
            )
            try:
                if batch.doubtful:
                    self._read(batch.doubtful)
                    continue
                before = self._write(batch) if batch.changes else {}
                if before is not None:
                    self._settle(batch, before)
            except EventlogError as error:
                self._unlearn(batch.changes)
                self.give_up(error)

    def _write(self, batch: Batch) -> dict[int, int] | None:
        """Have the server commit a batch; return the partition's position before, by session.

        None where it has to be decided anew.
        """
        target = self._target
        parameters = {"made": target.reader.made, **batch.parameters(target.partitions)}
        statement = APPEND_WITH_BODIES if "b_i" in parameters else APPEND
        values = [parameters[name] for name in statement.names]
        try:
            with target.connections.one(self._left()) as connection:
                connection.warned = ""
                sent = target.time.local()
                rows = RawCursor(connection).execute(statement.text, values, binary=True).fetchall()
                warned = connection.warned
        except UniqueViolation as error:
            if time.monotonic() > self._deadline:
                raise typed(error) from error
            self._read(batch.changes)
            return None
        except Error as error:
            if is_passing(error) and time.monotonic() < self._deadline:
                time.sleep(random.uniform(0, _PAUSE))
                return None
            if not may_have_committed(error):
                raise typed(error) from error
            self._note_tried(batch)
            if time.monotonic() > self._deadline:
                raise typed(error) from error
            time.sleep(random.uniform(0, _PAUSE))
            self._unlearn(batch.changes)
            return None
        if warned:
            self._unlearn(batch.changes)
            self._note_tried(batch)
            raise BusyError(f"the server warned: {warned}")
        if rows and rows[0][0] < 0:
            raise target.reader.refuse(RESTORED)
        if rows:
            target.time.learn(rows[0][2], sent)
        return {number: position for number, position, _ in rows}

    def _confirmed(self, earlier: Sequence[tuple[AnyTicket, Any]]) -> list[tuple[AnyTicket, Any]]:
        """Write once more where results are earlier commits': then those are durable as well.

        Else their outcome is why they are not known to be.
        """
        request: Any = earlier[0][0].request
        try:
            with self._target.connections.one(self._left()) as connection:
                self._barrier(connection, self._target.partition_of(request.session))
        except EventlogError as error:
            return [(ticket, self._failure(ticket, error)) for ticket, _ in earlier]
        return list(earlier)

    def _barrier(self, connection: LogConnection, partition: int) -> None:
        connection.warned = ""
        try:
            written = connection.execute(BARRIER, (partition,)).rowcount
        except Error as error:
            raise typed(error) from error
        if not written:
            raise self._target.reader.refuse(RESTORED)
        if connection.warned:
            raise UnknownOutcomeError(f"an earlier commit may not be replicated: {connection.warned}")

    def _settle(self, batch: Batch, before: dict[int, int]) -> None:
        """Settle the tickets of sessions that went in, or to which nothing was to be written."""
        target = self._target
        agreed = {session for session, change in batch.changes.items() if change.number in before}
        positions = _positions(batch, before)
        for session, change in batch.changes.items():
            if session in agreed and change.after is not None:
                top = (
                    positions[change.added[-1]] + batch.added[change.added[-1]].commit.count - 1 if change.added else 0
                )
                self._heads.learn(
                    session, Known(replace(change.after, position=top) if top else change.after, change.revision)
                )
                if change.added:
                    commit = batch.added[change.added[-1]].commit
                    target.reader.note(session, commit.last, commit.leaf)
        ends: dict[int, int] = {}
        for place, added in enumerate(batch.added):
            if place in positions:
                partition = batch.changes[added.commit.session].partition
                ends[partition] = positions[place] + added.commit.count - 1
        target.note(ends.items())
        done: list[tuple[AnyTicket, Any]] = []
        earlier: list[tuple[AnyTicket, Any]] = []
        left: list[AnyTicket] = []
        late: set[str] = set()
        for ticket, outcome in zip(batch.tickets, batch.outcomes, strict=True):
            session = getattr(ticket.request, "session", "")
            if session in batch.changes and session not in agreed:
                left.append(ticket)
                late.add(session)
                continue
            if isinstance(outcome, Committed) and outcome.position < 0:
                outcome = replace(outcome, position=positions[-1 - outcome.position])  # noqa: PLW2901 - it is known now
            is_earlier = (
                outcome.repeated if isinstance(outcome, Committed) else outcome is True
            )  # a lease that was found
            (earlier if is_earlier and not before else done).append((ticket, outcome))
        settle(done)
        self._tickets = left
        if earlier:
            self._tickets = [*(ticket for ticket, _ in earlier), *left]
            settle(self._confirmed(earlier))
            self._tickets = left
        if late:
            self._read(late)

    def give_up(self, error: EventlogError) -> None:
        """Tell all tickets that are left why they have no outcome."""
        outcomes = [(ticket, self._failure(ticket, error)) for ticket in self._tickets]
        self._tickets = []
        settle(outcomes)

    def _failure(self, ticket: AnyTicket, error: EventlogError) -> EventlogError:
        """Return the outcome of a ticket that an error ends: unknown, if it may have gone in."""
        if ticket not in self._tried or isinstance(error, UnknownOutcomeError):
            return error
        return unknown(ticket, error)

    # --- reading again

    def _read(self, sessions: Iterable[str]) -> None:
        """Read heads and used request ids of some sessions, and settle what is found committed."""
        target = self._target
        sessions = set(sessions)
        wanted = [
            (request.session, request.request)
            for ticket in self._tickets
            if isinstance(request := ticket.request, Append)
            and request.request is not None
            and request.session in sessions
        ]
        heads = target.reader.known_heads(sorted(sessions))
        self._requests.update(target.reader.request_results(wanted))
        for session in sessions:
            self._heads.learn(session, heads.get(session))
        self._fresh |= sessions
        if self._tried:  # after the heads: one that has a commit of unknown outcome is not decided on
            self._find(sessions)

    def _note_tried(self, batch: Batch) -> None:
        for ticket, outcome in zip(batch.tickets, batch.outcomes, strict=True):
            request = ticket.request
            if request is None or request.session not in batch.changes:
                continue
            if isinstance(outcome, Committed) and outcome.position < 0 and not outcome.repeated:
                commit = batch.added[-1 - outcome.position].commit
                self._tried.setdefault(ticket, []).append((commit.last, commit.salt))
            elif outcome is True:
                self._tried.setdefault(ticket, [])

    def _find(self, sessions: set[str]) -> None:
        """Look for the commits of unknown outcome, and settle those that are there."""
        target = self._target
        tries: list[_Try] = [
            _Try(ticket, append, last, salt)
            for ticket in self._tickets
            if isinstance(append := ticket.request, Append) and append.session in sessions
            for last, salt in self._tried.get(ticket, ())
        ]
        if not tries:
            return
        rows = target.connections.rows(
            FIND,
            {
                "partition": [target.partition_of(one.append.session) for one in tries],
                "session": [one.append.session.encode() for one in tries],
                "last": [one.last for one in tries],
                "salt": [one.salt for one in tries],
            },
        )
        done: list[tuple[AnyTicket, Committed]] = []
        for number, last_position in rows:
            one = tries[int(number) - 1]
            count = one.append.count
            committed = Committed(one.append.session, one.last - count + 1, one.last, last_position - count + 1)
            done.append((one.ticket, committed))
        if done:
            partition = target.partition_of(done[0][1].session)
            with target.connections.one(self._left()) as connection:
                self._barrier(connection, partition)
            settled = {ticket for ticket, _ in done}
            self._unlearn({committed.session for _, committed in done})
            self._tickets = [ticket for ticket in self._tickets if ticket not in settled]
            settle(done)

    def _unlearn(self, sessions: Iterable[str]) -> None:
        """Have the heads of some sessions read again before anything is decided."""
        self._fresh.difference_update(sessions)
        for session in sessions:
            self._heads.learn(session, None)

    def _left(self) -> float:
        return max(self._deadline - time.monotonic(), 0.001)


def _positions(batch: Batch, before: dict[int, int]) -> dict[int, int]:
    """Return the first position of each commit that went in, by its place in the batch."""
    found: dict[int, int] = {}
    ends: dict[int, int] = {}
    for place, added in enumerate(batch.added):
        change = batch.changes[added.commit.session]
        if change.number in before:
            end = ends.get(change.partition, before[change.number])
            found[place] = end + 1
            ends[change.partition] = end + added.commit.count
    return found
