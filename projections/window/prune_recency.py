"""Pruning by age: the oldest results go, the newest `protect` tokens of them stay (spec §5.2).

A planner for `prune.py`.  Planning right after a plan was carried out gives nothing: what is left is within `protect`.
"""

from __future__ import annotations

from projections.window.prune_case import PruneCase, PrunePlan, beyond

__all__ = ["recency"]


def recency(case: PruneCase) -> PrunePlan | None:
    """Every result beyond the newest `protect` tokens, if together they have more than `minimum`."""
    return case.plan(beyond(case.prunable(), case.protect, case.measure), "recency")
