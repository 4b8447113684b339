"""The contract of a log: append, read, head, follow, lease, body, derived.  No engine lives here.

A log keeps *commits*: one commit is one append of one session, written whole or not at all.  It
does not look inside: a payload is the canonical bytes of the append's events (`codec/batch.py`), a body
is a packed large value (`codec/bodies.py`), a catalog entry is what a list of sessions shows.  Versions count a
session's events from 1 without gaps; positions count the events of the partition in commit order.

What every engine promises, and `tests/eventlog/log/test_contract.py` checks:

* `submit` checks, in this order, inside the commit: the request id (a known one with the same
  content digest gives the first result back, with other content `RequestReusedError`), the
  session's existence (`creates_at`), the lease (`FencedError`: its epoch, or what the append
  `replaces`), the expected version (`ConflictError`), then `check` with the commits others made since `seen`.  A request that fails
  is rejected alone; the others of its batch go in.
* Requests submitted by one thread are committed in the order of submission.
* What is submitted is committed when a caller waits: for its ticket or a later one, in `sync`, in `close`; or when more is queued than the
  queue may hold, by the one who submits then.  Until then nothing happens to it.  (The memory engine commits at once.)
* The caller who waits may be the one whose thread commits, the appends of others included.  A wait from inside a commit of the same
  thread (in a signal handler, a finalizer, a `check`) is `BusyError`, and its append withdrawn; `submit` only queues there.  A `KeyboardInterrupt`
  or its like leaves a wait as what it is: what was submitted is committed by the caller who waits next.
* A committed append is on disk and survives power loss (the memory engine: as long as the process).
* If the write itself fails, every request of the batch gets the error; after a failed sync the log
  is poisoned: it can be read, and written when it is opened again, also while the poisoned handle is held.  `ENOSPC` before the sync fails that batch only.
* A full queue blocks the producer (`BusyError` after the configured time), who commits what is in it if no other does; it never drops.
* A call that is wrong in itself (a type, a range, a length) is `CallError` before anything is queued.
* Every commit is a leaf of its session's hash tree (`merkle.py`), whose peaks are in the head.
* Reading never writes, and never returns part of a commit.  What cannot be an id is not there; what is there and
  cannot be read is an error (`DamagedError`, or `BusyError` where waiting helps), and no error is told only once.

`Undivided` is the part of `Log` in which an engine keeps all sessions alike; a log in front of another one, which encrypts, has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Protocol, Self

import msgspec

__all__ = ["Append", "BodyStore", "Commit", "Committed", "Head", "LeaseState", "Log", "Ticket", "Undivided"]

_HASH_BYTES = 32
"""As in `merkle.py`."""


class LeaseState(msgspec.Struct, frozen=True, gc=False):
    """Who may run a session.  `owner` is opaque to the log; `until` is UTC milliseconds, 0 = released."""

    epoch: int = 0
    owner: bytes = b""
    until: int = 0


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer asks for.  `payload` holds `count` events; the rest says under which conditions."""

    session: str
    payload: bytes
    count: int
    time: int
    """UTC milliseconds of the last event: the session's last activity."""
    messages: int = 0
    """How many messages this append adds, for the totals in `Head`."""
    entry: bytes | None = None
    """Replaces the session's catalog entry when given."""
    bodies: Sequence[tuple[bytes, bytes]] = ()
    """(32-byte hash, packed bytes) of large values the payload refers to; known hashes are skipped."""
    creates_at: int | None = None
    """Begin the session: its first version is `creates_at + 1` (a fork begins after its parent's)."""
    expected: int | None = None
    """Exact version the session must have, for optimistic concurrency."""
    seen: int | None = None
    """Version up to which the writer knew the session; see `check`."""
    check: Callable[[Sequence[Commit]], None] | None = None
    """Called inside the commit with what *others* committed after `seen` (commits of the writer's own
    epoch are left out if it has one); raises an `Exception` to reject this append.  It must not block or append."""
    epoch: int = 0
    """Lease epoch the writer holds, 0 for a command that needs no lease."""
    lease: LeaseState | None = None
    """The lease record to write in the same commit, of the writer's own `epoch`: taken if `replaces` is given, else kept or given
    back.  It is written with the append or not at all; a known request id writes neither."""
    replaces: LeaseState | None = None
    """The session's lease that `lease` takes the place of, one epoch before it; `FencedError` if it is another one by now."""
    request: str | None = None
    digest: bytes = b""
    """Digest of the request's content, compared when the request id is seen again."""


class Commit(msgspec.Struct, frozen=True, gc=False):
    """One committed append, as read back."""

    session: str
    first: int
    """Version of the first event."""
    count: int
    position: int
    """Position of the first event; the others follow without a gap."""
    epoch: int
    time: int
    payload: bytes
    request: str | None = None
    salt: bytes = b""
    """The random bytes that its leaf in the session's hash tree is hashed with (`merkle.py`); other ones if it was `emptied`."""
    leaf: bytes = b""
    """The first bytes of the hash of that leaf, as it was committed; all of them if the append was `emptied`."""
    stored: bytes = b""
    """What its leaf covers in place of the payload: an encrypted log keeps other bytes than it was given."""

    @property
    def emptied(self) -> bool:
        """Whether what was redacted or erased is gone from it: then its leaf cannot be hashed again, and was kept."""
        return len(self.leaf) == _HASH_BYTES

    @property
    def last(self) -> int:
        """Version of the last event."""
        return self.first + self.count - 1


class Committed(msgspec.Struct, frozen=True, gc=False):
    """The result of an append: versions `first..last`, `position` of the first event.

    `repeated` is true when the request id was known and nothing was written now.
    """

    session: str
    first: int
    last: int
    position: int
    repeated: bool = False


