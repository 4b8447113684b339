"""The whole contract of a log in memory: for tests, for experiments, and to read first.

Nothing survives the process.  One lock orders everything; an append has its outcome when `submit`
returns. It may have several partitions, as a server's log has: so it shows in tests that nothing
above the log assumes an order of all events.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from operator import attrgetter, gt
from threading import Condition
from typing import TYPE_CHECKING

import msgspec

from eventlog import os_fork
from eventlog.errors import CallError, ClosedError
from eventlog.log.append_checks import RequestResult, accept, commit_of, may_replace_lease, was_committed
from eventlog.log.check import check
from eventlog.log.commit import Append, Commit, Committed, Head, LeaseState, Ticket
from eventlog.log.contract import Log, Place, is_outgrown
from eventlog.log.lists import newest_of, require_lists
from eventlog.log.merkle import SALT_BYTES
from eventlog.log.ticket import QueuedTicket
from eventlog.log.validation import size_of, size_of_lease, validate_derived_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eventlog.log.lists import ListsOf

IDENTITY_BYTES = 16


class MemoryLog(Log):
    """A log that lives as long as the object."""

    def __init__(self, lists_of: ListsOf | None = None, *, partitions: int = 1) -> None:
        if type(partitions) is not int or partitions < 1:
            raise CallError(f"a log has one partition or more, not {partitions!r}")
        self._identity = os.urandom(IDENTITY_BYTES)
        self._lists_of = lists_of
        self._changed = Condition()  # over an RLock: a signal handler may read
        self._closed = False
        self._partitions: list[list[Commit]] = [[] for _ in range(partitions)]
        self._sessions: dict[str, list[Commit]] = {}
        self._heads: dict[str, Head] = {}
        self._requests: dict[tuple[str, str], RequestResult] = {}
        self._bodies: dict[bytes, bytes] = {}
        self._derived: dict[bytes, bytes] = {}
        self._positions = [0] * partitions
        self._entering: tuple[Append, Commit, Head] | None = None
        """The append being stored, until every index has it: an interrupt may come between."""
        os_fork.register(self)

    def fork_off(self) -> None:
        """Use a lock of its own in a child process, which has a copy of the log."""
        self._changed = Condition()

    @property
    def read_only(self) -> bool:
        return False

    @property
    def partitions(self) -> int:
        return len(self._partitions)

    @property
    def identity(self) -> bytes:
        return self._identity

    @property
    def stopped(self) -> bool:
        return self._closed

    def submit(self, append: Append) -> Ticket:
        size_of(append)
        ticket: QueuedTicket[Append, Committed] = QueuedTicket(append)
        with self._changed:
            self._usable()
            try:
                ticket.succeed(self._append(append))
            except Exception as error:  # noqa: BLE001 - any error is the outcome
                ticket.fail(error)
        return ticket

    def _append(self, append: Append) -> Committed:
        head = accept(self, append, self._heads.get(append.session))
        if isinstance(head, Committed):
            return head
        last = self._positions[self.partition_of(append.session)]
        commit, grown = commit_of(head, append, last + 1, os.urandom(SALT_BYTES))
        self._entering = append, commit, grown  # from here on it is committed
        self._enter()
        return Committed(append.session, commit.first, commit.last, commit.position)

    def _enter(self) -> None:
        """Store the append in each index, the head's last; again if an interrupt came between."""
        if self._entering is None:
            return
        append, commit, head = self._entering
        session = append.session
        partition = self.partition_of(session)
        for commits in (self._partitions[partition], self._sessions.setdefault(session, [])):
            if not commits or commits[-1] is not commit:
                commits.append(commit)
        if append.request is not None:
            result = RequestResult(append.digest, commit.first, commit.last, commit.position)
            self._requests[session, append.request] = result
        for digest, packed in append.bodies:
            self._bodies.setdefault(digest, packed)
        self._positions[partition] = commit.last_position
        self._heads[session] = head
        self._changed.notify_all()
        self._entering = None

    def read(self, session: str, after: int = 0, upto: int | None = None, *, reverse: bool = False) -> Iterator[Commit]:
        commits = self._range(session, after, upto)
        return reversed(commits) if reverse else iter(commits)

    def has(self, ticket: Ticket) -> bool:
        """Return whether the append of a ticket was committed; see `rules.PriorCommits`."""
        return was_committed(ticket)

    def _range(self, session: str, after: int, upto: int | None) -> list[Commit]:
        with self._changed:
            self._usable()
            commits = self._sessions.get(session, [])
            start = bisect_right(commits, after, key=attrgetter("last"))
            if upto is None:
                return commits[start:]
            return commits[start : bisect_right(commits, upto, key=attrgetter("first"))] if after < upto else []

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """Return the result of a request id; see `rules.PriorCommits`."""
        with self._changed:
            self._usable()
            return self._requests.get((session, request))

    def head(self, session: str) -> Head | None:
        with self._changed:
            self._usable()
            return self._heads.get(session)

    def heads(self, after: str = "") -> Iterator[Head]:
        with self._changed:
            self._usable()
            return iter([self._heads[session] for session in sorted(self._heads) if session > after])

    def newest(self, lists: Sequence[bytes], *, before: Place | None = None, limit: int) -> list[Head]:
        lists_of = require_lists(self._lists_of)
        with self._changed:
            self._usable()
            return newest_of(self._heads.values(), lists_of, lists, before, limit, partitions=self.partitions)

    def commits_after(self, after: int, limit: int = 1000, *, partition: int = 0) -> list[Commit]:
        with self._changed:
            self._usable()
            commits = self._partitions[partition]
            start = bisect_right(commits, after, key=attrgetter("last_position"))
            return commits[start : start + limit]

    def last_positions(self) -> tuple[int, ...]:
        with self._changed:
            self._usable()
            return tuple(self._positions)

    def wait_after(self, positions: Sequence[int], timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                self._usable()
                if any(map(gt, self._positions, positions)):
                    return True
                if (remaining := deadline - time.monotonic()) <= 0:
                    return False
                self._changed.wait(remaining)

    def request(self, session: str, request: str) -> Committed | None:
        result = self.request_result(session, request)
        return None if result is None else result.repeat(session)

    def body(self, digest: bytes) -> bytes | None:
        with self._changed:
            self._usable()
            return self._bodies.get(digest)

    def bodies_of(self, digests: Sequence[bytes]) -> list[bytes | None]:
        with self._changed:
            self._usable()
            return [self._bodies.get(digest) for digest in digests]

    def bodies(self) -> Iterator[bytes]:
        with self._changed:
            self._usable()
            return iter(list(self._bodies))

    def set_lease(self, session: str, state: LeaseState, *, replaces: LeaseState) -> bool:
        size_of_lease(session, state, replaces)
        with self._changed:
            self._usable()
            head = may_replace_lease(session, self._heads.get(session), replaces)
            if head is None:
                return False
            self._heads[session] = msgspec.structs.replace(head, lease=state)
            return True

    def get_derived(self, key: bytes) -> bytes | None:
        with self._changed:
            self._usable()
            return self._derived.get(key)

    def put_derived(self, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        validate_derived_keys(items)
        with self._changed:
            self._usable()
            for key, value in items:
                if value is None:
                    self._derived.pop(key, None)
                elif not is_outgrown(key, value, self._derived.get(key)):
                    self._derived[key] = value

    def derived_keys(self, prefix: bytes) -> list[bytes]:
        with self._changed:
            self._usable()
            return sorted(key for key in self._derived if key.startswith(prefix))

    def scan_derived(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        with self._changed:
            self._usable()
            return sorted((key, value) for key, value in self._derived.items() if key.startswith(prefix))

    def sync(self) -> None:
        """Return at once: everything submitted has its outcome."""
        with self._changed:
            self._usable()

    def probe(self) -> list[str]:
        """Return no fault: there are no files."""
        with self._changed:
            self._usable()
        return []

    def check(self) -> list[str]:
        with self._changed:  # no append comes between what is compared
            return check(self)

    def close(self) -> None:
        """Drop everything; waiting callers get `ClosedError`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _usable(self) -> None:
        if self._closed:
            raise ClosedError("the store is closed")
        self._enter()
