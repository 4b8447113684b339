"""The gain of pruning all candidates from one on, for each of them.

For `cost_aware.py`. Kept beside the candidates: a look counts the messages that changed and those
after them. With T tokens of the view, D tokens before a result, F tokens that clearing all
candidates before it frees, and F' those of all that may go, beginning at it gains

    N * (F' - F) * read - (T - D - (F' - F)) * (write - read)

and of that only D and F differ from one beginning to another. So each candidate has a standing of
its own, D * (write - read) - F * (N * read + write - read), and the best of the oldest n is known
for every n.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import accumulate
from typing import NamedTuple

from projections.conversation.parts import ToolPart
from projections.window.policy.policy import Prices, PrunePolicy
from projections.window.prune.candidates import CLEARED_TOKENS, Candidates
from projections.window.prune.outline import ToolResult, is_result

__all__ = ["Gains"]

MANY = 100
"""Requests for which a beginning is chosen where the policy expects no number of them."""


class _Rates(NamedTuple):
    anew: Decimal
    """The price of sending a token anew, beyond that of reading it from the cache."""
    saved: Decimal
    """The gain from a token that is no longer sent."""


class Gains:
    """The gains of one view's candidates.  Tokens are as counted, before calibration."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._mark = candidates.outline.mark()
        self._rates = _Rates(Decimal(0), Decimal(0))
        self._tokens = [0]
        """Tokens of as many messages as the place in the list says."""
        self._standings: list[Decimal] = []
        self._best: list[int] = []
        """For each candidate the best to begin at of those up to it, the newest of equals."""

    def look(self, policy: PrunePolicy) -> None:
        """Apply what changed in the view; call it after the candidates did."""
        candidates, mark, prices = self._candidates, self._mark, policy.prices or Prices()
        anew = (prices.cache_write or prices.input) - prices.cache_read
        requests = MANY if policy.expected_turns is None else policy.expected_turns
        rates = _Rates(anew, requests * prices.cache_read + anew)
        if rates != self._rates:
            self._rates, mark.messages = rates, 0
        messages = candidates.outline.messages
        del self._tokens[mark.messages + 1 :]
        for index in range(mark.messages, len(messages)):
            self._tokens.append(self._tokens[-1] + candidates.measure.sent(messages[index]))
        first = candidates.before(mark.messages)
        del self._standings[first:], self._best[first:]
        for number, before in self._places(first):
            self._standings.append(before * rates.anew - candidates.freed(number) * rates.saved)
            best = self._best[-1] if self._best else number
            self._best.append(number if self._standings[number] >= self._standings[best] else best)
        mark.messages = mark.results = len(messages)

    def best(self, count: int) -> int:
        """The best of the `count` oldest candidates to begin at; `count` is 1 at least."""
        return self._best[count - 1]

    def behind(self, found: ToolResult) -> int:
        """Tokens of the view from a result on."""
        return self._tokens[-1] - self._before(found.message)[found.place]

    def walked(self, chosen: list[ToolResult]) -> int:
        """How many of these results, newest first, gain the most together.

        For a walk that takes other results than the candidates.
        """
        saved, count, best = 0, 0, Decimal(0)
        for number, found in enumerate(chosen, 1):
            saved += self._candidates.measure.counted(found.part) - CLEARED_TOKENS
            gain = saved * self._rates.saved - self.behind(found) * self._rates.anew
            if gain > best:
                count, best = number, gain
        return count

    # -- helpers -------------------------------------------------------------------------------

    def _places(self, first: int) -> Iterator[tuple[int, int]]:
        """The candidates from one on, and the tokens of the view before each."""
        index, places = -1, dict[int, int]()
        for number in range(first, len(self._candidates.all)):
            found = self._candidates.all[number]
            if found.message != index:
                index, places = found.message, self._before(found.message)
            yield number, places[found.place]

    def _before(self, index: int) -> dict[int, int]:
        """Tokens of the view before each result of a message, by its place.

        Results are sent after all that the message says.
        """
        counted = self._candidates.measure.counted
        sizes = {
            place: CLEARED_TOKENS if part.pruned else counted(part)
            for place, part in enumerate(self._candidates.outline.messages[index].parts)
            if isinstance(part, ToolPart) and is_result(part)
        }
        begin = self._tokens[index + 1] - sum(sizes.values())
        return dict(zip(sizes, accumulate(sizes.values(), initial=begin), strict=False))