class Head(msgspec.Struct, frozen=True, gc=False):
    """The little that is known of a session without reading its events."""

    session: str
    version: int
    position: int
    """Position of the newest event."""
    base: int
    """Version before the session's own first event: 0, or the fork point."""
    created: int
    updated: int
    """UTC milliseconds of the first and of the newest append."""
    messages: int
    entry: bytes
    lease: LeaseState = LeaseState()
    appends: int = 0
    """How many appends the session holds: the size of its hash tree."""
    peaks: bytes = b""
    """The peaks of that tree (`merkle.py`)."""
    gone: bool = False
    """Whether nothing is left of the session but this head: it was erased, and its space given back."""


class Ticket(Protocol):
    """A submitted append.  Accepted when it exists; `wait()` returns when it is durable."""

    def done(self) -> bool:
        """Whether the outcome is known; asking does not bring it about."""
        ...

    def wait(self, timeout: float | None = None) -> Committed:
        """Block until the outcome is known; raises what the append raised.

        `UnknownOutcomeError` when `timeout` (seconds) runs out first.  A wait without one is the quicker one: it commits in this thread.
        """
        ...

    def __await__(self) -> Generator[Any, Any, Committed]:
        """The same for asyncio: `committed = await ticket`.  Cancelling it leaves the append alone."""
        ...


class BodyStore(Protocol):
    """The bodies and derived values of a log, or of one session: `Log.of`."""

    @property
    def read_only(self) -> bool:
        """Whether `submit`, leases and `put_derived` are refused with `ReadOnlyError`."""
        ...

    def name(self, digest: bytes) -> bytes:
        """What to call a body in keys of derived values: its hash, or 32 bytes that do not tell it."""
        ...

    def body(self, digest: bytes) -> bytes | None:
        """The packed bytes of a body, or None; how it is packed may have changed, never what it unpacks to."""
        ...

    def bodies_of(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """The same of each of some bodies, in their order: quicker than one by one."""
        ...

    def get_derived(self, key: bytes) -> bytes | None:
        """A derived value (checkpoint, token count): disposable, never a source of truth."""
        ...

    def put_derived(self, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write derived values (None deletes).  Atomic; not necessarily durable.  Keys: 1..200 bytes."""
        ...

    def derived_keys(self, prefix: bytes) -> list[bytes]:
        """The keys of derived values that begin with `prefix`, in order; no value is read, so one may turn out to be none."""
        ...

    def scan_derived(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Derived values by key order."""
        ...


class Log(BodyStore, Protocol):
    """One partition of events.  Every method may be called from any thread."""

    @property
    def engine(self) -> Log:
        """The log that keeps the files: this one, or the one that it stands before."""
        ...

    def of(self, session: str) -> BodyStore:
        """The same bodies and derived values as those of a session: an encrypted log keeps them under its family's key."""
        ...

    @property
    def stopped(self) -> bool:
        """Whether nothing more is written through this handle: it is closed, or a write failed."""
        ...

    def submit(self, append: Append) -> Ticket:
        """Queue an append; what is queued is committed when a caller waits.

        Outcomes come through the ticket.
        """
        ...

    def read(self, session: str, after: int = 0, upto: int | None = None, *, reverse: bool = False) -> Iterator[Commit]:
        """The commits that hold versions `after + 1 .. upto`, oldest first, or newest first.

        The outermost commits may hold versions beyond the range; the caller cuts them.  Only the
        session's own stream is read, not what a fork inherited.  The iterator is a snapshot: it may be held
        open without holding a transaction.  An unknown session has no commits.
        """
        ...

    def head(self, session: str) -> Head | None:
        """The session's head, or None if there is no such session."""
        ...

    def heads(self, after: str = "") -> Iterator[Head]:
        """All heads by session id, from the first id greater than `after`."""
        ...

    def commits_after(self, after: int, limit: int = 1000) -> list[Commit]:
        """Commits whose last position is greater than `after`, in position order, at most `limit`."""
        ...

    def last_position(self) -> int:
        """Position of the newest committed event of the partition, 0 if there is none."""
        ...

    def wait_after(self, position: int, timeout: float) -> bool:
        """Block until an event beyond `position` is committed, by anyone; False after `timeout` seconds."""
        ...

    def request(self, session: str, request: str) -> Committed | None:
        """What became of a request id."""
        ...

    def bodies(self) -> Iterator[bytes]:
        """The hashes of all stored bodies."""
        ...

    def set_lease(self, session: str, state: LeaseState, *, replaces: LeaseState) -> bool:
        """Write the lease record if it still equals `replaces`; True if it was written.  Durable."""
        ...

    def sync(self) -> None:
        """Wait until everything submitted so far has its outcome."""
        ...

    def probe(self) -> list[str]:
        """Whether the storage underneath can be read without harm, found out at no risk; a line for each fault."""
        ...

    def check(self) -> list[str]:
        """Read every commit and body; a line for each thing that is wrong."""
        ...

    def close(self) -> None:
        """Commit what is queued, fold, release everything.  Calling it twice is harmless.

        Raises, once, why the last fold failed: everything is released, and nothing that was committed is lost.
        """
        ...


class Undivided:
    """Every session has the same bodies and derived values, under the names that they are given."""

    @property
    def engine(self) -> Self:
        """This log keeps its own."""
        return self

    def of(self, session: str) -> Self:
        """What is one session's here is everybody's."""
        del session
        return self

    def name(self, digest: bytes) -> bytes:
        """A body is called by its hash."""
        return digest
