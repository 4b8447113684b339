"""A store to look at, made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import eventlog
from eventlog.store import Store
from tests.support.inspected_store import inspected_store
from tests.support.inspector_server import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def started() -> Iterator[Browser]:
    """A browser."""
    with browser() as found:
        yield found


@pytest.fixture(scope="package")
def inspected_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the store; tests add sessions of their own, and leave the others alone."""
    path = tmp_path_factory.mktemp("inspected") / "store"
    inspected_store(path)
    return path


@pytest.fixture
def inspected(inspected_path: Path) -> Iterator[Store]:
    """The store, opened to be read."""
    with eventlog.open(inspected_path, read_only=True) as store:
        yield store
