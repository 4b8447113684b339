"""One batch: the requests of one statement, decided on heads as this process knows them.

A head may be out of date, for other processes write as well. So what is accepted goes in under the
guard of the head's revision, and what is refused is refused only on a head that was read after the
request was made: such a session is *doubtful* until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from eventlog.compression import compressed_body
from eventlog.errors import EventlogError
from eventlog.log.append_checks import LeaseChange, RequestResult, accept, commit_of, goes_in, may_replace_lease
from eventlog.log.commit import Append, Commit, Committed, Head, Ticket
from eventlog.log.postgres.rows import Known, new_revision, packed
from eventlog.log.ticket import QueuedTicket

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

AnyTicket: TypeAlias = QueuedTicket[Any, Any]
Outcome: TypeAlias = Committed | bool | BaseException | None
CHUNK = 1 << 20
"""Most bytes of a body in one row."""


def body_partition(digest: bytes, partitions: int) -> int:
    """Return the partition of a body, which belongs to no session."""
    return int.from_bytes(digest[:4], "big") % partitions


class Added(NamedTuple):
    """A commit to be written, and the digest of its request."""

    commit: Commit
    digest: bytes


class Change:
    """The change of one session: its head before and after, and its commits."""

    __slots__ = ("added", "after", "before", "number", "partition", "revision", "session")

    def __init__(self, session: str, partition: int, number: int, before: Known | None) -> None:
        self.session: str = session
        self.partition: int = partition
        self.number: int = number
        self.before: Known | None = before
        self.after: Head | None = None if before is None else before.head
        self.revision: int = new_revision()
        """The revision that its row gets."""
        self.added: list[int] = []
        """Places of its commits in the batch."""

    @property
    def seen(self) -> int:
        """The revision that its row must still have, 0 for none."""
        return 0 if self.before is None else self.before.revision


class Batch:
    """The requests of one statement, and what is decided so far (`rules.PriorCommits`)."""

    def __init__(
        self,
        tickets: Sequence[AnyTicket],
        known: Mapping[str, Known],
        *,
        requests: Mapping[tuple[str, str], RequestResult],
        fresh: Container[str],
        lease_may_be_set: Container[AnyTicket],
        partition_of: Callable[[str], int],
        salt: Callable[[], bytes],
    ) -> None:
        self.tickets = tickets
        self.outcomes: list[Outcome] = []
        self.changes: dict[str, Change] = {}
        self.added: list[Added] = []
        self.doubtful: set[str] = set()
        """Sessions that must be read before anything of them is decided."""
        self._known = known
        self._requests = requests
        self._here: dict[tuple[str, str], RequestResult] = {}
        self._fresh = fresh
        self._lease_may_be_set = lease_may_be_set
        self._partition_of = partition_of
        self._salt = salt
        self._bodies: dict[bytes, tuple[bytes, list[int]]] = {}
        for ticket in tickets:
            self.outcomes.append(self._decide(ticket))

    def _decide(self, ticket: AnyTicket) -> Outcome:
        request: Append | LeaseChange | None = ticket.request
        if request is None:
            return None  # it only waits for what was queued before it
        try:
            return self._append(request) if isinstance(request, Append) else self._lease(ticket, request)
        except EventlogError as error:
            if request.session not in self._fresh:
                self.doubtful.add(request.session)
            return error

    def _change(self, session: str) -> Change:
        change = self.changes.get(session)
        if change is None:
            change = Change(session, self._partition_of(session), len(self.changes), self._known.get(session))
        return change

    def _append(self, append: Append) -> Committed:
        session = append.session
        change = self._change(session)
        head = accept(self, append, change.after)
        if isinstance(head, Committed):
            return head
        commit, after = commit_of(head, append, 0, self._salt())
        place = len(self.added)
        self.added.append(Added(commit, append.digest))
        self.changes.setdefault(session, change)
        change.added.append(place)
        change.after = after
        position = -1 - place  # known once the statement is through
        if append.request is not None:
            self._here[session, append.request] = RequestResult(append.digest, commit.first, commit.last, position)
        for digest, body in append.bodies:
            self._bodies.setdefault(digest, (body, []))[1].append(change.number)
        return Committed(session, commit.first, commit.last, position)

    def _lease(self, ticket: AnyTicket, request: LeaseChange) -> bool:
        change = self._change(request.session)
        if ticket in self._lease_may_be_set and change.after is not None and change.after.lease == request.state:
            return True
        head = may_replace_lease(request.session, change.after, request.replaces)
        if head is None:
            if request.session not in self._fresh:
                self.doubtful.add(request.session)
            return False
        self.changes.setdefault(request.session, change)
        change.after = msgspec.structs.replace(head, lease=request.state)
        return True

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """See `rules.PriorCommits`."""
        return self._here.get((session, request)) or self._requests.get((session, request))

    def has(self, ticket: Ticket) -> bool:
        """See `rules.PriorCommits`."""
        return goes_in(ticket, self.tickets, self.outcomes)

    def parameters(self, partitions: int) -> dict[str, list[Any]]:
        """Return the parameters of `statements.APPEND`, and those of bodies if it has any."""
        heads = [(change, change.after) for change in self.changes.values() if change.after is not None]
        numbers = {change.session: change.number for change, _ in heads}
        commits = [added.commit for added in self.added]
        places = [self.changes[commit.session].partition for commit in commits]
        found: dict[str, list[Any]] = {
            "partitions": sorted({change.partition for change, _ in heads}),
            "n": [change.number for change, _ in heads],
            "partition": [change.partition for change, _ in heads],
            "session": [change.session.encode() for change, _ in heads],
            "seen": [change.seen for change, _ in heads],
            "revision": [change.revision for change, _ in heads],
            "version": [head.version for _, head in heads],
            "base": [head.base for _, head in heads],
            "created": [head.created for _, head in heads],
            "updated": [head.updated for _, head in heads],
            "messages": [head.messages for _, head in heads],
            "entry": [head.entry for _, head in heads],
            "lease_epoch": [head.lease.epoch for _, head in heads],
            "lease_owner": [head.lease.owner for _, head in heads],
            "lease_until": [head.lease.until for _, head in heads],
            "appends": [head.appends for _, head in heads],
            "peaks": [head.peaks for _, head in heads],
            "c_n": [numbers[commit.session] for commit in commits],
            "c_partition": places,
            "c_session": [commit.session.encode() for commit in commits],
            "c_last": [commit.last for commit in commits],
            "c_count": [commit.count for commit in commits],
            "c_epoch": [commit.epoch for commit in commits],
            "c_time": [commit.time for commit in commits],
            "c_request": [None if commit.request is None else commit.request.encode() for commit in commits],
            "c_digest": [added.digest for added in self.added],
            "c_salt": [commit.salt for commit in commits],
            "c_leaf": [commit.leaf for commit in commits],
            "c_payload": [packed(commit.payload) for commit in commits],
        }
        return found | self._body_parameters(partitions) if self._bodies else found

    def _body_parameters(self, partitions: int) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {
            name: []
            for name in (
                "o_body", "o_n", "b_i", "b_partition", "b_digest", "b_size", "b_data", "d_digest", "d_number", "d_data",
            )
        }  # fmt: skip
        for number, digest in enumerate(sorted(self._bodies)):  # in one order, so that no two statements wait in a ring
            body, owners = self._bodies[digest]
            data = compressed_body(body)
            found["o_body"] += [number] * len(owners)
            found["o_n"] += owners
            found["b_i"].append(number)
            found["b_partition"].append(body_partition(digest, partitions))
            found["b_digest"].append(digest)
            found["b_size"].append(len(data))
            found["b_data"].append(data[:CHUNK])
            for place in range(1, -(-len(data) // CHUNK)):
                found["d_digest"].append(digest)
                found["d_number"].append(place)
                found["d_data"].append(data[place * CHUNK : (place + 1) * CHUNK])
        return found
