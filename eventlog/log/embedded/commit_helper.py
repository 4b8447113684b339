"""The thread that commits for those who must not do it themselves.

These are event loops, and waits that may take only so long.
It starts when it is called for the first time, and ends with the log.  A daemon, because the interpreter waits for other threads
before the exit handler that closes the log.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

__all__ = ["RECHECK", "CommitHelper"]

RECHECK = 1.0
"""Seconds after which who waits looks by himself: an interrupt may come just before he is woken."""


class CommitHelper:
    """Does `work` when it is called; `queue` is what the work is about."""

    def __init__(self, work: Callable[[], None], queue: Sized) -> None:
        self._work = work
        self._queue = queue
        self._bell = Lock()
        self._bell.acquire()
        self._rung = False
        self._ended = False
        self._thread: Thread | None = None

    def call(self) -> bool:
        """Have the work done soon; False if no thread is to be had."""
        if not self._rung:
            self._rung = True
            self._ring()
        if self._thread is None or not self._thread.is_alive():
            thread = Thread(target=self._run, name="eventlog-commit", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True

    def end(self) -> None:
        """End after what is being done now."""
        self._ended = True
        self._ring()

    def _ring(self) -> None:
        with suppress(RuntimeError):  # it rings already
            self._bell.release()

    def _run(self) -> None:
        while not self._ended:
            try:
                self._bell.acquire(timeout=RECHECK if self._queue else -1)
                self._rung = False
                self._work()
            except BaseException:  # noqa: BLE001, S110 - what is thrown into this thread has no caller to be told to
                pass
        self._ring()  # for another one, which an interrupt left unknown
