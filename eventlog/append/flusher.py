"""The background thread of a store: it commits accepted deltas and renews leases.

It is started when it is first needed and refers to its store only while it works, so that a
forgotten store can go; a store with accepted deltas is kept alive until those are committed.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from threading import RLock, Thread
from time import perf_counter_ns
from typing import TYPE_CHECKING

from eventlog.append.metrics import Metrics
from eventlog.bell import Bell
from eventlog.errors import StopError
from eventlog.logger import kind_of, logger

if TYPE_CHECKING:
    from eventlog.append.writer import SessionWriter

SOON = 0.1
"""Share of the interval after which a lazily taken lease is written."""
ROUNDS = 4
"""How often in one flush a session is tried that other writers were quicker in."""
_UNFLUSHED: set[object] = set()
"""Stores with accepted deltas: kept alive until those are committed."""


class Flusher:
    """The writers to be flushed every `interval` seconds, and the leases to be renewed."""

    def __init__(
        self, store: object, clock: Callable[[], int], metrics: Metrics, *, interval: float, lease_ttl: int
    ) -> None:
        self.interval = interval
        self.on_accepted: Callable[[str], None] | None = None
        """Called with the id of a session that has accepted something, once until it is flushed."""
        self.stopped: bool = False
        self._store = weakref.ref(store)
        self._clock = clock
        self._metrics = metrics
        self._lease_ttl = lease_ttl
        self._lock = RLock()
        self._dirty: dict[str, SessionWriter] = {}
        """Writers with accepted events; each stays until a tick finds all of them committed."""
        self._leased: dict[str, tuple[Callable[[int, int], bool], Callable[[], None]]] = {}
        """By session a function that renews its lease, if that is due, and one that gives it back.

        The former gets the time and how long a lease lasts, in milliseconds, and returns whether
        the lease is to be looked at again within the interval.
        """
        self._bell = Bell()
        self._armed = False
        """Whether a tick is on its way: a busy session need not wake the thread each turn."""
        self.soon: bool = False
        """Whether a lease waits to be written, so that other processes see it."""
        self._thread: Thread | None = None

    def wake(self, writer: SessionWriter) -> None:
        """Commit what a writer has accepted within the interval."""
        with self._lock:
            self._dirty[writer.session] = writer
            store = self._store()
            if store is not None and not self.stopped:
                _UNFLUSHED.add(store)
            self._start()
            if self._thread is None:
                writer.buffer.awake = False  # so that the next delta tries again
            armed, self._armed = self._armed, True
        if not armed:
            self._bell.ring()
        if self.on_accepted is not None:
            self.on_accepted(writer.session)

    def keep(
        self, session: str, renew: Callable[[int, int], bool], abandon: Callable[[], None], *, soon: bool = False
    ) -> None:
        """Renew a session's lease from now on.

        `soon`: it is not written yet, so what goes with it is flushed sooner.
        """
        with self._lock:
            first = not self._leased
            self._leased[session] = renew, abandon
            self._start()
            first, self.soon = first or (soon and not self.soon), self.soon or soon
        if first:
            self._bell.ring()

    def forget(self, session: str) -> None:
        """Renew a session's lease no more."""
        with self._lock:
            self._leased.pop(session, None)

    def leased(self) -> list[Callable[[], None]]:
        """Return what gives the leases back that are renewed."""
        with self._lock:
            return [abandon for _, abandon in self._leased.values()]

    def writers(self) -> list[SessionWriter]:
        """Return the writers that have something to be flushed."""
        with self._lock:
            return list(self._dirty.values())

    def fork_off(self) -> None:
        """Give up what the parent is to flush: this child process does not have the thread."""
        self._lock, self._bell = RLock(), Bell()
        self.stopped = True
        _UNFLUSHED.clear()

    def stop(self) -> None:
        """End the thread, after what it is doing now."""
        with self._lock:
            self.stopped = True
            store = self._store()
            if store is not None:
                _UNFLUSHED.discard(store)
        self._bell.ring()

    def tick(self) -> float | None:
        """Commit accepted deltas and renew leases; return the seconds until the next tick.

        None: the thread sleeps until it is woken.
        """
        with self._lock:
            dirty, leased = list(self._dirty.values()), list(self._leased.values())
            self._armed = self.soon = False
        self._metrics.flushes += bool(dirty)
        begun = perf_counter_ns()
        for writer in dirty:
            writer.buffer.awake = False  # before the look: what comes behind it wakes this thread again
        ahead = [writer for writer in dirty if writer.is_ahead]
        for _ in range(ROUNDS):
            submitted = [writer for writer in ahead if self._try(writer, writer.hand_over)]
            if submitted:
                self._try(submitted[0], submitted[0].log.sync)  # one commit for all of them
            for writer in submitted:
                self._try(writer, writer.catch_up)
            ahead = [writer for writer in submitted if writer.is_late]
            if not ahead:
                break
        self._metrics.flush_nanoseconds += perf_counter_ns() - begun if dirty else 0
        with self._lock:
            for writer in dirty:
                if not writer.is_ahead and not writer.buffer.awake:  # awake since: left to the next tick
                    self._dirty.pop(writer.session, None)
            store = self._store()
            if not self._dirty and store is not None:
                _UNFLUSHED.discard(store)
        now, rests = self._clock(), False
        for renew, _ in leased:
            try:
                rests = renew(now, self._lease_ttl) or rests
            except Exception as error:  # noqa: BLE001 - the thread goes on for all other sessions
                logger().warning("a lease was not renewed: %s", kind_of(error))
        if rests:
            return self.interval / 2
        if dirty:
            return self.interval
        return self._lease_ttl / 4000 if leased else None

    def _try(self, writer: SessionWriter, work: Callable[[], None]) -> bool:
        """Do some of a writer's work; False if it failed, to be tried again unless it is final."""
        try:
            work()
        except StopError:
            writer.buffer.hold()  # the next delta meets the error, and raises it to its caller
            with self._lock:
                self._dirty.pop(writer.session, None)
            return False
        except Exception as error:  # noqa: BLE001 - the thread goes on for all other sessions
            logger().warning("a flush failed: %s", kind_of(error))
            return False
        return True

    def _start(self) -> None:
        if self._thread is None and not self.stopped:
            thread = Thread(target=_run, args=(weakref.ref(self), self._bell), name="eventlog-flush", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # what is accepted is committed by commands; the next that is will try again
                logger().warning("the thread that flushes cannot be started: %s", kind_of(error))
                return
            self._thread = thread


def _run(flusher: weakref.ref[Flusher], bell: Bell) -> None:
    pause: float | None = None
    while True:
        woken = bell.wait(pause)
        living = flusher()
        if living is None or living.stopped:
            return
        if woken:
            interval, soon = living.interval, living.soon
            del living
            if soon or bell.wait(interval):
                time.sleep(interval * SOON)
            living = flusher()
            if living is None or living.stopped:
                return
        try:
            pause = living.tick()
        except Exception as error:  # noqa: BLE001 - what is accepted must be committed
            logger().warning("the thread that flushes goes on after a %s", kind_of(error))
            pause = living.interval
        del living
