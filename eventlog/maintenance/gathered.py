"""Erasures, gathered: one rewriting removes the bytes of all erased in some seconds.

Before something is erased, a file `erased-…` in the directory of the store says so; the rewriting
that removes the bytes removes the file. So if a program dies in between, the next one that opens
the store has them removed. Of an encrypted store the keys are destroyed at once.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, RLock, Timer
from typing import TYPE_CHECKING, cast

from eventlog.errors import EventlogError
from eventlog.logger import kind_of, logger

if TYPE_CHECKING:
    from eventlog.log.contract import Log
    from eventlog.log.embedded.engine import EmbeddedLog
    from eventlog.session.host import Host
    from eventlog.session.session import Sessions

DELAY = 15.0
"""Seconds in which erasures are gathered."""
_NAME = "erased-"


def waiting(log: Log) -> list[Path]:
    """Return the files that say that something was erased, and is not removed yet."""
    path = _directory(log)
    return [] if path is None else [path / name for name in os.listdir(path) if name.startswith(_NAME)]  # noqa: PTH208


def _directory(log: Log) -> Path | None:
    module = sys.modules.get("eventlog.log.embedded.engine")
    is_plain = module is not None and isinstance(log, module.EmbeddedLog)  # else the keys are destroyed
    return cast("EmbeddedLog", log).path if is_plain else None


@contextmanager
def erasing(store: Sessions) -> Generator[None]:
    """Erase something: noted before, its keys are destroyed behind it, and its bytes go soon."""
    path = _directory(store.log)
    if path is not None:
        from eventlog.log.embedded.filesystem import sync_directory
        from eventlog.maintenance.copy_commits import storage_errors

        with storage_errors(path):
            (path / f"{_NAME}{os.urandom(8).hex()}").touch(0o600)
            sync_directory(path)
    try:
        yield
    finally:
        store.log.forget_keys()
        if path is not None:
            store.host.gather()


class Gatherer:
    """The rewriting that a store owes for what it has erased."""

    def __init__(self, host: Host, vacuum: Callable[[], object]) -> None:
        """`vacuum` is the method of the store."""
        self._host = weakref.ref(host)
        self._vacuum = weakref.WeakMethod(vacuum)
        self._lock = Lock()
        self._rewriting = RLock()
        self._timer: Timer | None = None
        host.gather = self.begin
        if host.writable and waiting(host.log):  # a program died before it removed them
            self.begin()

    def begin(self) -> None:
        """Have the bytes of what is erased by then removed in some seconds."""
        with self._lock:
            if self._timer is None:
                self._timer = Timer(DELAY, self.end)
                self._timer.daemon = True
                self._timer.start()

    def remove(self) -> None:
        """Remove now what any program has erased, unless the store is read-only."""
        host = self._host()
        if host is not None and host.writable and waiting(host.log):
            self.begin()
            self.end()

    def end(self) -> None:
        """Remove them now, if that is due; the store closes, or its time has come."""
        with self._lock:
            timer, self._timer = self._timer, None
        host, vacuum = self._host(), self._vacuum()
        with self._rewriting:
            if timer is None or host is None or vacuum is None or host.closed:
                return
            timer.cancel()
            try:
                if waiting(host.log):
                    vacuum()
            except EventlogError as error:
                logger().warning("what was erased is not removed from the files yet: %s", kind_of(error))
