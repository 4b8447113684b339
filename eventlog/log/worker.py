"""A background thread that works when it is called.

It starts when it is called for the first time. A daemon, because the interpreter waits for other
threads before the exit handler that closes the log.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock, RLock, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Worker:
    """Does `work` when it is called.

    `work` returns the seconds after which it is done again uncalled, or None. No caller could be
    told of an exception that is thrown into the thread, so the thread goes on after it.
    """

    def __init__(self, name: str, work: Callable[[], float | None]) -> None:
        self._name = name
        self._work = work
        self._starting = RLock()  # a signal handler may call in the middle of a call
        self._bell = Lock()
        self._ended = False
        self._thread: Thread | None = None

    def call(self) -> bool:
        """Have the work done soon; False if no thread is to be had."""
        self._ring()
        if self._thread is None or not self._thread.is_alive():
            with self._starting:
                if self._ended or (self._thread is not None and self._thread.is_alive()):
                    return True
                thread = Thread(target=self._run, name=self._name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return False
                self._thread = thread
        return True

    def end(self, *, wait: bool = False) -> None:
        """End after what is being done now, and wait for that if asked to."""
        with self._starting:
            self._ended = True
        self._ring()
        if wait and self._thread is not None:
            self._thread.join()

    def _ring(self) -> None:
        if self._bell.locked():
            with suppress(RuntimeError):  # another thread was quicker
                self._bell.release()

    def _run(self) -> None:
        while not self._ended:
            with suppress(BaseException):
                while not self._ended:
                    pause = self._work()
                    self._bell.acquire(timeout=-1 if pause is None else pause)
        self._ring()  # for another one, which an interrupt left unknown
