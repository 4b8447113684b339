"""One batch: the requests of one commit, on their way to the disk.

The requests are decided one after the other on top of what is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from eventlog.log.contract import Append, Commit, Committed, LeaseState
from eventlog.log.embedded.journal.frames import CommitRecord, LeaseRecord, Record
from eventlog.log.embedded.memtable import MemtablePart
from eventlog.log.rules import RequestResult, accept, commit_of, may_replace_lease
from eventlog.log.ticket import QueuedTicket

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from eventlog.log.embedded.lookup import Lookup

__all__ = ["AnyTicket", "Batch", "Committing", "LeaseChange"]

AnyTicket: TypeAlias = QueuedTicket[Any, Any]
Outcome: TypeAlias = Committed | bool | BaseException | None


class LeaseChange(msgspec.Struct, frozen=True):
    """A lease record to write if the session's one still equals `replaces`."""

    session: str
    state: LeaseState
    replaces: LeaseState


class Committing(Protocol):
    """What a batch is decided on top of: the partition."""

    position: int
    lookup: Lookup
    salts: list[bytes]
    """Random bytes for leaves, one of which each append takes."""

    def more_salts(self) -> None:
        """Have some."""
        ...


class Batch:
    """The requests of one commit, and what is decided so far (`rules.PriorCommits`)."""

    __slots__ = ("_partition", "durable", "error", "outcomes", "pending", "ready", "records", "tickets")

    def __init__(self, partition: Committing) -> None:
        self._partition = partition
        self.tickets: list[AnyTicket] = []
        self.outcomes: list[Outcome] = []
        self.records: list[Record] = []
        """What is to be written, and in `pending` what it adds to the log."""
        self.pending = MemtablePart()
        self.ready = False
        """Whether all is decided, and the frame prepared in the journal."""
        self.durable = False
        self.error: BaseException | None = None
        """The outcome of every ticket, in place of its own."""

    def decide(self, append: Append) -> Committed:
        """The outcome of an append if the commit succeeds."""
        session, pending, partition = append.session, self.pending, self._partition
        head = accept(self, append, pending.heads.get(session) or partition.lookup.head_of(session))
        if isinstance(head, Committed):
            return head
        bodies = self._new_bodies(append.bodies) if append.bodies else []
        if not partition.salts:
            partition.more_salts()
        commit, after = commit_of(head, append, pending.position + 1, partition.salts.pop())
        first, count, position = commit.first, commit.count, commit.position
        pending.add_commit(commit, after, append.digest, bodies)
        pending.position += count
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
        """Those that are not stored yet."""
        known: Callable[[bytes], bool] = self._partition.lookup.has_body
        return [pair for pair in bodies if pair[0] not in self.pending.bodies and not known(pair[0])]

    def decide_lease(self, change: LeaseChange) -> bool:
        """The outcome of a lease record."""
        session = change.session
        head = self.pending.heads.get(session) or self._partition.lookup.head_of(session)
        head = may_replace_lease(session, head, change.replaces)
        if head is None:
            return False
        self.pending.heads[session] = msgspec.structs.replace(head, lease=change.state)
        self.records.append(LeaseRecord.of(session, change.state))
        return True

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """See `rules.PriorCommits`."""
        return self.pending.requests.get((session, request)) or self._partition.lookup.request_result(session, request)

    def commits_since(self, session: str, version: int) -> Sequence[Commit]:
        """See `rules.PriorCommits`."""
        found = list(self._partition.lookup.commits_since(session, version))
        return found + [commit for commit in self.pending.commits.get(session, ()) if commit.last > version]
