"""The requests of one commit, decided one after the other on top of what is committed.

`Batch` is what is decided so far; `Flight` is a batch on its way to the disk, of which every step may be repeated
(`group_commit.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from eventlog.log.contract import Append, Commit, Committed, Head, LeaseState
from eventlog.log.embedded.journal.frames import CommitRecord, LeaseRecord, Record
from eventlog.log.embedded.memtable import Generation
from eventlog.log.rules import Seen, admit, commit_of, may_replace_lease
from eventlog.log.ticket import QueuedTicket

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from eventlog.log.embedded.lookup import Lookup

__all__ = ["AnyTicket", "Batch", "Flight", "LeaseChange"]

AnyTicket: TypeAlias = QueuedTicket[Any, Any]
Outcome: TypeAlias = Committed | bool | BaseException | None


class LeaseChange(msgspec.Struct, frozen=True):
    """A lease record to write if the session's one still equals `replaces`."""

    session: str
    state: LeaseState
    replaces: LeaseState


class Flight:
    """A batch that is being written: its frame, as `pending` says, is ready in the journal."""

    __slots__ = ("durable", "error", "outcomes", "pending", "tickets")

    def __init__(self, tickets: list[AnyTicket], outcomes: list[Outcome], pending: Generation | None) -> None:
        self.tickets = tickets
        self.outcomes = outcomes
        self.pending = pending
        """None where nothing is to be written."""
        self.durable = False
        self.error: BaseException | None = None
        """The outcome of every ticket, in place of its own."""

    def settle(self) -> None:
        """Give every ticket its outcome."""
        for ticket, outcome in zip(self.tickets, self.outcomes, strict=True):
            if self.error is not None:
                ticket.fail(self.error)
            elif isinstance(outcome, BaseException):
                ticket.fail(outcome)
            else:
                ticket.succeed(outcome)


class Batch:
    """The requests that were accepted so far, on top of what is committed (`rules.Past`)."""

    __slots__ = ("_lookup", "_salt", "interrupted", "pending", "records")

    def __init__(self, lookup: Lookup, position: int, salt: Callable[[], bytes]) -> None:
        self._lookup = lookup
        self._salt = salt
        self.pending = Generation()
        self.pending.position = position
        self.records: list[Record] = []
        self.interrupted: AnyTicket | None = None
        """What was just decided when an interrupt came."""

    def decide(self, ticket: AnyTicket) -> Outcome:
        """The outcome of a request if the commit succeeds."""
        request = ticket.request
        ticket.refused = False  # it may have been, in a batch that an interrupt broke off
        try:
            if isinstance(request, Append):
                return self._append(request)
            if isinstance(request, LeaseChange):
                return self._lease(request)
        except Exception as error:  # noqa: BLE001 - whatever a check raises is its request's outcome, and no other's
            ticket.refused = True
            return error
        except BaseException:
            self.interrupted = ticket
            raise
        return None  # only waits for what was queued before it

    def _append(self, append: Append) -> Committed:
        head = admit(self, append)
        if isinstance(head, Committed):
            return head
        pending = self.pending
        bodies = self._new_bodies(append.bodies) if append.bodies else []
        commit, after = commit_of(head, append, pending.position + 1, self._salt())
        pending.add_commit(commit, after, append.digest, bodies)
        pending.position += commit.count
        self.records.append(CommitRecord.of(commit, append, bodies))
        if append.lease is not None:
            self.records.append(LeaseRecord.of(commit.session, append.lease))
        return Committed(commit.session, commit.first, commit.first + commit.count - 1, commit.position)

    def _new_bodies(self, bodies: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Those that are not stored yet."""
        known, pending = self._lookup.has_body, self.pending.bodies
        return [pair for pair in bodies if pair[0] not in pending and not known(pair[0])]

    def _lease(self, change: LeaseChange) -> bool:
        head = may_replace_lease(self, change.session, change.replaces)
        if head is None:
            return False
        self.pending.heads[change.session] = msgspec.structs.replace(head, lease=change.state)
        self.records.append(LeaseRecord.of(change.session, change.state))
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
