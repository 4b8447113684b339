"""The contract of a log: appends, reads, heads, leases, bodies and derived values.

A log stores *commits*.  A commit is one append of one session, written whole or not at all.  The
log does not look inside: a payload is the canonical bytes of the append's events
(`codec/batch.py`), a body is a packed large text (`codec/large_texts.py`), a catalog entry is what
a list of sessions shows. Versions count a session's events from 1 without gaps.  A log has one
*partition* or more, and a session's id says in which it is; positions grow in the commit order of a
partition. The commits of two partitions have no order, and nothing above the log assumes one.

Every engine promises this, and `tests/eventlog/log/test_contract.py` checks it:

* An append is accepted or rejected inside the commit.  The log compares, in this order: the request
  id (a repeated one with the same content digest returns the first result, with other content it is
  `RequestReusedError`), the session's existence (`creates_at`), the lease (`FencedError`: its
  epoch, or the lease that the append `replaces`), and the expected version (`ConflictError`; also
  where the append it is `behind` was not committed).  A rejected append is rejected alone; the
  others of its batch are committed.  Nothing else is decided inside the commit: a writer that was
  too late reads on, decides anew and submits again.
* Appends to one partition that one thread submits are committed in the order of submission.
* A queued append is committed when a caller waits: for its ticket or a later one, in `sync`, in
  `close`, or in `submit` when the queue is full.  Nothing happens to it before.  (The memory engine
  commits at once.)
* The waiting caller's thread may be the one that commits, the appends of other callers included.  A
  wait from inside a commit of the same thread (a signal handler, a finalizer) is `BusyError`, and
  its append is withdrawn; `submit` only queues there.  A `KeyboardInterrupt`
  leaves a wait unchanged, and the next waiting caller commits what is queued.
* A committed append is on disk and survives power loss.  (The memory engine: as long as the
  process.)
* If the write fails, every append of the batch gets the error.  After a failed sync the log is
  poisoned: it can be read, and it can be written again once it is reopened, also while the poisoned
  handle is still open.  `ENOSPC` before the sync fails that batch only.
* A full queue blocks the caller (`BusyError` after the configured time).  It never drops an append.
* An argument of a wrong type, range or length is `CallError` before anything is queued.
* Every commit is a leaf of its session's hash tree (`merkle.py`), whose peaks are in the head.
* Reading changes no commit and never returns part of one.  (It may write what is disposable: an
  index of `newest`.)  A text that cannot be an id is not
  found. A stored value that cannot be read is an error (`DamagedError`, or `BusyError` where
  waiting helps), and the error is raised again on every try.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import time_ns
from typing import TYPE_CHECKING, Protocol, TypeAlias
from zlib import crc32

from eventlog.log.commit import Append, Commit, Committed, Head, LeaseState, Ticket

if TYPE_CHECKING:
    from pathlib import Path

GROWING = b"growing\0"
"""First bytes of the keys of derived values that only grow: see `BodyStore.put_derived`."""
STAMP_BYTES = 8
"""Bytes of the stamp that such a value begins with."""

Place: TypeAlias = tuple[int, int]
"""A session's place in a list: time of its activity, number of its newest append."""
BodyPlace: TypeAlias = tuple[int, int, int, int]
"""A body's place: slot and offset of its block, and its first byte and size there."""


def is_outgrown(key: bytes, value: bytes | None, stored: bytes | None) -> bool:
    """Return whether a derived value must not replace a stored one of a greater stamp."""
    return (
        key.startswith(GROWING)
        and value is not None
        and stored is not None
        and value[:STAMP_BYTES] < stored[:STAMP_BYTES]
    )


def partition_of(session: str, partitions: int) -> int:
    """Return the partition of a session in a log of so many: a hash of its id."""
    return crc32(session.encode(errors="surrogatepass")) % partitions if partitions > 1 else 0


def place_of(head: Head, partitions: int = 1) -> Place:
    """Return the place of a session in the lists of a log of so many partitions."""
    return head.updated, head.position * partitions + partition_of(head.session, partitions)


class HeadReader(Protocol):
    """A source of session heads, such as a log."""

    def head(self, session: str) -> Head | None:
        """Return the session's head; see `Log`."""
        ...


