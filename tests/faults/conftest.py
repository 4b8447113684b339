"""Fixtures of the tests of faults."""

from __future__ import annotations

import pytest

from tests.support.faults.tracing import may_trace


@pytest.fixture
def tracing() -> None:
    """Where a process may trace its children."""
    if not may_trace():
        pytest.skip("needs Linux on x86-64 or AArch64, and the right to trace a child process")
