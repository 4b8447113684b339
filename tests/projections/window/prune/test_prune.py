"""Pruning: bounds, protected tools, attachments, tails, and planners of one's own."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.errors import AlreadyExistsError, NotFoundError
from eventlog.values import Attachment
from projections.conversation.parts import Compaction, Message
from projections.view.options import DEFAULT
from projections.window.policy.policy import PrunePolicy
from projections.window.prune.case import CLEARED_TOKENS, PruneCase, PrunePlan
from projections.window.prune.planners import PLANNERS, register_planner
from tests.support.prune_sessions import (
    Letters,
    Talk,
    conversation,
    parts_of,
    plan,
    policies,
    rooms,
    talks,
    tools_of,
)


@given(talks(), policies, rooms, st.booleans())
def test_planning_again_after_a_plan_gives_nothing(
    messages: list[Message], policy: PrunePolicy, usable: int | None, inside: bool
) -> None:
    """After a plan is carried out no plan is left, and planning itself changes nothing."""
    state = conversation(messages)
    before = state.encode()
    found = plan(state, policy, usable, inside=inside)
    assert state.encode() == before
    for _, part in tools_of(messages):
        part.pruned = part.pruned or part.id in parts_of(found)
    assert plan(state, policy, usable, inside=inside) is None


@pytest.mark.parametrize("planner", ["recency", "superseded", "cost-aware"])
def test_names_of_protected_tools_are_compared_without_case(planner: str) -> None:
    """`Skill` of Claude Code is `skill`, and a tool is protected in any spelling."""
    talk = Talk()
    talk.user().step(*[talk.tool(100, tool, input={}) for tool in ("Skill", "SKILL", "todo", "skills")])
    talk.step(*[talk.tool(100, tool, input={}) for tool in ("Skill", "SKILL", "todo", "skills")]).user().user()
    policy = PrunePolicy(policy=planner, protect=0, minimum=0, protected_tools=("skill", "TODO"), expected_turns=99)
    assert set(parts_of(plan(talk.messages, policy))) == {"t3", "t7"}
    assert {"t0", "t1", "t2"} < set(parts_of(plan(talk.messages, msgspec.structs.replace(policy, policy="opencode"))))


def test_bounds_shrink_with_the_window() -> None:
    """`protect` and `minimum` shrink with the window, unless `scale` is off."""
    policy = PrunePolicy()
    case = PruneCase(conversation([]), policy, Letters(), DEFAULT, 24_000, inside=False)
    assert (case.protect, case.minimum) == (6_000, 3_000)
    case = PruneCase(conversation([]), policy, Letters(), DEFAULT, 400_000, inside=False)
    assert (case.protect, case.minimum) == (40_000, 20_000)
    fixed = PruneCase(conversation([]), PrunePolicy(scale=False), Letters(), DEFAULT, 24_000, inside=False)
    assert (fixed.protect, fixed.minimum) == (40_000, 20_000)


def test_attachments_count() -> None:
    """A result's attachment counts towards its size."""
    talk = Talk()
    image = Attachment("image/png", "data:image/png;base64,AA==")
    talk.user().step(talk.tool(1, attachments=(image,))).user().user()
    found = plan(talk.messages, PrunePolicy(protect=500, minimum=500))
    assert found == PrunePlan(("t0",), 1_001 - CLEARED_TOKENS, "recency")


def test_the_tail_of_a_compaction_may_be_pruned() -> None:
    """A summary does not shield what is kept verbatim behind it in the view."""
    talk = Talk()
    talk.user().step(talk.tool(100)).compaction().user().user()
    state = conversation(talk.messages)
    compaction = Compaction("c2", "m2", auto=True, status="completed", tail="m0", summary="m3")
    state.compactions["c2"], state.in_force = compaction, "c2"
    policy = PrunePolicy(protect=0, minimum=0)
    assert parts_of(plan(state, policy)) == ("t0",)
    assert plan(state, msgspec.structs.replace(policy, policy="opencode")) is None


def test_planners_are_pluggable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registered planner is found by name; a taken or unknown name is refused."""
    monkeypatch.setattr("projections.window.prune.planners.PLANNERS", dict(PLANNERS))
    mine = PrunePlan(("t0",), 1, "mine")
    register_planner("mine", lambda _: mine)
    talk = Talk()
    talk.user().step(talk.tool(100))
    assert plan(talk.messages, PrunePolicy(policy="mine")) is mine
    assert plan(talk.messages, PrunePolicy(policy="mine", enabled=False)) is None
    assert plan(talk.messages, PrunePolicy(policy="mine", steps=None), inside=True) is None
    with pytest.raises(AlreadyExistsError):
        register_planner("recency", lambda _: None)
    with pytest.raises(NotFoundError):
        plan(talk.messages, PrunePolicy(policy="nobody's"))
