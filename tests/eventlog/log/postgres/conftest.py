"""Fixtures of the tests of the engine on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.postgres_server import give_back, new_place


@pytest.fixture
def place() -> Iterator[str]:
    """An empty log."""
    address = new_place()
    yield address
    give_back(address)
