"""The engine on a PostgreSQL server: a log that processes on many hosts use at once.

    schema.py          the tables
    connections.py     the pool, and how a statement is tried again
    group_commit.py    the queue, and the thread that commits it; batch.py and statements.py decide
    reader.py          heads, commits, requests; bodies.py, derived.py, session_lists.py the rest
    follower.py        waiting for commits of other processes

`PostgresLog` is a handle. It has connections and threads of its own, made when they are needed.
"""

from __future__ import annotations

from contextlib import contextmanager
from os import urandom
from typing import TYPE_CHECKING, Any

from psycopg import Error

from eventlog import os_fork
from eventlog.errors import (
    ClosedError,
    EventlogError,
    ForkedProcessError,
    ReadOnlyError,
)
from eventlog.log.append_checks import LeaseChange
from eventlog.log.check import check
from eventlog.log.commit import Append, Commit, Committed, Head, LeaseState, Ticket
from eventlog.log.contract import HeadReader, Log, Place
from eventlog.log.postgres import schema
from eventlog.log.postgres.acknowledged import Acknowledged
from eventlog.log.postgres.attempt import Target
from eventlog.log.postgres.bodies import Bodies
from eventlog.log.postgres.clock import ServerClock
from eventlog.log.postgres.connections import Connections, unhurried
from eventlog.log.postgres.derived import Derived
from eventlog.log.postgres.faults import typed
from eventlog.log.postgres.follower import Follower
from eventlog.log.postgres.group_commit import GroupCommit
from eventlog.log.postgres.once_read import OnceRead, RecalledHeads
from eventlog.log.postgres.options import Options
from eventlog.log.postgres.reader import Reader, Seen
from eventlog.log.postgres.rows import packed
from eventlog.log.postgres.session_lists import SessionLists
from eventlog.log.postgres.tables import SIZE, Tables
from eventlog.log.ticket import QueuedTicket
from eventlog.log.validation import size_of, size_of_lease, validate_derived_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from eventlog.log.append_checks import RequestResult

_TAKE_OUT = """
UPDATE eventlog_commits c SET payload = %b, salt = w.salt, leaf = w.leaf, digest = ''
FROM unnest(%b::int8[], %b::bytea[], %b::bytea[]) AS w(position, salt, leaf)
WHERE c.partition = %b AND c.last_position = w.position
"""


