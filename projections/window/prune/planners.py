"""The prune planners by name, and the call of the one that the policy names.

A planner is a pure function of a `PruneCase` (`case.py`).  The window records its plan as an event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from eventlog.errors import AlreadyExistsError, NotFoundError
from eventlog.validation import require, require_function
from projections.conversation.state import Conversation
from projections.view.options import RenderOptions
from projections.window.policy.policy import PrunePolicy
from projections.window.prune.case import PruneCase, PrunePlan
from projections.window.prune.cost_aware import cost_aware
from projections.window.prune.opencode import opencode
from projections.window.prune.recency import recency
from projections.window.prune.superseded import superseded
from projections.window.sizing.measure import Measure

__all__ = ["PLANNERS", "PruneCase", "PrunePlan", "PrunePlanner", "plan_prune", "register_planner"]

PrunePlanner: TypeAlias = Callable[[PruneCase], PrunePlan | None]
"""Function that plans the outputs to take out of a view; `None` takes out nothing."""

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
    measure: Measure,
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
