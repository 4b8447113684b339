"""Recorded sessions driven through a small window to their end, under every prune policy."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cases.window import PLANNED, driven_by, longest_turns
from benchmarks.driving import DriveResult
from tests.support.shared import shared_path


@pytest.fixture(scope="module", params=[0, 1], ids=["longest", "second"])
def drives(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, DriveResult]:
    """The longest recorded sessions, driven under each policy."""
    data = shared_path("data")
    place: int = request.param
    turns = longest_turns(data, Path(tmp_path_factory.mktemp("generated")), 10, most=2)[place]
    return {planner: driven_by(planner, turns) for planner in PLANNED}


def test_no_request_is_larger_than_the_window(drives: dict[str, DriveResult]) -> None:
    """Through a 32k window the view never exceeds usable, under every prune policy."""
    for planner, driven in drives.items():
        assert driven.blocked == "", planner
        assert 0 < driven.largest < driven.usable == 32_000


def test_the_cost_aware_policy_costs_no_more_than_recency(drives: dict[str, DriveResult]) -> None:
    """Pruning only where it pays costs at most what pruning by age does."""
    assert drives["cost-aware"].cost <= drives["recency"].cost


def test_every_policy_had_something_to_do(drives: dict[str, DriveResult]) -> None:
    """Every policy prunes or compacts, as the sessions are larger than the window."""
    for driven in drives.values():
        assert driven.prunes + driven.compactions > 0
        assert driven.freed_by_prune + driven.freed_by_compaction > 0
        assert driven.cost < driven.cost_uncached
        assert 0.5 < driven.common_prefix < 1.0
