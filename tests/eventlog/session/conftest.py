"""Fixtures of the tests of sessions."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def impatient() -> Iterator[None]:
    """Switch threads far more often than by default."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(2e-6)
    yield
    sys.setswitchinterval(before)
