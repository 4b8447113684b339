"""The prune planners by name, and the call of the one that the policy names.

A planner is a pure function of a `PruneCase` (`case.py`).  The window records its plan as an event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from eventlog.errors import AlreadyExistsError, NotFoundError
from eventlog.validation import require, require_function
from projections.conversation.parts import ToolPart
from projections.conversation.state import Conversation
from projections.view.options import RenderOptions
from projections.window.policy.policy import PrunePolicy
from projections.window.prune.case import PruneCase, PrunePlan
from projections.window.prune.clearable import Clearable, is_result
from projections.window.prune.cost_aware import cost_aware
from projections.window.prune.superseded import superseded
from projections.window.sizing.sizes import Sizes

__all__ = ["PLANNERS", "PruneCase", "PrunePlan", "PrunePlanner", "plan_prune", "register_planner"]

PrunePlanner: TypeAlias = Callable[[PruneCase], PrunePlan | None]
"""Function that plans the outputs to take out of a view; `None` takes out nothing."""


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
    Arguments, thoughts and media stay.
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
            if not isinstance(part, ToolPart) or not is_result(part) or part.tool in case.policy.protected_tools:
                continue
            if part.pruned:
                return
            yield Clearable(-older, place, part)


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
