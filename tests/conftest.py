"""Fixtures that several test modules share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.store import Store
from tests.engines import ENGINES, Engine


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A place for stores, on every engine."""
    place = Engine(str(request.param), tmp_path)
    yield place
    place.close()


@pytest.fixture
def store(engine: Engine) -> Store:
    """An open store, on every engine."""
    return engine.open()
