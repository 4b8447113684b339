"""The requests that go into one commit: each decided in turn, on top of what is committed and of those before it.

Nothing is written here, and nothing changed but the batch itself.  Used by `writer.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from eventlog.log.base import Append, Commit, Committed, Head, LeaseState
from eventlog.log.frames import CommitRecord, LeaseRecord, Record
from eventlog.log.rules import Seen, admit, commit_of, may_replace_lease
from eventlog.log.tail import Generation
from eventlog.log.tree import SALT_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.log.filesystem import JournalIO
    from eventlog.log.partition import Partition
    from eventlog.log.ticket import QueuedTicket

__all__ = ["Batch", "LeaseChange", "Outcome", "Salts"]

_SALTS = 64
"""How many are asked for at a time: asking takes longer than hashing, and hands the interpreter to another thread."""

Outcome = Committed | bool | BaseException | None
"""What becomes of a request if the commit succeeds; None of one that only waits for what was queued before it."""


class LeaseChange(msgspec.Struct, frozen=True):
    """A lease record to write if the session's one still equals `replaces`."""

    session: str
    state: LeaseState
    replaces: LeaseState


class Salts:
    """A salt for each append; not thread-safe."""

    def __init__(self, io: JournalIO) -> None:
        self._io = io
        self._left: list[bytes] = []

    def take(self) -> bytes:
        """One that nobody has."""
        if not self._left:
            random = self._io.random(SALT_BYTES * _SALTS)
            self._left = [random[start : start + SALT_BYTES] for start in range(0, len(random), SALT_BYTES)]
        return self._left.pop()


class Batch:
    """The requests of one commit that were accepted so far (`rules.Past`)."""

    __slots__ = ("_lookup", "_salts", "outcomes", "pending", "records", "start")

    def __init__(self, partition: Partition, salts: Salts) -> None:
        self._lookup = partition.lookup
        self._salts = salts
        self.start = partition.journal.address
        """Where the journal ends without it."""
        self.pending = Generation()
        self.pending.position = partition.position
        self.records: list[Record] = []
        self.outcomes: list[Outcome] = []
        """One for each request."""

    def is_in(self) -> bool:
        """Whether a batch of one append is in the log: nothing else has the salt of that."""
        (record,) = self.records
        if not isinstance(record, CommitRecord):
            return False
        found = self._lookup.read(record.session, record.first - 1, record.first, reverse=False)
        return any(commit.salt == record.salt for commit in found)

    def decide(self, ticket: QueuedTicket[Any, Any]) -> None:
        """Take a request in, or refuse it."""
        request = ticket.request
        outcome: Outcome = None
        try:
            if isinstance(request, Append):
                outcome = self._append(request)
            elif isinstance(request, LeaseChange):
                outcome = self._lease(request)
        except Exception as error:  # noqa: BLE001 - whatever a check raises is its request's outcome, and no other's
            ticket.refused = True
            outcome = error
        self.outcomes.append(outcome)

    def _append(self, append: Append) -> Committed:
        head = admit(self, append)
        if isinstance(head, Committed):
            return head
        pending = self.pending
        position = pending.position + 1
        bodies = self._new_bodies(append.bodies) if append.bodies else []
        commit, after = commit_of(head, append, position, self._salts.take())
        session, first, count, digest = commit.session, commit.first, commit.count, append.digest
        pending.add_commit(commit, after, digest, bodies)
        pending.position += count
        self.records.append(
            CommitRecord(
                session, first, count, position, commit.time, commit.payload, commit.salt, commit.leaf,
                commit.epoch, append.messages, append.creates_at, append.card, commit.request, digest, bodies,
            )
        )  # fmt: skip
        return Committed(session, first, first + count - 1, position)

    def _new_bodies(self, bodies: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Those that are not stored yet."""
        known, pending = self._lookup.has_body, self.pending.bodies
        return [pair for pair in bodies if pair[0] not in pending and not known(pair[0])]

    def _lease(self, change: LeaseChange) -> bool:
        head = may_replace_lease(self, change.session, change.replaces)
        if head is None:
            return False
        state = change.state
        self.pending.heads[change.session] = msgspec.structs.replace(head, lease=state)
        self.records.append(LeaseRecord(change.session, state.epoch, state.owner, state.until))
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
