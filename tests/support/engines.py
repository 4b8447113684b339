"""The engines every session test runs on, and how a test opens stores on one of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.history.session_lists import lists_of
from eventlog.log.memory import MemoryLog
from eventlog.open_store import open_store
from eventlog.store import Store
from tests.support.postgres_server import give_back, new_place

ENGINES = ("memory", "partitioned", "embedded", "postgres")
"""Of them `partitioned` is in memory, and `postgres` on a server, both in four partitions."""
ENCRYPTED = "encrypted"
"""The embedded engine with keys: for tests of what encryption might change."""

POSTGRES = "postgres"
ON_SERVER = frozenset(
    [
        "test_accepted_events",
        "test_asked_calls",
        "test_asking",
        "test_asking_machine",
        "test_aio",
        "test_async_subscription",
        "test_everything_machine",
        "test_ids_and_requests",
        "test_lists_by_cost",
        "test_names",
        "test_pipeline",
        "test_request_races",
        "test_session",
        "test_session_page",
        "test_shelves",
        "test_state_machine",
        "test_store",
        "test_streaming",
        "test_subscription",
        "test_take_over",
        "test_task_lease",
        "test_turn",
        "test_turn_races",
        "test_values",
    ]
)
"""Test modules that run on `postgres` each time; with `EVERDELTA_SLOW=1` all do."""

_IN_MEMORY = {"memory": 1, "partitioned": 4}
"""Partitions of the engines that have no files."""


class LastingLog(MemoryLog):
    """A memory log that outlives the stores on it, as a directory does."""

    def close(self) -> None:
        """Close the handle only, not the log."""


class Engine:
    """One place for stores."""

    def __init__(self, name: str, directory: Path | None = None) -> None:
        self.name = name
        self._address = new_place() if name == POSTGRES else None
        needs_files = name not in _IN_MEMORY and self._address is None
        self._temporary = tempfile.TemporaryDirectory() if directory is None and needs_files else None
        self.path = Path(self._temporary.name if self._temporary else directory or "") / "store"
        self._log = LastingLog(lists_of, partitions=_IN_MEMORY.get(name, 1))
        self._stores: list[Store] = []

    @property
    def place(self) -> str | Path:
        """The directory, or the address on a server."""
        return self._address or self.path

    def open(self, **options: Any) -> Store:
        """Open a store; options as in `open_store`, without `read_only`."""
        if self.name == ENCRYPTED:
            options["keys"] = True
        store = Store(self._log, **options) if self.name in _IN_MEMORY else open_store(self.place, **options)
        self._stores.append(store)
        return store

    def close_stores(self) -> None:
        """Close every open store, and keep what they stored."""
        for store in self._stores:
            store.close()

    def close(self) -> None:
        """Close every open store and log of the test, and remove the directory."""
        self.close_stores()
        if self._address is not None:
            give_back(self._address)
        if self._temporary is not None:
            self._temporary.cleanup()


def places(*names: str) -> Any:
    """Return a fixture: places for stores on each of these engines."""

    @pytest.fixture(params=names)
    def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
        place = Engine(str(request.param), tmp_path)
        yield place
        place.close()

    return engine
