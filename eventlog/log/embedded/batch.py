"""One batch: the requests of one commit, on their way to the disk.

The requests are decided one after the other on top of what is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from eventlog.log.append_checks import LeaseChange, RequestResult, accept, commit_of, goes_in, may_replace_lease
from eventlog.log.commit import Append, Committed, Ticket
from eventlog.log.embedded.journal.frames import CommitRecord, LeaseRecord, Record
from eventlog.log.embedded.memtable import MemtablePart
from eventlog.log.ticket import QueuedTicket

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.log.embedded.tail import Tail

LOOKED_UP = 64 * 1024
"""Bytes of a packed body from which on a commit looks whether it is folded already."""
AnyTicket: TypeAlias = QueuedTicket[Any, Any]
Outcome: TypeAlias = Committed | bool | BaseException | None


class Batch:
    """The requests of one commit, and what is decided so far (`rules.PriorCommits`)."""

    __slots__ = ("_tail", "durable", "error", "outcomes", "part", "ready", "records", "tickets")

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self.tickets: list[AnyTicket] = []
        self.outcomes: list[Outcome] = []
        self.records: list[Record] = []
        """Records to write, and in `part` their effect on the log."""
        self.part: MemtablePart = MemtablePart()
        self.ready: bool = False
        """Whether all is decided, and the frame prepared in the journal."""
        self.durable: bool = False
        self.error: BaseException | None = None
        """The outcome of every ticket, in place of its own."""

    def decide(self, append: Append) -> Committed:
        """Decide an append; return its outcome if the commit succeeds."""
        session, part, tail = append.session, self.part, self._tail
        head = accept(self, append, part.heads.get(session) or tail.lookup.head_of(session))
        if isinstance(head, Committed):
            return head
        bodies = self._new_bodies(append.bodies) if append.bodies else []
        if not tail.salts:
            tail.more_salts()
        commit, after = commit_of(head, append, part.position + 1, tail.salts.pop())
        first, count, position = commit.first, commit.count, commit.position
        part.add_commit(commit, after, append.digest, bodies)
        part.position += count
        self.records.append(
            CommitRecord(
                session, first, count, position, commit.time, commit.payload, commit.salt, commit.leaf, commit.epoch,
                append.messages, append.creates_at, append.entry, commit.request, append.digest, bodies,
            )
        )  # fmt: skip
        if append.lease is not None:
            self.records.append(LeaseRecord.of(session, append.lease))
        return Committed(session, first, first + count - 1, position)

    def _new_bodies(self, bodies: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Return the bodies that are not known to be stored.

        Folding leaves out the others; only for large ones a look-up costs less than writing.
        """
        is_recent, is_stored = self._tail.memtable.body, self._tail.lookup.has_body
        return [
            (digest, packed)
            for digest, packed in bodies
            if digest not in self.part.bodies
            and not (is_stored(digest) if len(packed) >= LOOKED_UP else is_recent(digest))
        ]

    def decide_lease(self, change: LeaseChange) -> bool:
        """Decide a lease record; return its outcome if the commit succeeds."""
        session = change.session
        head = self.part.heads.get(session) or self._tail.lookup.head_of(session)
        head = may_replace_lease(session, head, change.replaces)
        if head is None:
            return False
        self.part.heads[session] = msgspec.structs.replace(head, lease=change.state)
        self.records.append(LeaseRecord.of(session, change.state))
        return True

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """See `rules.PriorCommits`."""
        return self.part.requests.get((session, request)) or self._tail.lookup.request_result(session, request)

    def has(self, ticket: Ticket) -> bool:
        """See `rules.PriorCommits`."""
        return goes_in(ticket, self.tickets, self.outcomes)
