"""The thread that folds and prepares journal files, off the writer's path.

It starts with the first call. No failure ends it: the journal has everything until it is folded, so
a failure is logged, stored, and tried again.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FoldWorker"]

RETRY_AFTER = 1.0
"""Seconds after which a failed fold is tried again, if no call comes before."""
logger = logging.getLogger("eventlog")


class FoldWorker:
    """Runs `fold_if_due` and `prepare` in the background."""

    def __init__(self, fold_if_due: Callable[[], None], prepare: Callable[[], None]) -> None:
        self._fold_if_due = fold_if_due
        self._prepare = prepare
        self._work = Event()
        self._start = Lock()
        self._thread: Thread | None = None
        self._stopping = False
        self.error: Exception | None = None
        """Why the last fold failed."""

    def call(self) -> None:
        """Wake the worker, starting its thread if there is none."""
        if self._thread is None:
            with self._start:
                if self._thread is None and not self._stopping:
                    thread = Thread(target=self._run, name="eventlog-fold", daemon=True)
                    try:
                        thread.start()
                    except RuntimeError as error:  # the next call tries again, and closing folds as well
                        self.error = error
                        return
                    self._thread = thread
        self._work.set()

    def stop(self) -> None:
        """End the thread after its current work."""
        with self._start:
            self._stopping = True
        self._work.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._work.wait(None if self.error is None else RETRY_AFTER)
            self._work.clear()
            if self._stopping:
                return
            try:
                self._fold_if_due()
                self.error = None
            except Exception as error:  # noqa: BLE001 - later folds must be tried after any failure
                if repr(error) != repr(self.error):  # logged once, not once a second
                    logger.warning("folding failed, and will be tried again: %r", error)
                self.error = error
            with suppress(Exception):  # no room: a small file is made when one is needed
                self._prepare()