class PostgresLog(Log):
    """A handle on the log at an address; fulfils `contract.Log`.  Options: see `Options`."""

    def __init__(
        self, address: str, settings: schema.Settings, survives: Acknowledged, clock: ServerClock, options: Options
    ) -> None:
        self.address = address
        self.options = options
        self.settings = settings
        self.acknowledged = survives
        """The durability of an acknowledged commit here."""
        self._count = settings.partitions
        self._refusal: EventlogError | None = None
        self._once = OnceRead()
        self._clock = clock
        self._build()
        os_fork.register(self)

    def _build(self) -> None:
        """Make what reads and writes."""
        options, count, seen = self.options, self._count, Seen()
        self._connections = Connections(self.address, options)
        self._reader = Reader(self._connections, count, self.partition_of, self.settings, seen)
        self._bodies = Bodies(self._connections, count)
        self._derived = Derived(self._connections, count)
        self._lists = SessionLists(
            self._connections,
            options.lists_of,
            partitions=count,
            read_only=options.read_only,
        )
        self._follower = Follower(self._reader.positions, count, options.poll)
        target = Target(
            self._connections,
            self._reader,
            count,
            self.partition_of,
            options.busy_timeout,
            self._follower.note,
            self._clock,
        )
        self._commits = GroupCommit(target, options.queue_bytes)

    def __repr__(self) -> str:
        return f"<PostgresLog of {self._count} partitions>"  # the address may have a password

    def _use(self) -> None:
        refusal = self._refusal or self._reader.refusal
        if refusal is not None:
            raise refusal

    def _put(self, request: Any, size: int) -> QueuedTicket[Any, Any]:
        self._use()
        if self.options.read_only:
            raise ReadOnlyError("the store was opened for reading only")
        self._once.forget()
        ticket: QueuedTicket[Any, Any] = QueuedTicket(request, size, self._commits)
        self._commits.put(ticket)
        return ticket

    @property
    def partitions(self) -> int:
        """Number of partitions, which was chosen when the log was made."""
        return self._count

    @property
    def read_only(self) -> bool:
        """Whether writing is refused with `ReadOnlyError`."""
        return self.options.read_only

    @property
    def is_remote(self) -> bool:
        """Whether a read is a round trip to a server: yes."""
        return True

    @property
    def clock(self) -> Callable[[], int]:
        """The server's clock, in UTC nanoseconds."""
        return self._clock.nanoseconds

    @property
    def identity(self) -> bytes:
        """16 bytes that name the store and its edition."""
        self._use()
        return self._reader.identity

    @property
    def stopped(self) -> bool:
        """Whether nothing more is written through this handle."""
        return self._refusal is not None or self._reader.refusal is not None

    def submit(self, append: Append) -> Ticket:
        """Queue an append; see `contract.Log`."""
        return self._put(append, size_of(append))

    def read(self, session: str, after: int = 0, upto: int | None = None, *, reverse: bool = False) -> Iterator[Commit]:
        """The commits that hold versions `after + 1 .. upto`, as of now; see `contract.Log`."""
        self._use()
        return self._reader.read(session, after, upto, reverse=reverse)

    @contextmanager
    def reading(self) -> Generator[HeadReader]:
        """Yield a reader that reads each head once in a block; see `contract.Log`."""
        with self._once.block():
            yield RecalledHeads(self, self._once)

    def head(self, session: str) -> Head | None:
        """The session's head, or None if there is no such session."""
        self._use()
        known = self._reader.known_heads([session]).get(session)
        if known is not None and not self.options.read_only:
            self._commits.learn(known)
        head = None if known is None else known.head
        if self._once.heads is not None:
            self._once.heads[session] = head
        return head

    def heads(self, after: str = "") -> Iterator[Head]:
        """All heads by session id, from the first id greater than `after`."""
        self._use()
        return self._reader.heads(after)

    def newest(self, lists: Sequence[bytes], *, before: Place | None = None, limit: int) -> list[Head]:
        """Return heads of the sessions in the named lists, newest first; see `contract.Log`."""
        self._use()
        found = self._lists.newest(lists, before, limit)
        if self._once.heads is not None:
            self._once.heads.update((head.session, head) for head in found)
        return found

    def commits_after(self, after: int, limit: int = 1000, *, partition: int = 0) -> list[Commit]:
        """Return at most `limit` commits of a partition beyond position `after`, in their order."""
        self._use()
        return self._reader.commits_after(after, limit, partition)

    def commits_at(self, positions: Sequence[int]) -> list[Commit | None]:
        """Return the commit that has the position, of each partition; see `contract.Log`."""
        self._use()
        return self._reader.commits_at(positions)

    def last_positions(self) -> tuple[int, ...]:
        """Return the last position of each partition; see `contract.Log`."""
        self._use()
        return tuple(self._reader.positions())

    def wait_after(self, positions: Sequence[int], timeout: float) -> bool:
        """Block until an event is committed beyond a position; see `contract.Log`."""
        self._use()
        return self._follower.wait(positions, timeout)

    def request(self, session: str, request: str) -> Committed | None:
        """Return the result of a request id, or None if it is new."""
        seen = self.request_result(session, request)
        return None if seen is None else seen.repeat(session)

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """Return the result of a request id with the digest of what was asked for: for copies."""
        self._use()
        return self._reader.request_results([(session, request)]).get((session, request))

    def body(self, digest: bytes) -> bytes | None:
        """The packed bytes of a body, or None."""
        return self.bodies_of([digest])[0]

    def bodies_of(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """Return the packed bytes of some bodies in their order, None for each that is missing."""
        self._use()
        return self._bodies.get(digests)

    def bodies(self) -> Iterator[bytes]:
        """The hashes of all stored bodies."""
        self._use()
        return self._bodies.hashes()

    def set_lease(self, session: str, state: LeaseState, *, replaces: LeaseState) -> bool:
        """Write the lease record if it still equals `replaces`; returns when that is durable."""
        size = size_of_lease(session, state, replaces)
        written: bool = self._put(LeaseChange(session, state, replaces), size).wait()
        return written

    def get_derived(self, key: bytes) -> bytes | None:
        """Return a derived value, or None."""
        self._use()
        known = self._once.values
        if known is not None and key in known:
            return known.pop(key)
        return self._derived.get(key)

    def put_derived(self, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Store derived values; see `contract.Log`."""
        validate_derived_keys(items)
        self._use()
        if self.options.read_only:
            raise ReadOnlyError("the store was opened for reading only")
        self._once.forget()
        self._derived.put(items)

    def derived_keys(self, prefix: bytes) -> list[bytes]:
        """The keys of derived values that begin with `prefix`, in order.

        In a block of `reading` the value of the last one comes along: it is the newest checkpoint.
        """
        self._use()
        known = self._once.values
        if known is None:
            return self._derived.keys(prefix)
        keys, last = self._derived.keys_and_last(prefix)
        if last is not None:
            known[keys[-1]] = last
        return keys

    def scan_derived(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Derived values whose key begins with `prefix`, by key order."""
        self._use()
        return self._derived.scan(prefix)

    def sync(self) -> None:
        """Wait until everything submitted so far has its outcome."""
        self._use()
        if not self.options.read_only:
            self._put(None, 0).wait()

    def probe(self) -> list[str]:
        """Ask the server for the settings of the log; there are no files to look into."""
        self._use()
        self._reader.positions()
        return []

    def check(self) -> list[str]:
        """Read every commit and body; a line for each thing that is wrong."""
        self._use()
        return check(self)

    @contextmanager
    def held(self) -> Generator[Tables]:
        """Keep all other writers out, and write to the tables in one transaction.

        The store is another edition afterwards: cursors do not outlive it. A writer that waits for
        longer than its timeout gets `BusyError`.
        """
        self.sync()
        if self.options.read_only:
            raise ReadOnlyError("the store was opened for reading only")
        identity = urandom(16)
        with self._connections.pinned() as connection:
            try:
                with connection.transaction():
                    unhurried(connection)
                    tables = Tables(connection, self._count, self.partition_of)
                    yield tables
                    tables.set("identity", identity)
            except Error as error:
                raise typed(error) from error
        self._reader.identity = identity
        self._commits.forget()

    def take_out(self, session: str, commits: Sequence[Commit]) -> None:
        """Have a session's rows hold these emptied commits, in one transaction.

        Their requests lose their digests. Other writers, and cursors, go on.
        """
        partition = self.partition_of(session)
        rows = [
            [commit.last_position for commit in commits],
            [commit.salt for commit in commits],
            [commit.leaf for commit in commits],
        ]
        with self._connections.one() as connection:
            try:
                connection.execute(_TAKE_OUT, (packed(b""), *rows, partition), binary=True)
            except Error as error:
                raise typed(error) from error

    def bytes_stored(self) -> int:
        """Return the bytes of all tables and indexes on the server."""
        self._use()
        return int(self._connections.rows(SIZE)[0][0])

    def reclaim(self) -> None:
        """Have the server use the space of deleted rows again; the owner of the tables may."""
        with self._connections.one() as connection:
            for table in ("commits", "bodies", "chunks", "derived"):
                connection.execute(f"VACUUM eventlog_{table}".encode())

    def close(self) -> None:
        """Commit what is queued, and release the connections."""
        if self._refusal is not None:
            return
        closed = ClosedError("the store is closed")
        self._commits.close(closed)
        self._refusal = closed
        self._follower.end(closed)
        self._connections.close()

    def fork_off(self) -> None:
        """Refuse everything in a child process: threads and connections are the parent's."""
        if self._refusal is None:
            refusal = ForkedProcessError("the log was opened before os.fork(); open it again in this process")
            self._refusal = refusal
            self._commits.disown(refusal)
            self._follower.disown(refusal)
