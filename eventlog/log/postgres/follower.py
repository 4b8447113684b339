"""Waiting for commits of any process: one thread looks at the counters for all waiters.

It looks while there are waiters. The pause between two looks grows while nothing comes, and is
short again after a commit. Commits of this process wake the waiters at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from operator import gt
from threading import Condition

from eventlog.errors import EventlogError
from eventlog.log.worker import Worker
from eventlog.logger import kind_of, logger

_INTEREST = 2.0
"""Seconds after a wait in which the thread goes on to look: most readers wait again."""
_GROWTH = 1.5
_RECHECK = 1.0


class Follower:
    """The last positions of the partitions, as far as this process knows them."""

    def __init__(self, positions: Callable[[], list[int]], partitions: int, poll: tuple[float, float]) -> None:
        self._positions = positions
        self._shortest, self._longest = poll
        self._pause = self._shortest
        self._changed = Condition()
        self._known = [0] * partitions
        self._wanted_until = 0.0
        self._looks = False
        self._worker = Worker("eventlog-follow", self._look)
        self.refusal: EventlogError | None = None

    def note(self, positions: Iterable[tuple[int, int]]) -> None:
        """Note positions that partitions have reached, and wake those who wait for them."""
        with self._changed:
            changed = False
            for partition, position in positions:
                if position > self._known[partition]:
                    self._known[partition] = position
                    changed = True
            if changed:
                self._pause = self._shortest
                self._changed.notify_all()

    def end(self, refusal: EventlogError) -> None:
        """Wake all waiters with an error, and end the thread."""
        with self._changed:
            self.refusal = refusal
            self._changed.notify_all()
        self._worker.end(wait=True)

    def disown(self, refusal: EventlogError) -> None:
        """Refuse everything in a child process, which has no thread."""
        self._changed = Condition()
        self.refusal = refusal

    def wait(self, positions: Sequence[int], timeout: float) -> bool:
        """Block until a partition is beyond its position; return False after `timeout` seconds.

        Without a timeout it is answered from memory.
        """
        deadline = time.monotonic() + timeout
        while True:
            with self._changed:
                if self.refusal is not None:
                    raise self.refusal
                if any(map(gt, self._known, positions)):
                    return True
                now = time.monotonic()
                self._wanted_until = now + _INTEREST
                looks, self._looks = self._looks, True
            if not looks:
                self._worker.call()
            with self._changed:
                if now >= deadline:
                    return False
                if self.refusal is None and not any(map(gt, self._known, positions)):
                    self._changed.wait(min(deadline - now, _RECHECK))

    def _look(self) -> float | None:
        """Look once; return the pause until the next look, None if there is no waiter."""
        with self._changed:
            if self.refusal is not None or time.monotonic() > self._wanted_until:
                self._looks = False
                self._pause = self._shortest
                return None
        self._pause = min(self._pause * _GROWTH, self._longest)
        try:
            self.note(enumerate(self._positions()))
        except Exception as error:  # noqa: BLE001 - the thread would look again at once, for ever
            logger().warning("a follower looks again after a %s", kind_of(error))
            return self._longest
        return self._pause
