"""Stores in memory, to import into and to export from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import eventlog
from eventlog import Store


@pytest.fixture
def store() -> Iterator[Store]:
    """A store in memory."""
    with eventlog.open("memory:") as opened:
        yield opened


@pytest.fixture
def other() -> Iterator[Store]:
    """Another one."""
    with eventlog.open("memory:") as opened:
        yield opened
