"""Recorded sessions driven through a small window to their end, under every prune policy."""

from __future__ import annotations

import pytest

from tests.support.driving import drive, longest_turns
from tests.support.shared import shared_path


@pytest.mark.parametrize("planner", ["recency", "superseded", "cost-aware"])
@pytest.mark.parametrize("place", [0, 1], ids=["longest", "second"])
def test_no_request_is_larger_than_the_window(place: int, planner: str) -> None:
    """Through a 32k window the view never exceeds usable; pruning and compaction see to it."""
    driven = drive(longest_turns(shared_path("data"), place), planner)
    assert driven.blocked == ""
    assert 0 < driven.largest < driven.usable == 32_000
    assert driven.prunes + driven.compactions > 0
