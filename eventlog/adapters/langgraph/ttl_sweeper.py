"""A thread that removes the items of a store whose time is over, again and again."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Event, Thread

from eventlog.errors import ClosedError, EventlogError
from eventlog.logger import logger

__all__ = ["TtlSweeper"]

MINUTES = 5.0
"""Minutes between two sweeps, where no setting says so."""


class TtlSweeper:
    """Sweeps until it is stopped, or the store is closed."""

    def __init__(self, sweep: Callable[[], object], minutes: float) -> None:
        self._sweep = sweep
        self._seconds = minutes * 60
        self._stopped = Event()
        self.ended: Future[None] = Future()
        """Done once no more is swept; cancelling it stops the thread."""
        Thread(target=self._run, name="eventlog-ttl", daemon=True).start()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds) and not self.ended.cancelled():
            try:
                self._sweep()
            except ClosedError:
                break
            except EventlogError as error:
                logger().warning("items whose time is over stay until the next sweep: %s", error)
        if not self.ended.done():
            self.ended.set_result(None)

    def stop(self, timeout: float | None) -> bool:
        """Let it end; return whether it has within `timeout` seconds."""
        self._stopped.set()
        try:
            self.ended.exception(timeout)
        except TimeoutError:
            return False
        return True
