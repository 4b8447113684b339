"""Pruning by age: the oldest results go, the newest `protect` tokens of them stay.

A planner for `planners.py`. Planning right after a plan was carried out gives nothing: what is left
is within `protect`.
"""

from __future__ import annotations

from projections.window.prune.case import PruneCase, PrunePlan

__all__ = ["recency"]


def recency(case: PruneCase) -> PrunePlan | None:
    """Prune results beyond the newest `protect` tokens, if they have more than `minimum`."""
    return case.plan(case.beyond(case.prunable()), "recency")
