"""Fixtures that several test modules share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from eventlog.log.commit import Commit
from eventlog.log.contract import Log
from eventlog.session.session import Session
from eventlog.store import Store
from tests.faults.tally import SLOW
from tests.support.engines import ENGINES, ON_SERVER, POSTGRES, Engine
from tests.support.faulty_log import FaultyLog

settings.register_profile("untimed", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
"""Without a deadline, so that no example fails because the machine is busy."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that run on a server in the long form only."""
    left_out = [item for item in items if not SLOW and _is_on_server(item) and _module_of(item) not in ON_SERVER]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def _is_on_server(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    given: dict[str, object] = {} if call is None else call.params
    return any(name.startswith(("engine", "name")) and value == POSTGRES for name, value in given.items())


def _module_of(item: pytest.Item) -> str:
    return item.path.stem


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Places for stores, on every engine."""
    place = Engine(str(request.param), tmp_path)
    yield place
    place.close()


@pytest.fixture
def store(engine: Engine) -> Store:
    """An open store on every engine."""
    return engine.open()


@pytest.fixture
def log() -> FaultyLog:
    """A log that can refuse or fail on request, and outlives its stores."""
    return FaultyLog()


@pytest.fixture
def session(log: FaultyLog) -> Session:
    """A session on that log whose deltas are flushed by commands only."""
    return Store(log, flush_interval=1000.0).create_session(id="s", title="t")


@pytest.fixture
def events_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[Log], list[int]]:
    """Record, read by read, the number of events that a log reads from here on."""

    def counting(log: Log) -> list[int]:
        counts: list[int] = []
        read = log.read

        def watched(session: str, after: int = 0, upto: int | None = None) -> Iterator[Commit]:
            for commit in read(session, after, upto):
                counts.append(commit.count)
                yield commit

        monkeypatch.setattr(log, "read", watched)
        return counts

    return counting