class BodyStore(ABC):
    """Bodies and derived values of a log, or of one session (`Log.of`)."""

    @property
    @abstractmethod
    def read_only(self) -> bool:
        """Whether `submit`, leases and `put_derived` raise `ReadOnlyError`."""

    @abstractmethod
    def name(self, digest: bytes) -> bytes:
        """Return the name of a body in keys of derived values: its hash, or a keyed hash of it."""

    @abstractmethod
    def body(self, digest: bytes) -> bytes | None:
        """Return the packed bytes of a body, or None.

        The packing may differ from that of the append; the unpacked bytes do not.
        """

    def bodies_of(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """Return `body` of each digest, in order; quicker than one call each in most engines."""
        return [self.body(digest) for digest in digests]

    def places_of(self, digests: Sequence[bytes]) -> tuple[bytes, list[BodyPlace | None]]:
        """Return where bodies lie, None for one that may move, and the edition in which they do."""
        return b"", [None] * len(digests)

    def bodies_at(self, edition: bytes, places: Sequence[BodyPlace]) -> list[bytes] | None:
        """Return the packed bytes at places of `places_of`; None if they must be looked up."""
        del edition, places
        return None

    @abstractmethod
    def get_derived(self, key: bytes) -> bytes | None:
        """Return a derived value (checkpoint, token count), or None.

        Derived values are disposable, never a source of truth.
        """

    @abstractmethod
    def put_derived(self, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write derived values (None deletes), with keys of 1 to 200 bytes.

        Atomic; not necessarily durable. A value whose key begins with `GROWING` begins with a stamp
        of 8 bytes, and never replaces one with a greater stamp: so the processes that bring such
        values up to date need not agree on an order.
        """

    @abstractmethod
    def derived_keys(self, prefix: bytes) -> list[bytes]:
        """Return the keys of derived values that begin with `prefix`, in order.

        No value is read, so `get_derived` may return None for one of them.
        """

    @abstractmethod
    def scan_derived(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return the derived values whose key begins with `prefix`, in key order."""


class Log(BodyStore):
    """Events in one partition or more.  Every method may be called from any thread.

    The methods with a body say what holds for a log that stores all sessions alike. A log in front
    of another one, which encrypts, overrides them.
    """

    @property
    def engine(self) -> Log:
        """The log that stores the files: this one, or the one behind it."""
        return self

    def of(self, session: str) -> BodyStore:
        """Return the bodies and derived values of a session, under its family's key.

        Without encryption they are those of the log.
        """
        del session
        return self

    @property
    def derived_directory(self) -> Path | None:
        """Directory, made by its user, of files that are made from the log and may be deleted.

        A rewriting of the store removes it. None: there is none, or it must hold nothing in clear.
        """
        return None

    def name(self, digest: bytes) -> bytes:
        """Return the name of a body in keys of derived values: its hash, or a keyed hash of it."""
        return digest

    @property
    def clock(self) -> Callable[[], int]:
        """The clock that all who use the log go by, in UTC nanoseconds: leases end by it.

        This machine's, or that of a server that hosts with other clocks share.
        """
        return time_ns

    def reading(self) -> AbstractContextManager[HeadReader]:
        """Yield a reader that reads each head once in a block, with the blocks inside of it.

        It is for readers of one moment on a server; `head` always reads. A block and the reader are
        of one thread.
        """
        return nullcontext(self)

    @property
    def is_remote(self) -> bool:
        """Whether a read is a round trip to a server.

        What a guard decides in the end is then decided on what was read last.
        """
        return False

    def require_keys(self) -> None:
        """Raise `KeyMissingError` if the log is encrypted and was opened without keys."""

    def forget_keys(self) -> None:
        """Destroy the keys of the families whose sessions are all erased."""

    def scope_name(self, scope: str) -> str:
        """Return the name of a scope in stored catalog entries: itself, or a keyed hash of it.

        `KeyMissingError` if the log is encrypted and was opened without keys.
        """
        return scope

    def stored_changes(
        self, changes: Mapping[str, Callable[[Commit], Commit]]
    ) -> Mapping[str, Callable[[Commit], Commit]]:
        """Turn changes of commits as appended, by session, into changes of commits as stored."""
        return changes

    @property
    def partitions(self) -> int:
        """Number of partitions, which never changes."""
        return 1

    def partition_of(self, session: str) -> int:
        """Return the partition of a session, from 0: a hash of its id, equal in every process."""
        return partition_of(session, self.partitions)

    def place_of(self, head: Head) -> Place:
        """Return the place of a session in its lists; no two sessions have the same."""
        return place_of(head, self.partitions)

    @property
    @abstractmethod
    def identity(self) -> bytes:
        """16 bytes that name the store and its edition: others once it was rewritten."""

    @property
    @abstractmethod
    def stopped(self) -> bool:
        """Whether this handle writes nothing more: it is closed, or a write failed."""

    @abstractmethod
    def submit(self, append: Append) -> Ticket:
        """Queue an append; it is committed when a caller waits.

        The outcome comes through the ticket.
        """

    @abstractmethod
    def read(self, session: str, after: int = 0, upto: int | None = None, *, reverse: bool = False) -> Iterator[Commit]:
        """Return the commits that hold versions `after + 1 .. upto`, oldest or newest first.

        The outermost commits may hold versions beyond the range; the caller cuts them. Only the
        session's own stream is read, not what a fork inherited. The iterator is a snapshot: holding
        it open holds no transaction. An unknown session has no commits.
        """

    @abstractmethod
    def head(self, session: str) -> Head | None:
        """Return the session's head, or None if there is no such session."""

    @abstractmethod
    def heads(self, after: str = "") -> Iterator[Head]:
        """Return all heads by session id, from the first id greater than `after`."""

    @abstractmethod
    def newest(self, lists: Sequence[bytes], *, before: Place | None = None, limit: int) -> list[Head]:
        """Return heads of the sessions in any of the named lists, newest activity first.

        At most `limit`, of places less than `before` (`place_of`). The order is (`updated`,
        position, partition), so no two are alike. The function `lists_of` with which the log was
        opened says in which lists a session is; `CallError` if there is none.
        """

    @abstractmethod
    def commits_after(self, after: int, limit: int = 1000, *, partition: int = 0) -> list[Commit]:
        """Return at most `limit` commits of a partition, in order, that reach beyond `after`."""

    def commits_at(self, positions: Sequence[int]) -> list[Commit | None]:
        """Return the commit that has the position, of each partition in order; None for none."""
        found = [
            next(iter(self.commits_after(position - 1, 1, partition=partition)), None) if position > 0 else None
            for partition, position in enumerate(positions)
        ]
        return [
            None if commit is None or commit.position > position else commit
            for commit, position in zip(found, positions, strict=True)
        ]

    @abstractmethod
    def last_positions(self) -> tuple[int, ...]:
        """Return the position of each partition's newest committed event, 0 where there is none."""

    @abstractmethod
    def wait_after(self, positions: Sequence[int], timeout: float) -> bool:
        """Block until any writer commits an event after the position of its partition.

        Returns False after `timeout` seconds.
        """

    @abstractmethod
    def request(self, session: str, request: str) -> Committed | None:
        """Return the result of a request id, or None if the session never used it."""

    @abstractmethod
    def bodies(self) -> Iterator[bytes]:
        """Return the hashes of all stored bodies."""

    @abstractmethod
    def set_lease(self, session: str, state: LeaseState, *, replaces: LeaseState) -> bool:
        """Write the lease if the stored one equals `replaces`; return whether it was.  Durable."""

    @abstractmethod
    def sync(self) -> None:
        """Wait until everything submitted so far has its outcome."""

    @abstractmethod
    def probe(self) -> list[str]:
        """Find out without risk whether the files can be read; return a line for each fault."""

    @abstractmethod
    def check(self) -> list[str]:
        """Read every commit and body; return a line for each fault."""

    @abstractmethod
    def close(self) -> None:
        """Commit what is queued, fold, release everything.  A second call does nothing.

        Raises the error of a failed last fold, once: everything is released, and no commit is lost.
        """
