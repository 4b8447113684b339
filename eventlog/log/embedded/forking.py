"""One partition while its process forks: a child inherits nothing half done."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventlog.log.embedded.partition import Partition

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
