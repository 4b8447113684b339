"""The selection equals OpenCode 1.18.33's at every recorded compaction."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, cast

import msgspec
import pytest

from eventlog.values import Model
from projections.conversation.state import Conversation
from projections.replay.loop import replay
from projections.view.message_rendering import MessageRenderer
from projections.view.neutral import Text
from projections.view.options import OPENCODE_1_18
from projections.view.targets import ModelViewProjection
from projections.window.compaction.selection import Selection, select_tail
from projections.window.policy.policy import OPENCODE_POLICY
from projections.window.sizing.sizes import CharsSizes
from tests.support.opencode_exports import events_of_export
from tests.support.parity import Pair, Scenario, scenarios
from tests.support.shared import SHARED, shared_path
from tests.support.spans import Recording

SCENARIOS = [found for found in scenarios() if any(pair.kind == "compaction" for pair in found.pairs())]

KILLED = {("compact-fail", "05-02")}
"""OpenCode writes the tail when the summary has ended."""

HEAD_IS_KEPT = {("compact-fail", name) for name in ("03-01", "05-02", "06-01")}
"""OpenCode lost the head to a failed summary: its later transcripts lack it, ours not."""


class Asked(NamedTuple):
    """A recorded compaction: its state, OpenCode's choice, and its inputs."""

    pair: Pair
    marker: str | None
    """The message with the compaction's part; None: a failed compaction took a prompt as its
    own.
    """
    tail: str | None
    limits: dict[str, Any]
    config: dict[str, Any]


def test_compactions_were_recorded() -> None:
    """Recorded compactions exist, so that the comparison is not empty."""
    shared_path("parity", "dev")
    assert sum(len(_asked(scenario)) for scenario in SCENARIOS) == 28


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_selection_finds_the_recorded_tail(scenario: Scenario) -> None:
    """With the preset, each recorded compaction has the tail that OpenCode noted, or none."""
    for asked in _asked(scenario):
        if asked.marker is None or (scenario.name, asked.pair.name) in KILLED:
            continue
        found = _selected(asked)
        assert found is not None, asked.pair.name
        assert found.tail == asked.tail, asked.pair.name


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_previous_summary_is_the_recorded_one(scenario: Scenario) -> None:
    """The previous summary is the one in the recorded request's `<prior-summary>`."""
    for asked in _asked(scenario):
        found = _selected(asked)
        assert found is not None, asked.pair.name
        request = asked.pair.sent[-1]["content"]
        match = re.search(r"<prior-summary>\n(.*)\n</prior-summary>", request, re.DOTALL)
        assert found.previous == (match[1] if match else None), asked.pair.name


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_head_is_the_recorded_transcript(scenario: Scenario) -> None:
    """The head has the same texts of user and assistant as OpenCode's, in order."""
    for asked in _asked(scenario):
        found = _selected(asked)
        assert found is not None, asked.pair.name
        transcript = re.search(r"<conversation>\n(.*?)\n</conversation>", asked.pair.sent[-1]["content"], re.DOTALL)
        assert transcript is not None
        theirs = re.findall(r"^\[(User|Assistant)\]: ?(.*)$", transcript[1], re.MULTILINE)
        lost = (scenario.name, asked.pair.name) in HEAD_IS_KEPT
        assert (_said(found, asked) == theirs) is not lost, asked.pair.name


def _said(found: Selection, asked: Asked) -> list[tuple[str, str]]:
    """First lines of the texts in a head."""
    recording = Recording.of(events_of_export(asked.pair.state))
    lines: list[tuple[str, str]] = []
    for message in found.head:
        texts = [
            part.text.split("\n")[0]
            for sent in MessageRenderer(message, OPENCODE_1_18, recording.text).messages()
            for part in sent.parts
            if isinstance(part, Text) and part.text
        ]
        lines += [("User" if message.user else "Assistant", text) for text in (texts[:1] if message.user else texts)]
    return lines


def _selected(asked: Asked) -> Selection | None:
    recording = Recording.of(events_of_export(asked.pair.state))
    model = Model("fake", asked.pair.model)
    options = msgspec.structs.replace(OPENCODE_1_18, model=model, capabilities=tuple(asked.pair.modalities))
    state: Conversation = replay(ModelViewProjection(), recording).state
    chosen: dict[str, Any] = asked.config.get("compaction") or {}
    names = ("tail_turns", "preserve_recent_tokens")
    policy = msgspec.structs.replace(
        OPENCODE_POLICY.compaction, **{name: chosen[name] for name in names if name in chosen}
    )
    limits = asked.limits
    if "input" in limits:
        usable = limits["input"] - chosen.get("reserved", min(20_000, limits["output"]))
    else:
        usable = limits["context"] - limits["output"]
    measure = CharsSizes(state, options, recording.text)
    return select_tail(state, policy, measure, usable=usable, marker=asked.marker, options=options)


def _asked(scenario: Scenario) -> list[Asked]:
    """The scenario's compactions."""
    told = json.loads((SHARED / "parity" / "dev" / scenario.name / "scenario.json").read_text("utf-8"))
    pairs = list(scenario.pairs())
    later = [pair.state for pair in pairs] + [export for _, export in scenario.exports()]
    found: list[Asked] = []
    for pair in (pair for pair in pairs if pair.kind == "compaction"):
        last = pair.state["messages"][-1]
        marks = [part["id"] for part in last["parts"] if part["type"] == "compaction"]
        config = _config(told["turns"], int(pair.name[:2]))
        models = config.get("provider", {}).get("fake", {}).get("models", {})
        limits = {**told["models"][pair.model]["limit"], **models.get(pair.model, {}).get("limit", {})}
        tails = {
            part["tail_start_id"]
            for state in later
            for message in state["messages"]
            for part in message["parts"]
            if part["id"] in marks and part.get("tail_start_id")
        }
        assert len(tails) <= 1
        found.append(Asked(pair, last["info"]["id"] if marks else None, next(iter(tails), None), limits, config))
    return found


def _config(turns: list[dict[str, Any]], upto: int) -> dict[str, Any]:
    """The effective configuration at a turn, from all turns' differences so far."""
    merged: dict[str, Any] = {}
    for turn in turns[:upto]:
        _merge(merged, turn.get("config") or {})
    return merged


def _merge(into: dict[str, Any], change: dict[str, Any]) -> None:
    for name, value in change.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], cast("dict[str, Any]", value))
        else:
            into[name] = value
