"""The situation that `next_step` and the planners decide on: conversation, policy, sizes.

Its questions are shared by the decision, by the window that carries plans out, and by the report
that shows them.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from projections.conversation.parts import Compaction
from projections.conversation.state import Conversation
from projections.view.options import RenderOptions
from projections.window.compaction.selection import Selection, select_tail
from projections.window.loop_state import LoopState
from projections.window.policy import ContextPolicy, PrunePolicy
from projections.window.prune.candidates import Candidates
from projections.window.prune.case import PrunePlan
from projections.window.prune.outline import Outline
from projections.window.prune.planner import plan_prune
from projections.window.sizing.measure import Measure

__all__ = ["Situation"]

BROKEN_OFF = ("interrupted", "taken over")
"""How a lease taker says that it closed what a dead or former owner had left open."""


class Situation(msgspec.Struct, frozen=True):
    """The conversation and loop state now, with policy, options and sizes."""

    state: Conversation
    loop: LoopState
    policy: ContextPolicy
    """With the switches of the environment in it."""
    options: RenderOptions
    measure: Measure
    usable: int | None
    """Tokens the next request may have; None: any number."""
    request: Callable[[], int]
    """Tokens of the next request as the view is now, calibrated."""
    fixed: Callable[[], int]
    """Tokens of the system prompt and the tools alone, calibrated."""
    outline: Outline
    """Of the view."""
    candidates: Candidates
    """Of the view, for the planners."""
    open_message: str | None = None
    """The open message that this loop is filling."""
    allow_repeats: bool = False
    """Whether identical calls in a row are nothing to stop for."""

    def prune_policy(self, planner: str | None = None) -> PrunePolicy:
        """The policy by which results are pruned; `planner` names another planner."""
        policy = self.policy.prune
        return policy if planner is None else msgspec.structs.replace(policy, policy=planner)

    def prune_plan(self, *, inside: bool, planner: str | None = None) -> PrunePlan | None:
        """Return the prune that is due now, inside a loop or after one.

        None if no prune is worth its cost.
        """
        return plan_prune(
            self.state,
            self.prune_policy(planner),
            self.measure,
            options=self.options,
            usable=self.usable,
            inside=inside,
            candidates=self.candidates,
        )

    def selection(self, marker: str | None) -> Selection | None:
        """Return what the compaction of this marker message would cover; None if nothing."""
        return select_tail(
            self.state,
            self.policy.compaction,
            self.measure,
            usable=self.usable,
            marker=marker,
            options=self.options,
            most=self.policy.overflow.max_messages,
        )

    def pending_compaction(self) -> Compaction | None:
        """The newest compaction, if it was requested and not begun, or a crash interrupted it."""
        newest = next(reversed(self.state.compactions.values()), None)
        if newest is None or self.state.messages[newest.message].removed:
            return None
        is_due = newest.status == "requested" or (newest.status == "failed" and newest.reason in BROKEN_OFF)
        return newest if is_due else None
