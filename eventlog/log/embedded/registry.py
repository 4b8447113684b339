"""The partitions that this process has open, shared by all handles on a directory."""

from __future__ import annotations

import atexit
import os
from contextlib import suppress
from threading import RLock, Thread
from typing import TYPE_CHECKING

from msgspec import structs

from eventlog.errors import CallError, EventlogError, StorageError
from eventlog.log.embedded.directory import prepare
from eventlog.log.embedded.options import Options
from eventlog.log.embedded.partition import Partition
from eventlog.logger import kind_of, logger

if TYPE_CHECKING:
    from pathlib import Path

_Key = tuple[int, int]


_PATIENCE = 1.0
"""Seconds to wait for a reader, which may wait for a lock that the forking thread holds."""


class Fork:
    """A fork of a process that has a partition open, from before it to its end.

    Only the thread that forks may be in the middle of something itself.
    """

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        commits, tail = partition.commits, partition.tail
        self._inside = commits is not None and commits.hold_still()
        """Whether the forking thread is in the middle of a commit."""
        if self._inside:
            self._guarded = tail.guard.acquire(timeout=_PATIENCE)
            return
        while True:  # a rewriting takes the guard while it writes, and may end in another generation
            environment = tail.segments.environment
            environment.end_writing()
            self._guarded = tail.guard.acquire()
            environment.hold_still()
            if tail.segments.environment is environment:
                return
            environment.move_on()
            tail.guard.release()

    def move_on(self) -> None:
        """Go on after it, in the parent."""
        partition = self._partition
        if not self._inside:
            partition.tail.segments.environment.move_on()
        if self._guarded:
            partition.tail.guard.release()
        if partition.commits is not None:
            partition.commits.move_on()

    def disown(self) -> None:
        """Close what was inherited, in the child.

        Above all the files of the writers' lock: they would keep it locked after the parent's
        death. Where the child comes back into a commit, that has nothing any more to write to.
        """
        partition, tail = self._partition, self._partition.tail
        tail.closed = True
        if partition.commits is not None:
            partition.commits.disown()
        if not self._inside:
            tail.segments.environment.disown()
        tail.segments.release()
        if tail.mark is not None:
            tail.mark.close()
        tail.journal.close()
        partition.release_locks()


class Shared:
    """A partition, and how many handles use it."""

    __slots__ = ("handles", "key", "partition")

    def __init__(self, key: _Key, partition: Partition) -> None:
        self.key: _Key = key
        self.partition: Partition = partition
        self.handles: int = 0


class Registry:
    """The partitions this process has open, by the identity of their directory.

    One that can do nothing more, while handles on it are still held, makes way for a fresh one when
    its path is opened again; what was written through it stays, and those handles say why they are
    finished.
    """

    def __init__(self) -> None:
        self.lock: RLock = RLock()
        self.open: dict[_Key, Shared] = {}
        self._forks: list[Fork] = []

    def join(self, path: Path, options: Options) -> Shared:
        """Return the partition of a path for one more handle."""
        try:
            return self._join(path, options)
        except OSError as error:
            raise StorageError(f"{path} cannot be opened: {error.strerror or error}") from error

    def _join(self, path: Path, options: Options) -> Shared:
        with self.lock:
            prepare(path, options)
            status = path.stat()
            key = status.st_dev, status.st_ino
            shared = self.open.get(key)
            if shared is not None and (shared.partition.finished or not shared.partition.stands_at(path)):
                self._end(shared)  # LMDB must not be open twice in a process
                shared = None
            if shared is None:
                shared = self.open[key] = Shared(key, Partition(path, options))
            else:
                _check_joins(path, shared.partition.options, options)
            shared.handles += 1
            return shared

    def leave(self, shared: Shared) -> None:
        """Take a handle back; the last one closes the partition."""
        with self.lock:
            shared.handles -= 1
            if shared.handles:
                return
            self._end(shared)
        if shared.partition.failure is not None:
            raise shared.partition.failure

    def _end(self, shared: Shared) -> None:
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

    def leave_later(self, shared: Shared, pid: int) -> None:
        """Do `leave` for a handle that was collected, in a thread of its own."""
        if pid == os.getpid():
            with suppress(RuntimeError):  # the interpreter is exiting: `close_all` has done it
                Thread(target=self._leave_quietly, args=(shared,), name="eventlog-close", daemon=True).start()

    def _leave_quietly(self, shared: Shared) -> None:
        try:
            self.leave(shared)
        except EventlogError as error:  # no caller could be told
            logger().warning("a log that was forgotten was closed, and not folded: %s", kind_of(error))

    def before_fork(self) -> None:
        """Bring everything to a point at which a child may inherit it."""
        self.lock.acquire()
        self._forks = [Fork(shared.partition) for shared in self.open.values()]

    def after_fork_in_parent(self) -> None:
        """Go on."""
        for fork in self._forks:
            fork.move_on()
        self.lock.release()

    def after_fork_in_child(self) -> None:
        """Disown everything: nothing that is open is the child's."""
        for fork in self._forks:
            fork.disown()
        self.lock = RLock()
        self.open = {}

    def close_all(self) -> None:
        """Close what is open when the interpreter exits."""
        for partition in [shared.partition for shared in self.open.values()]:
            partition.close()
            if partition.failure is not None:
                logger().warning("a log was closed at exit, and not folded: %s", kind_of(partition.failure))


def _check_joins(path: Path, present: Options, wanted: Options) -> None:
    """Raise unless a new handle may share a partition that is open."""
    if wanted.read_only:
        return
    if present.read_only:
        raise CallError(
            f"{path} is open in this process for reading only: close that handle first, or open the one that writes first"
        )
    if wanted.lists_of is None:  # it asks for no lists, and those of the partition do it no harm
        wanted = structs.replace(wanted, lists_of=present.lists_of)
    if present != wanted:
        raise CallError(f"{path} is open in this process with other options: give the same, such as busy_timeout")


REGISTRY = Registry()
atexit.register(REGISTRY.close_all)
os.register_at_fork(
    before=REGISTRY.before_fork,
    after_in_parent=REGISTRY.after_fork_in_parent,
    after_in_child=REGISTRY.after_fork_in_child,
)
