"""The embedded engine: a directory that any number of threads and processes use at the same time.

    format      text: what this directory is, and with what it was made (`directory.py`)
    turn, lock  the writers' lock (`locks.py`)
    open        a lock that everyone holds who has the store open
    mark        how far the journal is durable (`watermark.py`)
    journal/    the append-only files (`journal/journal.py`, `journal/frames.py`)
    lmdb/       what is folded (`segments/segments.py`)

`EmbeddedLog` is a handle.  All handles of a process on the same directory share one `Partition`; the last one to be
closed closes it.  A handle that is forgotten is closed when it is collected, and all are when the interpreter exits.
"""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from contextlib import suppress
from pathlib import Path
from threading import RLock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from eventlog.errors import (
    BusyError,
    CallError,
    ClosedError,
    EventlogError,
    ForkedProcessError,
    ReadOnlyError,
    StorageError,
)
from eventlog.log.contract import Append, Commit, Committed, Head, LeaseState, Ticket, Undivided
from eventlog.log.embedded.batch import LeaseChange
from eventlog.log.embedded.directory import prepare
from eventlog.log.embedded.locks import Presence
from eventlog.log.embedded.options import Options
from eventlog.log.embedded.partition import Partition
from eventlog.log.embedded.salvage.probe import probe
from eventlog.log.ticket import QueuedTicket
from eventlog.log.validation import size_of, size_of_lease, validate_derived_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from eventlog.log.rules import Seen

__all__ = ["EmbeddedLog", "open_log"]

_Key = tuple[int, int]
R = TypeVar("R")
logger = logging.getLogger("eventlog")


class _Shared:
    """A partition, and how many handles use it."""

    __slots__ = ("handles", "key", "partition")

    def __init__(self, key: _Key, partition: Partition) -> None:
        self.key = key
        self.partition = partition
        self.handles = 0


class _Registry:
    """The partitions this process has open, by the identity of their directory.

    One that can do nothing more, while handles on it are still held, makes way for a fresh one when its path is opened again;
    what was written through it stays, and those handles say why they are finished.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.open: dict[_Key, _Shared] = {}

    def join(self, path: Path, options: Options) -> _Shared:
        """Give a handle a partition."""
        try:
            return self._join(path, options)
        except OSError as error:
            raise StorageError(f"{path} cannot be opened: {error.strerror or error}") from error

    def _join(self, path: Path, options: Options) -> _Shared:
        with self.lock:
            prepare(path, options)
            status = path.stat()
            key = status.st_dev, status.st_ino
            shared = self.open.get(key)
            if shared is not None and (shared.partition.finished or not shared.partition.stands_at(path)):
                self._end(shared)  # LMDB must not be open twice in a process
                shared = None
            if shared is None:
                shared = self.open[key] = _Shared(key, Partition(path, options))
            else:
                _check_joins(path, shared.partition.options, options)
            shared.handles += 1
            return shared

    def leave(self, shared: _Shared) -> None:
        """Take a handle back; the last one closes the partition."""
        with self.lock:
            shared.handles -= 1
            if shared.handles:
                return
            self._end(shared)
        if shared.partition.failure is not None:
            raise shared.partition.failure

    def _end(self, shared: _Shared) -> None:
        """Close a partition, and let its path be opened afresh.

        Where an interrupt breaks that off, the next to open the path goes on with it.
        """
        try:
            try:
                shared.partition.close()
            except BaseException:  # an interrupt: each step may be repeated
                shared.partition.close()
                raise
        finally:
            if shared.partition.closed and self.open.get(shared.key) is shared:
                del self.open[shared.key]

    def exclusively(self, shared: _Shared, job: Callable[[Path, Options], R]) -> R:
        """Close a partition, do something to its directory unseen, and open it again.

        `BusyError` if another handle or another process has it open.
        """
        with self.lock:
            partition = shared.partition
            if partition.finished:
                raise partition.tail.why_closed()
            if shared.handles > 1:
                raise BusyError(f"{partition.path} is open more than once in this process")
            path, options = partition.path, partition.options
            partition.close()
            try:
                if partition.failure is not None:
                    raise partition.failure
                presence = Presence(path, read_only=False)
                try:
                    if not presence.alone:
                        raise BusyError(f"another process has {path} open")
                    result = job(path, options)
                finally:
                    presence.close()
            finally:  # should it not open again, it stays closed
                shared.partition = Partition(path, options)
            return result

    def leave_later(self, shared: _Shared, pid: int) -> None:
        """`leave` for a handle that was collected: not in the thread that happened to collect it."""
        if pid == os.getpid():
            with suppress(RuntimeError):  # the interpreter is exiting: `close_all` has done it
                Thread(target=self._leave_quietly, args=(shared,), name="eventlog-close", daemon=True).start()

    def _leave_quietly(self, shared: _Shared) -> None:
        try:
            self.leave(shared)
        except EventlogError as error:  # no caller could be told
            logger.warning("a log that was forgotten was closed: %s", error)

    def before_fork(self) -> None:
        """Bring everything to a point at which a child may inherit it."""
        self.lock.acquire()
        for shared in self.open.values():
            shared.partition.hold_still()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        for shared in self.open.values():
            shared.partition.move_on()
        self.lock.release()

    def after_fork_in_child(self) -> None:
        """Nothing that is open is the child's."""
        for shared in self.open.values():
            shared.partition.disown()
        self.lock = RLock()
        self.open = {}

    def close_all(self) -> None:
        """Close what is open when the interpreter exits."""
        for partition in [shared.partition for shared in self.open.values()]:
            partition.close()
            if partition.failure is not None:
                logger.warning("a log was closed at exit: %s", partition.failure)


