"""A store and a session in memory: a projection does not depend on the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import eventlog
from eventlog.session.session import Session
from eventlog.store import Store
from tests.support.coroutine_tests import pytest_pyfunc_call

__all__ = ["pytest_pyfunc_call", "session", "store"]


@pytest.fixture
def store() -> Iterator[Store]:
    """A store in memory."""
    with eventlog.open("memory:") as opened:
        yield opened


@pytest.fixture
def session(store: Store) -> Session:
    """A session in it."""
    return store.create_session(id="s", title="t")
