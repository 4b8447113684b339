"""Pruning only when it pays: what it saves in later requests against the provider's cache that it breaks once (spec §5.2).

A planner for `planner.py`.  What may go is what `recency` would take, and the minimum is not asked for: the sum below is the test.

With N expected further requests, prices per token `read` (cached input) and `write` (cache write, or plain input where that is not charged),
S tokens saved, and B tokens that stand, pruned, from the earliest pruned result to the end of the view:

* not pruned, each of the N requests reads S + B from the cache: N * (S + B) * read;
* pruned, the first sends B anew and the others read it: B * write + (N - 1) * B * read.

The gain is N * S * read - B * (write - read).  Of all results from one on, pruning more saves more, so only where to begin is to be found:
each candidate is tried as the earliest, and the one with the greatest gain is taken, if that is more than nothing.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import accumulate

from projections.conversation.parts import Message, ToolPart
from projections.window.prune.case import CLEARED_TOKENS, PruneCase, PrunePlan, Result, is_result

__all__ = ["cost_aware"]


def cost_aware(case: PruneCase) -> PrunePlan | None:
    """The results whose pruning saves the most money, if any does."""
    candidates = case.candidates
    if not candidates.beyond(candidates.before(case.unprotected), case.room):
        return None  # all of them are among the newest
    prices = case.policy.prices
    read, write = prices.cache_read, prices.cache_write or prices.input
    after = _tokens_after(case)
    chosen: list[Result] = []
    saved, count, best = 0, 0, Decimal(0)
    for found in case.beyond(case.prunable()):
        chosen.append(found)
        saved += case.size(found) - CLEARED_TOKENS
        anew = after[found.message] + _results_from(case, case.messages[found.message], found.place) - saved
        gain = case.policy.expected_turns * saved * read - anew * (write - read)
        if gain > best:
            count, best = len(chosen), gain
    return case.plan(chosen[:count], "cost-aware", least=0)


def _tokens_after(case: PruneCase) -> list[int]:
    """For each message of the view, the tokens of all messages after it."""
    sizes = [case.measure.messages([message]) for message in case.messages]
    return [*accumulate(reversed(sizes), initial=0)][-2::-1] if sizes else []


def _results_from(case: PruneCase, message: Message, place: int) -> int:
    """Tokens of a message's results from a part on: they are sent after all that the message says."""
    return sum(
        CLEARED_TOKENS if part.pruned else case.measure.counted(part)
        for part in message.parts[place:]
        if isinstance(part, ToolPart) and is_result(part)
    )
