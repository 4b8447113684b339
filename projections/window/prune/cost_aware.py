"""Pruning only when it pays: cheaper requests against a cache that is broken once.

A planner for `planners.py`. What may go is what `recency` would take, and the minimum is not asked
for: the sum below is the test.

With N expected further requests, prices per token `read` (cached input) and `write` (cache write,
or plain input where that is not charged), S tokens saved, and B tokens that stand, pruned, from the
earliest pruned result to the end of the view:

* not pruned, each of the N requests reads S + B from the cache: N * (S + B) * read;
* pruned, the first sends B anew and the others read it: B * write + (N - 1) * B * read.

The gain is N * S * read - B * (write - read). Of all results from one on, pruning more saves more,
so only where to begin is to be found: the beginning with the greatest gain is taken, if that is
more than nothing. All tokens are as counted: calibration would multiply each of them alike.

N is estimated unless the policy gives it. With G tokens that a step adds, S took S / G requests to
gather, and was read S / 2G times on the average: N is that number. So a prune comes when reading S
has cost as much as the prune will, which is also where a long loop of equal steps costs the least
for each step. A compaction that costs nothing clears S as well, and B, which a prune carries on: so
N is at most the number of steps that fill the window up to B tokens.
"""

from __future__ import annotations

from bisect import bisect_left
from decimal import Decimal
from itertools import accumulate, groupby

from projections.window.policy.policy import Prices
from projections.window.prune.case import CLEARED_TOKENS, PruneCase, PrunePlan
from projections.window.prune.clearable import Clearable, ClearableKind

__all__ = ["cost_aware"]

MANY = 100
"""Requests for which a beginning is chosen where the policy expects no number of them."""


def cost_aware(case: PruneCase) -> PrunePlan | None:
    """The results and other parts whose pruning saves the most money, if any does."""
    beyond = sorted(case.beyond(case.prunable()), key=lambda one: (one.message, one.place), reverse=True)
    if not beyond:
        return None  # all of them are among the newest
    prices, requests = case.policy.prices or Prices(), case.policy.expected_turns
    anew = (prices.cache_write or prices.input) - prices.cache_read
    """The price of sending a token anew, beyond that of reading it from the cache."""
    saved = (MANY if requests is None else requests) * prices.cache_read + anew
    """The gain from a token that is no longer sent."""
    behind = _tokens_from(case)
    freed = [*accumulate(case.size(found) - CLEARED_TOKENS for found in beyond)]
    gains = [
        tokens * saved - behind[found.part.id, found.kind] * anew for found, tokens in zip(beyond, freed, strict=True)
    ]
    begin = gains.index(max(gains))
    first = beyond[begin]
    if not _pays(case, freed[begin], first, behind[first.part.id, first.kind]):
        return None
    return case.plan(beyond[: begin + 1], "cost-aware", least=0)


def _pays(case: PruneCase, freed: int, first: Clearable, behind: int) -> bool:
    """Whether later requests save more than sending anew what stays `behind` the first result."""
    prices = case.policy.prices or Prices()
    anew = (prices.cache_write or prices.input) - prices.cache_read
    given = case.policy.expected_turns
    requests = _expected(case, freed, first, behind) if given is None else given
    return Decimal(requests) * freed * prices.cache_read > (behind - freed) * anew


def _tokens_from(case: PruneCase) -> dict[tuple[str, ClearableKind], int]:
    """Tokens of the view from each thing on; a message sends its results behind all else."""
    messages, tokens = case.messages, dict[tuple[str, ClearableKind], int]()
    newest = [*accumulate(map(case.measure.sent, reversed(messages)), initial=0)]
    """Tokens of as many of the newest messages as the place in the list says."""
    for index, found in groupby(case.clearables(), lambda found: found.message):
        behind, whole = newest[len(messages) - 1 - index], newest[len(messages) - index]
        for one in found:
            if one.kind == "result":
                behind += CLEARED_TOKENS if one.pruned else case.size(one)
            tokens[one.part.id, one.kind] = behind if one.kind == "result" else whole
    return tokens


def _expected(case: PruneCase, freed: int, first: Clearable, behind: int) -> float:
    """Further requests to be expected: as many as have read what may go, until it goes anyway."""
    growth = behind / max(len(case.steps) - bisect_left(case.steps, first.message), 1)
    read = freed / (2 * growth)
    if case.until_compaction is None:
        return read
    left = case.until_compaction / case.measure.ratio - (behind - freed)
    return min(read, left / growth)
