"""The prune planners by name, and the call of the one that the policy names.

A planner is a pure function of a `PruneCase` (`case.py`).  The window records its plan as an event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import accumulate, groupby
from typing import TypeAlias

from eventlog.errors import AlreadyExistsError, NotFoundError
from eventlog.validation import require, require_function
from projections.conversation.parts import ToolPart
from projections.conversation.state import Conversation
from projections.view.options import RenderOptions
from projections.window.policy.policy import Prices, PrunePolicy
from projections.window.prune.case import CLEARED_TOKENS, PruneCase, PrunePlan
from projections.window.prune.clearable import Clearable, ClearableKind, is_result
from projections.window.prune.superseded import superseded
from projections.window.sizing.sizes import Sizes

PrunePlanner: TypeAlias = Callable[[PruneCase], PrunePlan | None]
"""Function that plans the outputs to take out of a view; `None` takes out nothing."""
MANY = 100
"""Requests for which a beginning is chosen where the policy expects no number of them."""


def recency(case: PruneCase) -> PrunePlan | None:
    """Prune by age: the results beyond the newest `protect` tokens, if more than `minimum`.

    Planning right after a plan was carried out gives nothing: what is left is within `protect`.
    """
    return case.plan(case.beyond(case.prunable()), "recency")


def opencode(case: PruneCase) -> PrunePlan | None:
    """Prune as OpenCode 1.18 does, weaknesses included.

    It differs from `recency` in the results that it walks over. It takes all messages in the order
    of their beginning, so the tail of a compaction, which began before the summary, is out of
    reach. Every user message begins a turn, also a compaction's marker and the program's own. A
    summary ends the walk, also a failed one, and so does the first pruned result. Results no larger
    than the marker are cleared, too, and the marker does not lessen what counts as freed.
    Errors, arguments, thoughts and media stay.
    """
    return case.plan(case.beyond(_walk(case), named_last=False), "opencode", marker=0)


def _walk(case: PruneCase) -> Iterator[Clearable]:
    turns = 0
    for older, message in enumerate(reversed(case.state.messages.values())):
        if message.removed:
            continue
        turns += message.user
        if turns < case.policy.turns:
            continue
        if message.summary:
            return
        for place in range(len(message.parts) - 1, -1, -1):
            part = message.parts[place]
            if not isinstance(part, ToolPart) or part.tool in case.policy.protected_tools:
                continue
            if part.status != "completed" or not is_result(part):
                continue
            if part.pruned:
                return
            yield Clearable(-older, place, part)


def cost_aware(case: PruneCase) -> PrunePlan | None:
    """Prune only when it pays: cheaper requests against a cache that is broken once.

    What may go is what `recency` would take, and the minimum is not asked for: the sum below is the
    test.

    With N expected further requests, prices per token `read` (cached input) and `write` (cache
    write, or plain input where that is not charged), S tokens saved, and B tokens that stand,
    pruned, from the earliest pruned result to the end of the view:

    * not pruned, each of the N requests reads S + B from the cache: N * (S + B) * read;
    * pruned, the first sends B anew and the others read it: B * write + (N - 1) * B * read.

    The gain is N * S * read - B * (write - read). Of all results from one on, pruning more saves
    more, so only where to begin is to be found: the beginning with the greatest gain is taken, if
    that is more than nothing. All tokens are as counted: calibration would multiply each of them
    alike.

    N is estimated unless the policy gives it. With G tokens that a step adds, S took S / G requests
    to gather, and was read S / 2G times on the average: N is that number. So a prune comes when
    reading S has cost as much as the prune will, which is also where a long loop of equal steps
    costs the least for each step. A compaction that costs nothing clears S as well, and B, which a
    prune carries on: so N is at most the number of steps that fill the window up to B tokens.
    """
    beyond = sorted(case.beyond(case.prunable()), key=lambda one: (one.message, one.place), reverse=True)
    if not beyond:
        return None  # all of them are among the newest
    prices, given = case.policy.prices or Prices(), case.policy.expected_turns
    anew = (prices.cache_write or prices.input) - prices.cache_read
    """The price of sending a token anew, beyond that of reading it from the cache."""
    saved = (MANY if given is None else given) * prices.cache_read + anew
    """The gain from a token that is no longer sent."""
    behind = _tokens_from(case)
    freed = [*accumulate(case.size(found) - CLEARED_TOKENS for found in beyond)]
    gains = [
        tokens * saved - behind[found.part.id, found.kind] * anew for found, tokens in zip(beyond, freed, strict=True)
    ]
    begin = gains.index(max(gains))
    first, gone = beyond[begin], freed[begin]
    whole = behind[first.part.id, first.kind]
    requests = _expected(case, gone, first, whole) if given is None else given
    if Decimal(requests) * gone * prices.cache_read <= (whole - gone) * anew:
        return None  # sending anew what stays costs as much as later requests save
    return case.plan(beyond[: begin + 1], "cost-aware", least=0)


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


PLANNERS: dict[str, PrunePlanner] = {
    "cost-aware": cost_aware,
    "opencode": opencode,
    "recency": recency,
    "superseded": superseded,
}
"""The planners by the name that `PrunePolicy.policy` gives."""


def register_planner(name: str, planner: PrunePlanner) -> None:
    """Make a planner known; `AlreadyExistsError` for a name that is taken."""
    require(str, name, "a planner is named by a str")
    require_function(planner, "a planner is a function that is given a case")
    if name in PLANNERS:
        raise AlreadyExistsError("planner", name)
    PLANNERS[name] = planner


def plan_prune(
    state: Conversation,
    policy: PrunePolicy,
    measure: Sizes,
    *,
    options: RenderOptions,
    usable: int | None,
    inside: bool,
    until_compaction: int | None = None,
) -> PrunePlan | None:
    """Return the results to clear now, or None; `state` is that of the model view.

    `options` are the view's; `usable` is None for an unlimited window; `inside` says that a loop
    goes on, so that steps are protected instead of turns; `until_compaction` are tokens.
    `NotFoundError` for a policy that names no planner.
    """
    planner = PLANNERS.get(policy.planner)
    if planner is None:
        raise NotFoundError("planner", policy.planner, known=PLANNERS)
    if not policy.enabled or (inside and policy.steps is None):
        return None
    return planner(PruneCase(state, policy, measure, options, usable, inside=inside, until_compaction=until_compaction))
