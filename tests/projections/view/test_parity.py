"""The preset `opencode-1.18` against what the real OpenCode 1.18.33 sent."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from eventlog.values import Model
from projections.replay.loop import replay
from projections.requests.openai import chat_messages
from projections.view.assembly import Assembly
from projections.view.options import OPENCODE_1_18
from projections.view.targets import ModelViewProjection
from tests.support.opencode_exports import events_of_export
from tests.support.parity import Pair, Scenario, scenarios
from tests.support.shared import shared_path
from tests.support.spans import Recording

SCENARIOS = scenarios()

HEAD_IS_KEPT = "OpenCode loses the head to a failed summary; a failed compaction hides nothing here"
DEVIATIONS = {("compact-fail", name): HEAD_IS_KEPT for name in ("03-02", "04-01", "05-01", "06-02", "07-01")}
"""Closed list of pairs where OpenCode is wrong, with the reason."""

STORED_NOWHERE = (
    "<system-reminder>\n# Plan Mode",
    "<system-reminder>\nYour operational mode has changed from plan to build",
)
"""Request texts that OpenCode does not store; `plan-switch` is compared without them."""


def test_all_scenarios_are_there() -> None:
    """The parity scenarios exist, so that the comparison is not empty."""
    shared_path("parity", "dev")
    assert len(SCENARIOS) == 45


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_view_equals_what_was_sent(scenario: Scenario) -> None:
    """Each recorded normal request equals our view of its state, message by message."""
    pairs = [pair for pair in scenario.pairs() if pair.kind == "normal"]
    assert len(pairs) >= 2
    for pair in pairs:
        stop = None
        expected = pair.sent
        if str(expected[-1]["content"]).startswith("CRITICAL - MAXIMUM STEPS REACHED"):
            assert scenario.name.startswith("max-steps")
            stop = expected[-1]["content"]
        if scenario.name.startswith("plan-switch"):
            expected = [_without_reminder(message) for message in expected]
        same = _parsed(_view(pair, stop)) == _parsed(expected)
        assert same is ((pair.scenario, pair.name) not in DEVIATIONS), f"{pair.scenario} {pair.name}"


@pytest.mark.parametrize("name", [name for _, name in DEVIATIONS])
def test_deviations_keep_the_head(name: str) -> None:
    """Where views differ, ours has all that OpenCode sent, and the head that it lost."""
    shared_path("parity", "dev")
    scenario = next(found for found in SCENARIOS if found.name == "compact-fail")
    pair = next(found for found in scenario.pairs() if found.name == name)
    ours = [json.dumps(message, sort_keys=True) for message in _parsed(_view(pair, None))]
    rest = iter(ours)
    markers = json.dumps({"role": "user", "content": "What did we do so far?"}, sort_keys=True)
    theirs = [json.dumps(message, sort_keys=True) for message in _parsed(pair.sent)]
    assert all(message in rest for message in theirs if message != markers)
    assert ours[0] == json.dumps({"role": "user", "content": "One"}, sort_keys=True)


def _view(pair: Pair, stop: str | None) -> list[dict[str, Any]]:
    recording = Recording.of(events_of_export(pair.state))
    options = msgspec.structs.replace(
        OPENCODE_1_18, model=Model("fake", pair.model), capabilities=tuple(pair.modalities), max_steps=stop
    )
    state, _ = replay(ModelViewProjection(), recording)
    return chat_messages(Assembly(state, options, recording.text).view())


def _parsed(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages as JSON values, with parsed arguments."""
    found: list[dict[str, Any]] = json.loads(json.dumps(messages))
    for message in found:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return found


def _without_reminder(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if message["role"] != "user" or isinstance(content, str):
        return message
    kept = [part for part in content if not part.get("text", "").startswith(STORED_NOWHERE)]
    return {"role": "user", "content": kept[0]["text"] if len(kept) == 1 and kept[0]["type"] == "text" else kept}
