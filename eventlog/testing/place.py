"""Where the stores of one test are: memory, a directory, or an address of PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eventlog.log.commit import Append
from eventlog.open_store import open_store
from eventlog.store import Store

PATIENCE = 10.0
"""Seconds after which work that should have gone on is taken for stuck."""


class Place:
    """A place on one engine; the stores that a test opens there are closed with it."""

    def __init__(self, engine: str, path: str) -> None:
        self.engine = engine
        self.path = path
        """A directory, or an address."""
        self._stores: list[Store] = []

    def open(self) -> Store:
        """Open a store; in memory it is always the same one."""
        if self.engine != "memory":
            keys: Any = True if self.engine == "encrypted" else None
            self._stores.append(open_store(self.path, keys=keys))
        elif not self._stores:
            self._stores.append(open_store("memory:"))
        return self._stores[-1]

    def close(self) -> None:
        """Close every store."""
        for store in self._stores:
            store.close()
        self._stores.clear()

    @property
    def is_shared(self) -> bool:
        """Whether other processes can open it."""
        return self.engine != "memory"

    @property
    def files(self) -> Path | None:
        """The directory of its files, None if it has none."""
        return Path(self.path) if self.engine in {"embedded", "encrypted"} else None


class Held:
    """Appends of a session that wait on their way to the log."""

    def __init__(self) -> None:
        self.entered: threading.Event = threading.Event()
        """Set when an append has come."""
        self.left: threading.Event = threading.Event()
        """Set when an append is stored or refused."""
        self.goes_on: threading.Event = threading.Event()
        """Set to let all go on; they do so by themselves when they have waited too long."""


@contextmanager
def holding(store: Store, session: str) -> Generator[Held]:
    """Hold appends of a session on their way while the block runs, or until `goes_on` is set."""
    held, log = Held(), store.log
    submit = log.submit

    def late(append: Append) -> Any:
        if append.session != session:
            return submit(append)
        held.entered.set()
        held.goes_on.wait(PATIENCE)
        ticket = submit(append)
        ticket.wait()
        held.left.set()
        return ticket

    log.submit = late  # type: ignore[method-assign]
    try:
        yield held
    finally:
        held.goes_on.set()
        log.submit = submit  # type: ignore[method-assign]
