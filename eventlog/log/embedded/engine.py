"""The embedded engine: a directory that many threads and processes use at once.

    format      text: what this directory is, and with what it was made (`directory.py`)
    turn, lock  the writers' lock (`locks.py`)
    open        a lock that every process holds while it has the store open
    mark        how far the journal is durable (`watermark.py`)
    journal/    the append-only files (`journal/journal.py`, `journal/frames.py`)
    lmdb/       what is folded (`segments/segments.py`)
    derived/    what layers above make of it, such as a search index; may be deleted

`EmbeddedLog` is a handle. All handles of a process on the same directory share one `Partition`; the
last one to be closed closes it. A handle that is forgotten is closed when it is collected, and all
are when the interpreter exits.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from eventlog.errors import (
    BusyError,
    CallError,
    ClosedError,
    ForkedProcessError,
    ReadOnlyError,
)
from eventlog.log.append_checks import LeaseChange
from eventlog.log.commit import Append, Commit, Committed, Head, LeaseState, Ticket
from eventlog.log.contract import BodyPlace, Log, Place
from eventlog.log.embedded.generations import DERIVED
from eventlog.log.embedded.options import Options
from eventlog.log.embedded.registry import REGISTRY
from eventlog.log.embedded.segments.pages import page_faults
from eventlog.log.ticket import QueuedTicket
from eventlog.log.validation import size_of, size_of_lease, validate_derived_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eventlog.log.append_checks import RequestResult
    from eventlog.log.embedded.partition import Partition


class EmbeddedLog(Log):
    """A handle on a store directory; fulfils `contract.Log`.  Options: see `Options`."""

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        try:
            chosen = structs.replace(_DEFAULTS, **options)
        except TypeError as error:
            raise CallError(str(error)) from None
        self._pid = os.getpid()
        self._closed = False
        self._read_only = chosen.read_only
        self._shared = REGISTRY.join(Path(path).absolute(), chosen)  # the working directory may become another one
        self._partition = self._shared.partition
        self._leave = weakref.finalize(self, REGISTRY.leave_later, self._shared, self._pid)
        self._leave.atexit = False

    def _use(self) -> Partition:
        """Return the partition, if this handle may still be used."""
        if self._closed:
            raise ClosedError("the store is closed")
        if self._pid != os.getpid():
            raise ForkedProcessError("the log was opened before os.fork(); open it again in this process")
        return self._partition

    def _fresh(self) -> Partition:
        """Return the partition, up to date with what others have committed."""
        partition = self._partition
        if self._closed or self._pid != os.getpid():
            self._use()  # which says why not
        if partition.tail.is_behind():
            partition.tail.refresh()
        return partition

    def _put(self, request: object, size: int) -> QueuedTicket[Any, Any]:
        commits = self._use().commits
        if commits is None or self._read_only:
            raise ReadOnlyError("the store was opened for reading only")
        ticket: QueuedTicket[Any, Any] = QueuedTicket(request, size, commits)
        commits.put(ticket)
        return ticket

    @property
    def read_only(self) -> bool:
        """Whether writing is refused with `ReadOnlyError`."""
        return self._read_only

    @property
    def identity(self) -> bytes:
        """16 bytes that name the store."""
        return self._use().identity

    @property
    def stopped(self) -> bool:
        """Whether nothing more is written through this handle; see `contract.Log`."""
        return self._closed or self._partition.finished

    def submit(self, append: Append) -> Ticket:
        """Queue an append; see `contract.Log`."""
        size = size_of(append)
        commits = self._partition.commits
        if commits is None or self._closed or self._read_only or self._pid != os.getpid():
            return self._put(append, size)  # which says why not
        ticket: QueuedTicket[Append, Committed] = QueuedTicket(append, size, commits)
        commits.put(ticket)
        return ticket

    def read(self, session: str, after: int = 0, upto: int | None = None, *, reverse: bool = False) -> Iterator[Commit]:
        """The commits that hold versions `after + 1 .. upto`, as of now; see `contract.Log`."""
        return self._fresh().lookup.read(session, after, upto, reverse=reverse)

    def head(self, session: str) -> Head | None:
        """The session's head, or None if there is no such session."""
        partition = self._partition
        tail = partition.tail
        mark = tail.mark
        if (
            self._closed
            or self._pid != os.getpid()
            or (mark is not None and (mark.short or mark.words[:16] != mark.last))
        ):
            partition = self._fresh()
        for part in reversed(tail.memtable.parts):  # as in `head_of`: the newest heads are in memory
            if (head := part.heads.get(session)) is not None:
                return head
        return partition.lookup.head_of(session)

    def heads(self, after: str = "") -> Iterator[Head]:
        """All heads by session id, from the first id greater than `after`."""
        return self._fresh().lookup.heads(after)

    def newest(self, lists: Sequence[bytes], *, before: Place | None = None, limit: int) -> list[Head]:
        """Return heads of the sessions in the named lists, newest first; see `contract.Log`."""
        return self._fresh().newest(lists, before, limit)

    def commits_after(self, after: int, limit: int = 1000, *, partition: int = 0) -> list[Commit]:
        """Return at most `limit` commits beyond position `after`, in their order."""
        del partition  # there is one
        fresh = self._fresh()
        return fresh.lookup.commits_after(after, limit) if after < fresh.tail.position and limit > 0 else []

    def last_position(self) -> int:
        """Return the position of the newest committed event, 0 if there is none."""
        return self._fresh().tail.position

    def last_positions(self) -> tuple[int, ...]:
        """Return the last position of the one partition; see `contract.Log`."""
        return (self._fresh().tail.position,)

    def wait_after(self, positions: Sequence[int], timeout: float) -> bool:
        """Block until an event is committed beyond the position; False after `timeout` seconds."""
        return self._use().watchers.wait_after(positions[0], timeout)

    def request(self, session: str, request: str) -> Committed | None:
        """Return the result of a request id, or None if it is new."""
        seen = self.request_result(session, request)
        return None if seen is None else seen.repeat(session)

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """Return the result of a request id with the digest of what was asked for: for copies."""
        return self._fresh().lookup.request_result(session, request)

    def body(self, digest: bytes) -> bytes | None:
        """The packed bytes of a body, or None."""
        return self._fresh().lookup.body(digest)

    def bodies_of(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """Return the packed bytes of some bodies in their order, None for each that is missing."""
        return self._fresh().lookup.bodies_of(digests)

    def places_of(self, digests: Sequence[bytes]) -> tuple[bytes, list[BodyPlace | None]]:
        """Return where the folded ones of some bodies lie; a rewriting moves them."""
        segments = self._fresh().lookup.segments
        return segments.edition, segments.places_of(digests)

    def bodies_at(self, edition: bytes, places: Sequence[BodyPlace]) -> list[bytes] | None:
        """Return the packed bytes of bodies at these places; None if they must be looked up."""
        segments = self._use().lookup.segments
        return segments.bodies_at(places) if segments.edition == edition else None

    def bodies(self) -> Iterator[bytes]:
        """The hashes of all stored bodies."""
        return self._fresh().lookup.bodies()

    def set_lease(self, session: str, state: LeaseState, *, replaces: LeaseState) -> bool:
        """Write the lease record if it still equals `replaces`; returns when that is durable."""
        size = size_of_lease(session, state, replaces)
        written: bool = self._put(LeaseChange(session, state, replaces), size).wait()
        return written

    def get_derived(self, key: bytes) -> bytes | None:
        """Return a derived value, or None."""
        return self._use().derived.get(key)

    def put_derived(self, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Store derived values: on disk after the next fold, lost if the process dies before."""
        validate_derived_keys(items)
        partition = self._use()
        if self._read_only:
            raise ReadOnlyError("the store was opened for reading only")
        partition.derived.put(dict(items))
        partition.fold_derived_if_many()

    def derived_keys(self, prefix: bytes) -> list[bytes]:
        """The keys of derived values that begin with `prefix`, in order."""
        return self._use().derived.keys(prefix)

    def scan_derived(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Derived values whose key begins with `prefix`, by key order."""
        return self._use().derived.scan(prefix)

    def sync(self) -> None:
        """Wait until everything submitted so far has its outcome."""
        self._use()
        if not self._read_only:
            self._put(None, 0).wait()

    def probe(self) -> list[str]:
        """Verify the pages of LMDB without LMDB, and then the rows."""
        partition = self._use()
        segments = partition.lookup.segments  # held, so that its files stay
        with segments.environment.reading():  # no page of this moment is used again meanwhile
            faults = page_faults(partition.path / str(segments.generation.number) / "lmdb")
        return faults or segments.damaged_rows()

    def check(self) -> list[str]:
        """Read every commit and body; a line for each thing that is wrong."""
        return self._fresh().check()

    @property
    def path(self) -> Path:
        """The directory."""
        return self._partition.path

    @property
    def derived_directory(self) -> Path | None:
        """Where layers above may keep files that are made from the log; see `contract.Log`."""
        return self._fresh().files / DERIVED

    @property
    def options(self) -> Options:
        """How it was opened."""
        return self._partition.options

    @property
    def partition(self) -> Partition:
        """The partition, for a rewriting."""
        if self._read_only:
            raise ReadOnlyError("the store was opened for reading only")
        self._may_end()
        partition = self._fresh()
        if partition.finished:
            raise partition.tail.why_closed()
        return partition

    def close(self) -> None:
        """Give the handle back; the last one of a directory commits, folds and closes it.

        Raises why the last fold failed, if it did: all that was committed is in the journal, and is
        folded when the store is opened again.
        """
        self._may_end()
        self._closed = True
        if self._leave.detach() is not None and self._pid == os.getpid():
            REGISTRY.leave(self._shared)

    def _may_end(self) -> None:
        if self._partition.commits_here:
            raise BusyError("called inside a commit of the same thread: close the store when that is over")


_DEFAULTS = Options()


def open_log(path: str | os.PathLike[str], **options: Any) -> EmbeddedLog:
    """Open a store directory, or make one; options as in `Options`."""
    return EmbeddedLog(path, **options)
