"""One thread for all subscriptions of a store: it reads which sessions have new commits.

A subscription registers a `Watch`, and sleeps until the follower rings it: after a commit to its
session by any process, or when this store has accepted something for it. So an idle subscription
costs nothing, however many others are busy. The thread ends soon after the last watch is gone;
watches that are dropped go by themselves.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from threading import RLock, Thread
from time import monotonic, sleep

from eventlog.errors import DataError, StopError
from eventlog.log.contract import Log
from eventlog.logger import kind_of, logger

BATCH = 256
"""Commits read at a time."""
LOOK = 1.0
"""Longest wait in seconds, after which the thread sees whether it is still needed."""


class Watch:
    """A subscription's bell.  `stirred` from the first ring on, until the owner clears it."""

    __slots__ = ("__weakref__", "_ring", "provisional", "stirred")

    def __init__(self, ring: Callable[[], None], *, provisional: bool) -> None:
        self._ring = ring
        self.provisional: bool = provisional
        """Whether it is rung for what is accepted, too."""
        self.stirred: bool = False
        """Whether there may be something new."""

    def ring(self) -> None:
        """Wake the owner, once until it has cleared `stirred`."""
        if not self.stirred:
            self.stirred = True
            self._ring()


class Follower:
    """The watches of a store, by session; those of None are rung for every commit."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lock = RLock()
        self._watches: dict[str | None, weakref.WeakSet[Watch]] = {}
        self._thread: Thread | None = None
        self._reached: list[int] = []
        """Positions that the thread has rung for."""

    @property
    def behind(self) -> int:
        """Committed events that the thread has not rung for; 0 without a subscription."""
        with self._lock:
            reached = self._reached if self._thread is not None else []
        ends = self._log.last_positions() if reached else ()
        return sum(max(0, end - position) for end, position in zip(ends, reached, strict=True))

    def add(self, watch: Watch, sessions: Iterable[str | None]) -> None:
        """Ring a watch from now on for commits to these sessions.

        What was committed before is not rung for: look once more.
        """
        with self._lock:
            for session in sessions:
                self._watches.setdefault(session, weakref.WeakSet()).add(watch)
            if self._thread is not None:
                return
        positions = list(self._log.last_positions())  # without the lock: a server may be long in answering
        with self._lock:
            if self._thread is None:
                thread = Thread(target=self._run, args=(positions,), name="eventlog-follow", daemon=True)
                thread.start()
                self._thread, self._reached = thread, positions

    def remove(self, watch: Watch) -> None:
        """Ring a watch no more."""
        with self._lock:
            for watches in self._watches.values():
                watches.discard(watch)

    def accepted(self, session: str) -> None:
        """Ring the watches that are rung for what this store has accepted."""
        if self._watches:
            for watch in self._of((session, None)):
                if watch.provisional:
                    watch.ring()

    def ring_all(self) -> None:
        """Ring every watch: the store is closed, or it cannot be read."""
        for watch in self._of(list(self._watches)):
            watch.ring()

    def fork_off(self) -> None:
        """Forget the parent's watches: this child process does not have the thread."""
        self._lock = RLock()  # another thread of the parent may have held the old one
        self._watches = {}

    def _of(self, sessions: Iterable[str | None]) -> list[Watch]:
        with self._lock:
            return [watch for name in sessions if (found := self._watches.get(name)) for watch in found]

    def _run(self, positions: list[int]) -> None:
        """Ring for commits until no watch is left."""
        log = self._log
        idle = monotonic()
        while True:
            try:
                if log.wait_after(positions, LOOK):
                    self._ring_for(log, positions)
            except StopError:
                with self._lock:
                    self._thread = None
                self.ring_all()  # each subscription tells its caller
                return
            except Exception as error:  # noqa: BLE001 - without the thread no watch would ever ring again
                logger().warning("a follower goes on after a %s", kind_of(error))
                self.ring_all()
                sleep(LOOK)
            now = monotonic()
            with self._lock:
                self._watches = {name: found for name, found in self._watches.items() if found}
                if self._watches:
                    idle = now
                elif now - idle > LOOK:
                    self._thread = None
                    return

    def _ring_for(self, log: Log, positions: list[int]) -> None:
        """Ring the watches of the sessions that were committed to, beyond these positions."""
        for partition, last in enumerate(log.last_positions()):
            position = positions[partition]
            if last < position:  # the log was restored, or lost its newest commits
                positions[partition] = last
                self.ring_all()
            if last <= position:  # a read costs more than to know that there is nothing
                continue
            try:
                self._ring_beyond(log, positions, partition)
            except DataError as error:  # told by each subscription that reads it; it must not hide what comes behind
                logger().warning("a follower passes over what it cannot read: %s", kind_of(error))
                positions[partition] = max(positions[partition], last)
                self.ring_all()

    def _ring_beyond(self, log: Log, positions: list[int], partition: int) -> None:
        """Ring for the commits of one partition beyond its position, and move that."""
        full = True
        while full:
            commits = log.engine.commits_after(positions[partition], BATCH, partition=partition)
            for watch in self._of({None, *(commit.session for commit in commits)} if commits else ()):
                watch.ring()
            if commits:
                positions[partition] = commits[-1].last_position
            full = len(commits) == BATCH