def _check_joins(path: Path, present: Options, wanted: Options) -> None:
    """Whether a new handle may share a partition that is open; one that only reads has no use for the options."""
    if wanted.read_only:
        return
    if present.read_only:
        raise CallError(
            f"{path} is open in this process for reading only: close that handle first, or open the one that writes first"
        )
    if present != wanted:
        raise CallError(f"{path} is open in this process with other options")


_registry = _Registry()
atexit.register(_registry.close_all)
os.register_at_fork(
    before=_registry.before_fork,
    after_in_parent=_registry.after_fork_in_parent,
    after_in_child=_registry.after_fork_in_child,
)


class EmbeddedLog(Undivided):
    """A handle on a store directory; fulfils `contract.Log`.  Options: see `Options`."""

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        try:
            chosen = structs.replace(_DEFAULTS, **options)
        except TypeError as error:
            raise CallError(str(error)) from None
        self._pid = os.getpid()
        self._closed = self._rewriting = False
        self._read_only = chosen.read_only
        self._shared = _registry.join(Path(path).absolute(), chosen)  # the working directory may become another one
        self._partition = self._shared.partition
        self._leave = weakref.finalize(self, _registry.leave_later, self._shared, self._pid)
        self._leave.atexit = False

    def _use(self) -> Partition:
        """The partition, if this handle may still be used."""
        if self._closed:
            raise BusyError("the store is being rewritten") if self._rewriting else ClosedError("the store is closed")
        if self._pid != os.getpid():
            raise ForkedProcessError("the log was opened before os.fork(); open it again in this process")
        return self._partition

    def _fresh(self) -> Partition:
        """The partition, up to date with what others have committed."""
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
        if self._closed or self._pid != os.getpid() or partition.tail.is_behind():
            partition = self._fresh()
        return partition.lookup.head_of(session)

    def heads(self, after: str = "") -> Iterator[Head]:
        """All heads by session id, from the first id greater than `after`."""
        return self._fresh().lookup.heads(after)

    def follow(self, after: int, limit: int = 1000) -> list[Commit]:
        """Commits whose last position is greater than `after`, in position order, at most `limit`."""
        partition = self._fresh()
        return partition.lookup.follow(after, limit) if after < partition.tail.position and limit > 0 else []

    def last_position(self) -> int:
        """Position of the newest committed event, 0 if there is none."""
        return self._fresh().tail.position

    def wait_beyond(self, position: int, timeout: float) -> bool:
        """Block until an event beyond `position` is committed, by any process; False after `timeout` seconds."""
        return self._use().tail.wait_beyond(position, timeout)

    def request(self, session: str, request: str) -> Committed | None:
        """What became of a request id."""
        seen = self.seen(session, request)
        return None if seen is None else seen.repeat(session)

    def seen(self, session: str, request: str) -> Seen | None:
        """The same, with the digest of what was asked for: for copies."""
        return self._fresh().lookup.seen(session, request)

    def body(self, digest: bytes) -> bytes | None:
        """The packed bytes of a body, or None."""
        return self._fresh().lookup.body(digest)

    def several_bodies(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """The same of each of some bodies, in their order."""
        return self._fresh().lookup.several_bodies(digests)

    def bodies(self) -> Iterator[bytes]:
        """The hashes of all stored bodies."""
        return self._fresh().lookup.bodies()

    def set_lease(self, session: str, state: LeaseState, *, replaces: LeaseState) -> bool:
        """Write the lease record if it still equals `replaces`; returns when that is durable."""
        size = size_of_lease(session, state, replaces)
        written: bool = self._put(LeaseChange(session, state, replaces), size).wait()
        return written

    def get_derived(self, key: bytes) -> bytes | None:
        """A derived value, or None."""
        return self._use().derived.get(key)

    def put_derived(self, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Keep derived values; they are on disk after the next fold, and lost if the process dies before."""
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
        """Have a child process walk the pages of LMDB, which would take this one with it."""
        return probe(self._use().path / "lmdb")

    def check(self) -> list[str]:
        """Read every commit and body; a line for each thing that is wrong."""
        return self._fresh().check()

    @property
    def path(self) -> Path:
        """The directory."""
        return self._partition.path

    @property
    def options(self) -> Options:
        """How it was opened."""
        return self._partition.options

    def exclusively(self, job: Callable[[Path, Options], R]) -> R:
        """Do something to the directory while no other has it open, not even this handle.

        Callers get `BusyError` meanwhile.
        `BusyError` if anybody else has it open.
        """
        self._use()
        if self._read_only:
            raise ReadOnlyError("the store was opened for reading only")
        self._may_end()
        self._closed = self._rewriting = True
        try:
            return _registry.exclusively(self._shared, job)
        finally:
            self._partition = self._shared.partition
            self._closed = self._rewriting = False

    def close(self) -> None:
        """Give the handle back; the last one of a directory commits, folds and releases everything.

        Raises why the last fold failed, if it did: all that was committed is in the journal, and is folded when the
        store is opened again.
        """
        if not self._rewriting:
            self._may_end()
            self._closed = True
            if self._leave.detach() is not None and self._pid == os.getpid():
                _registry.leave(self._shared)

    def _may_end(self) -> None:
        if self._partition.commits_here:
            raise BusyError("called inside a commit of the same thread: close the store when that is over")


_DEFAULTS = Options()


def open_log(path: str | os.PathLike[str], **options: Any) -> EmbeddedLog:
    """Open a store directory, or make one; options as in `Options`."""
    return EmbeddedLog(path, **options)
