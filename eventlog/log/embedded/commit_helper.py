"""The thread that commits for those who must not do it themselves: event loops, and waits that may take only so long.

It starts when it is called for the first time, and ends with the log.  A daemon, because the interpreter waits for other threads
before the exit handler that closes the log.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CommitHelper"]


class CommitHelper:
    """Does `work` when it is called, and after an exception was thrown into it: that has no caller to be told to."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._bell = Lock()
        self._ended = False
        self._thread: Thread | None = None

    def call(self) -> bool:
        """Have the work done soon; False if no thread is to be had."""
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
        if self._bell.locked():
            with suppress(RuntimeError):  # another thread was quicker
                self._bell.release()

    def _run(self) -> None:
        while not self._ended:
            with suppress(BaseException):
                while not self._ended:
                    self._work()
                    self._bell.acquire()
        self._ring()  # for another one, which an interrupt left unknown
