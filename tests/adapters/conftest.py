"""Tests that need the frameworks: without these none is collected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import eventlog
from eventlog.store import Store
from tests.support.coroutine_tests import pytest_pyfunc_call
from tests.support.frameworks import are_here, has_adk

__all__ = ["pytest_pyfunc_call", "store"]

collect_ignore_glob = [] if are_here() else ["test_*.py"]
collect_ignore_glob += [] if has_adk() else ["test_google_adk*.py"]


@pytest.fixture
def store() -> Iterator[Store]:
    """A store in memory, for what does not depend on the engine."""
    with eventlog.open("memory:") as opened:
        yield opened
