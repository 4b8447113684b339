"""OpenCode 1.18.33's recorded prunes and overflow decisions (preset `opencode-1.18`)."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from typing import Any

import msgspec
import pytest

from eventlog.values import Limits, Tokens
from projections.replay.loop import replay
from projections.view.options import OPENCODE_1_18
from projections.view.targets import ModelViewProjection
from projections.window.policy.limits import is_over, step_total, usable
from projections.window.policy.policy import OPENCODE_POLICY, OverflowPolicy
from projections.window.prune.planners import plan_prune
from projections.window.sizing.sizes import sizes_named
from tests.support.opencode_exports import events_of_export
from tests.support.parity import Pair, Scenario, scenarios
from tests.support.shared import SHARED, shared_path
from tests.support.spans import Recording

SCENARIOS = {scenario.name: scenario for scenario in scenarios()}
PRUNING = ("compact-prune", "prune-fires", "prune-minimum", "prune-skill", "prune-twice")
"""The scenarios in which pruning is switched on."""


@cache
def played(name: str) -> dict[str, Any]:
    """A scenario's turns and its models' limits."""
    found: dict[str, Any] = json.loads((SHARED / "parity" / "dev" / name / "scenario.json").read_text("utf-8"))
    return found


def compaction_settings(name: str, turn: int) -> dict[str, Any]:
    """The effective compaction configuration of a turn."""
    found: dict[str, Any] = {}
    for told in played(name)["turns"]:
        if told["turn"] <= turn:
            found.update(told.get("config", {}).get("compaction", {}))
    return found


def marks(stored: dict[str, Any]) -> set[str]:
    """The tool parts that are marked as pruned."""
    return {
        part["id"]
        for message in stored["messages"]
        for part in message["parts"]
        if part["type"] == "tool" and part["state"].get("time", {}).get("compacted")
    }


def unmarked(stored: dict[str, Any], parts: set[str]) -> dict[str, Any]:
    """A copy of the conversation without these parts' prune marks."""
    found = deepcopy(stored)
    for message in found["messages"]:
        for part in message["parts"]:
            if part["id"] in parts:
                del part["state"]["time"]["compacted"]
    return found


def planned(stored: dict[str, Any]) -> set[str]:
    """Our prune plan with OpenCode's numbers and token estimate."""
    recording = Recording.of(events_of_export(stored))
    state, _ = replay(ModelViewProjection(), recording)
    sizes = sizes_named(OPENCODE_POLICY.counter, state, OPENCODE_1_18, recording.text)
    plan = plan_prune(state, OPENCODE_POLICY.prune, sizes, options=OPENCODE_1_18, usable=92_000, inside=False)
    return set(plan.parts) if plan is not None else set()


def test_pruning_is_on_where_it_is_compared() -> None:
    """Pruning is on in exactly the named scenarios, and only they have marks."""
    shared_path("parity", "dev")
    on = {
        name
        for name in SCENARIOS
        for turn in played(name)["turns"]
        if turn.get("config", {}).get("compaction", {}).get("prune")
    }
    assert on == set(PRUNING)
    for name, scenario in SCENARIOS.items():
        if name not in PRUNING:
            assert not any(marks(stored) for _, stored in scenario.exports()), name


@pytest.mark.parametrize(
    ("name", "passes"),
    [("compact-prune", 1), ("prune-fires", 1), ("prune-minimum", 0), ("prune-skill", 1), ("prune-twice", 3)],
)
def test_the_same_parts_are_pruned(name: str, passes: int) -> None:
    """After every turn our planner marks exactly what OpenCode marked."""
    shared_path("parity", "dev")
    before: set[str] = set()
    fired = 0
    for number, stored in SCENARIOS[name].exports():
        found = marks(stored)
        new = found - before
        if compaction_settings(name, int(number)).get("prune"):
            assert planned(unmarked(stored, new)) == new, number
            fired += bool(new)
        else:
            assert not new
        before = found
    assert fired == passes


@pytest.mark.parametrize("name", PRUNING)
def test_nothing_is_pruned_while_a_loop_goes_on(name: str) -> None:
    """No request inside a loop changes the marks, as with a preset without inner prunes."""
    shared_path("parity", "dev")
    ended = {number: marks(stored) for number, stored in SCENARIOS[name].exports()}
    for pair in SCENARIOS[name].pairs():
        turn = int(pair.name[:2])
        assert marks(pair.state) == ended.get(f"{turn - 1:02}", set()), pair.name
    assert OPENCODE_POLICY.prune.steps is None


def newest(pair: Pair, role: str, **having: bool) -> dict[str, Any] | None:
    """The newest stored message of a role, with or without a finish."""
    for message in reversed(pair.state["messages"]):
        info = message["info"]
        if info["role"] == role and all(bool(info.get(key)) is value for key, value in having.items()):
            found: dict[str, Any] = message
            return found
    return None


def is_full(pair: Pair) -> bool:
    """Whether our overflow test fires before this request."""
    finished = newest(pair, "assistant", finish=True)
    if finished is None or finished["info"].get("summary"):
        return False
    told = finished["info"]["tokens"]
    tokens = Tokens(
        told["input"],
        told["output"],
        told["reasoning"],
        told["cache"]["read"],
        told["cache"]["write"],
        told.get("total"),
    )
    limit = played(pair.scenario)["models"][pair.model]["limit"]
    settings = compaction_settings(pair.scenario, int(pair.name[:2]))
    policy = msgspec.structs.replace(
        OPENCODE_POLICY.overflow, auto=settings.get("auto", True), reserved=settings.get("reserved")
    )
    assert isinstance(policy, OverflowPolicy)
    room = usable(Limits(limit["context"], limit["output"], limit.get("input")), policy)
    return is_over(step_total(tokens), room, policy)


def asked(pair: Pair) -> str:
    """Reason of a compaction request; "" for a normal request."""
    if pair.kind == "normal":
        return ""
    user = newest(pair, "user")
    assert user is not None
    part = next((part for part in user["parts"] if part["type"] == "compaction"), None)
    if part is None:
        return "left over"
    return "refused" if part.get("overflow") else "full" if part["auto"] else "by hand"


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda scenario: scenario.name)
def test_the_window_is_full_at_the_same_requests(scenario: Scenario) -> None:
    """Our overflow test fires at exactly OpenCode's requests."""
    for pair in scenario.pairs():
        if asked(pair) in {"", "full"}:
            assert is_full(pair) is (asked(pair) == "full"), pair.name


def test_compactions_are_among_what_is_compared() -> None:
    """Compaction requests are among those compared."""
    shared_path("parity", "dev")
    found = [asked(pair) for scenario in SCENARIOS.values() for pair in scenario.pairs()]
    assert found.count("full") >= 15
    assert found.count("") >= 200
