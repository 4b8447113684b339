"""Pruning only when it pays: cheaper requests against a cache that is broken once.

A planner for `planner.py`. What may go is what `recency` would take, and the minimum is not asked
for: the sum below is the test.

With N expected further requests, prices per token `read` (cached input) and `write` (cache write,
or plain input where that is not charged), S tokens saved, and B tokens that stand, pruned, from the
earliest pruned result to the end of the view:

* not pruned, each of the N requests reads S + B from the cache: N * (S + B) * read;
* pruned, the first sends B anew and the others read it: B * write + (N - 1) * B * read.

The gain is N * S * read - B * (write - read). Of all results from one on, pruning more saves more,
so only where to begin is to be found: the beginning with the greatest gain is taken (`gains.py`),
if that is more than nothing. All tokens are as counted: calibration would multiply each of them
alike.

N is estimated unless the policy gives it. With G tokens that a step adds, S took S / G requests to
gather, and was read S / 2G times on the average: N is that number. So a prune comes when reading S
has cost as much as the prune will, which is also where a long loop of equal steps costs the least
for each step. A compaction that costs nothing clears S as well, and B, which a prune carries on: so
N is at most the number of steps that fill the window up to B tokens.
"""

from __future__ import annotations

from bisect import bisect_left
from decimal import Decimal

from projections.window.policy.policy import Prices
from projections.window.prune.case import CLEARED_TOKENS, PruneCase, PrunePlan, ToolResult
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
        beyond = [*case.beyond(case.prunable())]
        chosen = beyond[: gains.walked(beyond)][::-1]
        freed = sum(case.size(found) for found in chosen) - len(chosen) * CLEARED_TOKENS
    else:
        begin = gains.best(count)
        chosen = candidates.all[begin:count]
        freed = candidates.freed(count) - candidates.freed(begin)
    if not chosen or not _pays(case, freed, chosen[0], gains.behind(chosen[0])):
        return None
    return case.plan(chosen, "cost-aware", least=0)


def _pays(case: PruneCase, freed: int, first: ToolResult, behind: int) -> bool:
    """Whether later requests save more than sending anew what stays `behind` the first result."""
    prices = case.policy.prices or Prices()
    anew = (prices.cache_write or prices.input) - prices.cache_read
    given = case.policy.expected_turns
    requests = _expected(case, freed, first, behind) if given is None else given
    return Decimal(requests) * freed * prices.cache_read > (behind - freed) * anew


def _expected(case: PruneCase, freed: int, first: ToolResult, behind: int) -> float:
    """Further requests to be expected: as many as have read what may go, until it goes anyway."""
    steps = case.candidates.outline.steps
    growth = behind / max(len(steps) - bisect_left(steps, first.message), 1)
    read = freed / (2 * growth)
    if case.until_compaction is None:
        return read
    left = case.until_compaction / case.measure.ratio - (behind - freed)
    return min(read, left / growth)
