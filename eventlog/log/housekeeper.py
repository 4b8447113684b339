"""The thread that folds, and fills journal files ahead, so that the writer does not have to.

It starts when there is something to do for the first time.  What fails is tried again at the next call: the journal
has everything until it is folded.  Imported by `partition.py` only.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from eventlog.errors import EventlogError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Housekeeper"]


class Housekeeper:
    """Runs `fold_if_due` and `prepare` in the background."""

    def __init__(self, fold_if_due: Callable[[], None], prepare: Callable[[], None]) -> None:
        self._fold_if_due = fold_if_due
        self._prepare = prepare
        self._work = Event()
        self._start = Lock()
        self._thread: Thread | None = None
        self._stopping = False
        self.error: EventlogError | None = None
        """Why the last fold failed."""

    def call(self) -> None:
        """There is something to do."""
        if self._thread is None:
            with self._start:
                if self._thread is None and not self._stopping:
                    self._thread = Thread(target=self._run, name="eventlog-fold", daemon=True)
                    self._thread.start()
        self._work.set()

    def stop(self) -> None:
        """End after what is being done now."""
        with self._start:
            self._stopping = True
        self._work.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._work.wait()
            self._work.clear()
            if self._stopping:
                return
            try:
                self._fold_if_due()
                self.error = None
            except EventlogError as error:
                self.error = error
            with suppress(OSError):  # no room: a small file is made in its place when it is needed
                self._prepare()
