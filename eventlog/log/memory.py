"""The whole contract in memory: for tests, for trying things, and to read first.

Nothing survives the process.  One lock orders everything; an append has its outcome when `submit` returns.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from threading import Condition
from typing import TYPE_CHECKING

import msgspec

from eventlog import os_fork
from eventlog.errors import ClosedError, DamagedError
from eventlog.log.contract import Append, Commit, Committed, Head, LeaseState, Ticket, Undivided
from eventlog.log.merkle import SALT_BYTES
from eventlog.log.merkle_check import first_fault
from eventlog.log.rules import Seen, admit, commit_of, may_replace_lease
from eventlog.log.ticket import QueuedTicket
from eventlog.log.validation import size_of, size_of_lease, validate_derived_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["MemoryLog"]


class MemoryLog(Undivided):
    """A log that lives as long as the object."""

    read_only = False

    def __init__(self) -> None:
        self._changed = Condition()  # over an RLock: `check` may read
        self._closed = False
        self._commits: list[Commit] = []
        self._sessions: dict[str, list[Commit]] = {}
        self._heads: dict[str, Head] = {}
        self._requests: dict[tuple[str, str], Seen] = {}
        self._bodies: dict[bytes, bytes] = {}
        self._derived: dict[bytes, bytes] = {}
        self._position = 0
        self._entering: tuple[Append, Commit, Head] | None = None
        """What is appended, until it is in everywhere: an interrupt may come between."""
        os_fork.register(self)

    def fork_off(self) -> None:
        """This is a child process, which has what is here for itself."""
        self._changed = Condition()

    @property
    def stopped(self) -> bool:
        """Whether it is closed."""
        return self._closed

    def submit(self, append: Append) -> Ticket:
        """Append at once; the ticket that comes back is done."""
        size_of(append)
        ticket: QueuedTicket[Append, Committed] = QueuedTicket(append)
        with self._changed:
            self._usable()
            try:
                ticket.succeed(self._append(append))
            except Exception as error:  # noqa: BLE001 - whatever `check` raises is the outcome
                ticket.fail(error)
        return ticket

    def _append(self, append: Append) -> Committed:
        head = admit(self, append, self._heads.get(append.session))
        if isinstance(head, Committed):
            return head
        commit, grown = commit_of(head, append, self._position + 1, os.urandom(SALT_BYTES))
        self._entering = append, commit, grown  # from here on it is in
        self._enter()
        return Committed(append.session, commit.first, commit.last, commit.position)

    def _enter(self) -> None:
        """Put what is appended into each place, the head's last; once more if an interrupt came between."""
        if self._entering is None:
            return
        append, commit, head = self._entering
        session = append.session
        for commits in (self._commits, self._sessions.setdefault(session, [])):
            if not commits or commits[-1] is not commit:
                commits.append(commit)
        if append.request is not None:
            seen = Seen(append.digest, commit.first, commit.last, commit.position)
            self._requests[session, append.request] = seen
        for digest, packed in append.bodies:
            self._bodies.setdefault(digest, packed)
        self._position = commit.position + commit.count - 1
        self._heads[session] = head
        self._changed.notify_all()
        self._entering = None

    def read(self, session: str, after: int = 0, upto: int | None = None, *, reverse: bool = False) -> Iterator[Commit]:
        """The commits that hold versions `after + 1 .. upto`, as of now."""
        found = self._range(session, after, upto)
        return reversed(found) if reverse else iter(found)

    def commits_after(self, session: str, version: int) -> list[Commit]:
        """See `rules.Past`."""
        return self._range(session, version, None)

    def _range(self, session: str, after: int, upto: int | None) -> list[Commit]:
        with self._changed:
            self._usable()
            commits = self._sessions.get(session, [])
            start = bisect_right(commits, after, key=lambda commit: commit.last)
            if upto is None:
                return commits[start:]
            return commits[start : bisect_right(commits, upto, key=lambda commit: commit.first)] if after < upto else []

    def seen(self, session: str, request: str) -> Seen | None:
        """See `rules.Past`."""
        with self._changed:
            self._usable()
            return self._requests.get((session, request))

    def head(self, session: str) -> Head | None:
        """The session's head, or None if there is no such session."""
        with self._changed:
            self._usable()
            return self._heads.get(session)

    def heads(self, after: str = "") -> Iterator[Head]:
        """All heads by session id, as of now."""
        with self._changed:
            self._usable()
            return iter([self._heads[session] for session in sorted(self._heads) if session > after])

    def follow(self, after: int, limit: int = 1000) -> list[Commit]:
        """Commits whose last position is greater than `after`, in position order, at most `limit`."""
        with self._changed:
            self._usable()
            start = bisect_right(self._commits, after, key=lambda commit: commit.position + commit.count - 1)
            return self._commits[start : start + limit]

    def last_position(self) -> int:
        """Position of the newest event, 0 if there is none."""
        with self._changed:
            self._usable()
            return self._position

    def wait_beyond(self, position: int, timeout: float) -> bool:
        """Block until an event beyond `position` is committed; False after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                self._usable()
                if self._position > position:
                    return True
                if (left := deadline - time.monotonic()) <= 0:
                    return False
                self._changed.wait(left)

    def request(self, session: str, request: str) -> Committed | None:
        """What became of a request id."""
        seen = self.seen(session, request)
        return None if seen is None else seen.repeat(session)

    def body(self, digest: bytes) -> bytes | None:
        """The packed bytes of a body, or None."""
        with self._changed:
            self._usable()
            return self._bodies.get(digest)

    def several_bodies(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """The same of each of some bodies."""
        with self._changed:
            self._usable()
            return [self._bodies.get(digest) for digest in digests]

    def bodies(self) -> Iterator[bytes]:
        """The hashes of all stored bodies."""
        with self._changed:
            self._usable()
            return iter(list(self._bodies))

    def set_lease(self, session: str, state: LeaseState, *, replaces: LeaseState) -> bool:
        """Write the lease record if it still equals `replaces`."""
        size_of_lease(session, state, replaces)
        with self._changed:
            self._usable()
            head = may_replace_lease(session, self._heads.get(session), replaces)
            if head is None:
                return False
            self._heads[session] = msgspec.structs.replace(head, lease=state)
            return True

    def get_derived(self, key: bytes) -> bytes | None:
        """A derived value, or None."""
        with self._changed:
            self._usable()
            return self._derived.get(key)

    def put_derived(self, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write derived values; None deletes."""
        validate_derived_keys(items)
        with self._changed:
            self._usable()
            for key, value in items:
                if value is None:
                    self._derived.pop(key, None)
                else:
                    self._derived[key] = value

    def derived_keys(self, prefix: bytes) -> list[bytes]:
        """The keys of derived values that begin with `prefix`, in order."""
        with self._changed:
            self._usable()
            return sorted(key for key in self._derived if key.startswith(prefix))

    def scan_derived(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Derived values whose key begins with `prefix`, by key order."""
        with self._changed:
            self._usable()
            return sorted((key, value) for key, value in self._derived.items() if key.startswith(prefix))

    def sync(self) -> None:
        """Everything submitted has its outcome already."""
        with self._changed:
            self._usable()

    def probe(self) -> list[str]:
        """There is nothing underneath."""
        with self._changed:
            self._usable()
        return []

    def check(self) -> list[str]:
        """Versions and positions without gaps, and the hash trees; memory has nothing else that could be wrong."""
        wrong: list[str] = []
        with self._changed:
            self._usable()
            position = 1
            for commit in self._commits:
                if commit.position != position:
                    wrong.append(f"session {commit.session}: position {commit.position} where {position} belongs")
                position = commit.position + commit.count
            for session, commits in self._sessions.items():
                fault = first_fault(self._heads[session], commits)
                if fault is not None:
                    wrong.append(str(DamagedError(fault.problem, session=session, version=fault.version)))
        return wrong

    def close(self) -> None:
        """Forget everything; waiters wake up with `ClosedError`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _usable(self) -> None:
        if self._closed:
            raise ClosedError("the store is closed")
        self._enter()
