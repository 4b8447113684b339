"""The threads that wait for new commits, of this process and of others.

Each has a lock in a list, which a commit of this process releases. One of them at a time waits for
the mark, which other processes move (`mark_watch.py`).
"""

from __future__ import annotations

import time
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from eventlog.log.embedded.mark_watch import MarkWatch

if TYPE_CHECKING:
    from eventlog.log.embedded.tail import Tail

_LONGEST_WAIT = 1.0
"""Seconds after which a thread looks at the mark, although nothing said that it moved."""
_SHORTEST_POLL = 1e-3
_LONGEST_POLL = 50e-3
_LONGER = 1.5
"""Pauses between looks where the system does not say that the mark moved."""


class Watchers:
    """The threads that wait for commits behind one tail."""

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self._waiting: list[Any] = []
        self._watch: MarkWatch | None = None
        """Tells that another process has moved the mark; one thread at a time waits for it."""
        self._watching = Lock()

    def wait_after(self, position: int, timeout: float) -> bool:
        """Block until an event beyond `position` is committed; False after `timeout` seconds."""
        tail = self._tail
        deadline = time.monotonic() + timeout
        pause = _SHORTEST_POLL
        while True:
            waiter = Lock()
            waiter.acquire()
            self._waiting.append(waiter)
            tail.require_open()
            tail.refresh()
            if tail.position > position:
                return True
            remaining = deadline - time.monotonic()
            if remaining > 0:
                if self._watching.acquire(blocking=False):
                    self._watch_mark(remaining, pause)
                    pause = min(pause * _LONGER, _LONGEST_POLL)
                else:
                    waiter.acquire(timeout=remaining)
            with suppress(ValueError):
                self._waiting.remove(waiter)
            if remaining <= 0:
                return False

    def _watch_mark(self, remaining: float, pause: float) -> None:
        """Wait until the mark may have moved; `_watching` is held, and is released."""
        tail = self._tail
        try:
            watch = self._watch
            if watch is not None:
                said = watch.wait(min(remaining, pause if watch.deaf else _LONGEST_WAIT))
                if not said and not watch.deaf and tail.is_behind():
                    watch.deaf = not watch.drain()
            elif tail.mark is None or tail.mark.short:  # nothing was written yet
                time.sleep(min(remaining, pause))
            elif not tail.closed:  # the caller looks again: it may have moved before it was watched
                self._watch = MarkWatch(tail.mark.path)
        finally:
            self._watching.release()
            if tail.closed:
                self.close()
            self.wake()  # another thread has to watch the mark now

    def wake(self) -> None:
        """Wake all threads that wait."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.release()
        watch = self._watch
        if watch is not None and self._watching.locked():
            watch.wake()

    def close(self) -> None:
        """Release the watch of a closed tail, unless a thread waits in it, which then does."""
        if self._watching.acquire(blocking=False):
            try:
                watch, self._watch = self._watch, None
                if watch is not None:
                    watch.close()
            finally:
                self._watching.release()
