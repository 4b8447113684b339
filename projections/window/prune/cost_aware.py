"""Pruning only when it pays: cheaper requests against a cache that is broken once.

A planner for `planner.py`. What may go is what `recency` would take, and the minimum is not asked
for: the sum below is the test.

With N expected further requests, prices per token `read` (cached input) and `write` (cache write,
or plain input where that is not charged), S tokens saved, and B tokens that stand, pruned, from the
earliest pruned result to the end of the view:

* not pruned, each of the N requests reads S + B from the cache: N * (S + B) * read;
* pruned, the first sends B anew and the others read it: B * write + (N - 1) * B * read.

The gain is N * S * read - B * (write - read). Of all results from one on, pruning more saves more,
so only where to begin is to be found: the beginning with the greatest gain is taken, if that is
more than nothing (`gains.py`). All tokens are as counted: calibration would multiply each of them
alike.
"""

from __future__ import annotations

from projections.window.prune.case import PruneCase, PrunePlan
from projections.window.prune.gains import Gains

__all__ = ["cost_aware"]


def cost_aware(case: PruneCase) -> PrunePlan | None:
    """The results whose pruning saves the most money, if any does."""
    candidates = case.candidates
    count = candidates.beyond(candidates.before(case.unprotected), case.room)
    if not count:
        return None  # all of them are among the newest
    gains = candidates.kept(Gains)
    gains.look(case.policy)
    if case.policy.stop_at_pruned:
        chosen = [*case.beyond(case.prunable())]
        return case.plan(chosen[: gains.walked(chosen)], "cost-aware", least=0)
    begin, gain = gains.best(count)
    return case.plan(candidates.oldest(count)[begin:], "cost-aware", least=0) if gain > 0 else None
