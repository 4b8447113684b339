"""Calibration: estimates approach what providers report, also in adverse cases."""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.tokens.calibration import Calibration
from projections.tokens.counter import CharsCounter, TokenCounter, frame_tokens
from tests.support.shared import shared_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AFTER = 5
"""Steps that teach before an estimate is judged."""


class Step(NamedTuple):
    """A recorded model call: our count of its request and the reported input tokens."""

    model: str
    counted: int
    quarter: int
    reported: int


class Transcript:
    """Counts a growing request, in tokens and in chars/4."""

    def __init__(self) -> None:
        self.counter, self.chars = TokenCounter(), CharsCounter()
        self.steps: list[Step] = []
        self.clear()

    def clear(self) -> None:
        """Begin again after a compaction."""
        self.counted = self.quarter = self.messages = 0

    def say(self, texts: list[str]) -> None:
        """Add one message."""
        self.messages += 1
        self.counted += sum(map(self.counter.count, texts))
        self.quarter += sum(map(self.chars.count, texts))

    def request(self) -> tuple[int, int]:
        """Count the request as it would be sent now."""
        return self.counted + frame_tokens(self.messages), self.quarter


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file, without damaged lines."""
    for line in path.read_text("utf-8", "replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def texts_of(content: Any) -> list[str]:
    """Every text that a message's content sends, in any of the three formats."""
    if isinstance(content, str):
        return [content]
    texts: list[str] = []
    blocks: list[Any] = content or []
    for block in blocks:
        if isinstance(block, str):
            texts.append(block)
        elif block.get("type") in ("tool_use", "toolCall"):
            texts += [block["name"], json.dumps(block.get("input", block.get("arguments")), ensure_ascii=False)]
        elif block.get("type") == "tool_result":
            texts += texts_of(block.get("content"))
        else:
            texts += [block[key] for key in ("text", "thinking") if block.get(key)]
    return texts


def claude_code(path: Path) -> list[Step]:
    """Steps of a Claude Code session: usage stands on the first line of each response."""
    transcript, responses = Transcript(), set[str]()
    for record in lines(path):
        if record.get("subtype") == "compact_boundary":
            transcript.clear()
        message = record.get("message")
        if record.get("isSidechain") or record.get("type") not in ("user", "assistant") or not message:
            continue
        usage, model = message.get("usage"), message.get("model")
        if usage and model != "<synthetic>" and message["id"] not in responses:
            responses.add(message["id"])
            kinds = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            transcript.steps.append(Step(model, *transcript.request(), sum(usage.get(kind) or 0 for kind in kinds)))
        transcript.say(texts_of(message.get("content")))
    return transcript.steps


def codex(path: Path) -> list[Step]:
    """Steps of a Codex rollout: usage follows what the model answered to the request."""
    transcript, model, total = Transcript(), "", None
    request: tuple[int, int] | None = None
    for record in lines(path):
        item: dict[str, Any] = record.get("payload") or {}
        kind = item.get("type")
        if record["type"] == "session_meta":
            base = item.get("base_instructions") or ""
            transcript.say([base if isinstance(base, str) else base.get("text", "")])
        elif record["type"] == "turn_context":
            model = item["model"]
        elif record["type"] == "compacted":
            transcript.clear()
            history: list[Any] = item.get("replacement_history") or []
            for kept in history:
                transcript.say(texts_of(kept.get("content")))
        elif record["type"] == "response_item":
            answer = kind in ("reasoning", "function_call", "custom_tool_call") or item.get("role") == "assistant"
            if answer and request is None:
                request = transcript.request()
            output = item.get("output")
            texts = [item[key] for key in ("name", "arguments", "input") if isinstance(item.get(key), str)]
            transcript.say(texts + texts_of(item.get("content")) + texts_of(item.get("summary")) + texts_of(output))
        elif kind == "token_count" and item.get("info") and item["info"]["total_token_usage"] != total:
            total = item["info"]["total_token_usage"]
            if request is not None:
                transcript.steps.append(Step(model, *request, item["info"]["last_token_usage"]["input_tokens"]))
            request = None
    return transcript.steps


def pi(path: Path) -> list[Step]:
    """Steps of a pi session: usage stands in the assistant's message."""
    transcript = Transcript()
    for record in lines(path):
        message: dict[str, Any] = record.get("message") or {}
        usage: dict[str, int] = message.get("usage") or {}
        reported = sum(usage.get(kind) or 0 for kind in ("input", "cacheRead", "cacheWrite"))
        if reported:
            transcript.steps.append(Step(message["model"], *transcript.request(), reported))
        if message:
            transcript.say(texts_of(message.get("content")))
    return transcript.steps


def recorded() -> Iterator[list[Step]]:
    """Every recorded session with usage for more than `AFTER` steps."""
    readers = {
        "entireio_claude_code/*.jsonl": claude_code,
        "entireio_growth_series/*/04_*.jsonl": claude_code,
        "claude_code_viewer/*5c0375b4*.jsonl": claude_code,
        "entireio_codex/*.jsonl": codex,
        "pi_mono/*.jsonl": pi,
    }
    for pattern, reader in readers.items():
        for path in sorted(shared_path("data").glob(pattern)):
            steps = reader(path)
            if len(steps) > AFTER:
                yield steps


def test_recorded_sessions_are_estimated_within_five_per_cent() -> None:
    """After five steps the median error against reported usage is at most 5 %."""
    rules = ("calibrated", "frozen after five steps", "o200k_base", "chars/4")
    errors: dict[str, dict[str, list[float]]] = {}
    sessions: list[float] = []
    for steps in recorded():
        calibration = frozen = Calibration()
        session: list[float] = []
        for number, step in enumerate(steps):
            if number == AFTER:
                frozen = calibration
            if number >= AFTER:
                estimates = (
                    calibration.apply(step.model, step.counted),
                    frozen.apply(step.model, step.counted),
                    step.counted,
                    step.quarter,
                )
                for rule, estimate in zip(rules, estimates, strict=True):
                    error = abs(estimate - step.reported) / step.reported
                    errors.setdefault(step.model, {}).setdefault(rule, []).append(error)
                session.append(errors[step.model]["calibrated"][-1])
            calibration = calibration.observe(step.model, step.counted, step.reported)
        sessions.append(statistics.median(session))
    print(f"\n{'median error, %':30}{'steps':>6}" + "".join(f"{rule:>26}" for rule in rules))
    for model, of_model in sorted(errors.items()):
        medians = "".join(f"{100 * statistics.median(of_model[rule]):26.2f}" for rule in rules)
        print(f"{model:30}{len(of_model['calibrated']):6}{medians}")
    assert len(errors) >= 8
    assert len(sessions) >= 15
    assert max(sessions) <= 0.05
    for model, of_model in errors.items():
        assert statistics.median(of_model["calibrated"]) <= 0.05, model
        assert statistics.median(of_model["calibrated"]) < 0.5 * statistics.median(of_model["chars/4"]), model


def taught(*steps: tuple[int, int], model: str = "m") -> Calibration:
    """A calibration after these (counted, reported) steps."""
    calibration = Calibration()
    for counted, reported in steps:
        calibration = calibration.observe(model, counted, reported)
    return calibration


def test_an_unseen_model_is_taken_at_its_count() -> None:
    """A model without reported usage is estimated at its count; models learn separately."""
    calibration = taught((100, 150))
    assert (calibration.apply("other", 1234), calibration.ratio("other")) == (1234, 1.0)


def test_one_step_of_a_request_counted_whole_gives_the_ratio() -> None:
    """A plausible whole ratio of one step is applied to parts and requests alike."""
    calibration = taught((1000, 1250))
    assert calibration.ratio("m") == 1.25
    assert calibration.apply("m", 2000) == 2500


@pytest.mark.parametrize(("counted", "reported"), [(10, 42_000), (0, 42_000), (100_000, 30_000)])
def test_one_step_of_a_request_mostly_unseen_is_no_ratio(counted: int, reported: int) -> None:
    """A system prompt that is never counted is a fixed part, not a ratio."""
    calibration = taught((counted, reported))
    assert calibration.ratio("m") == 1.0
    assert calibration.apply("m", counted + 500) == reported + 500


def test_a_fixed_part_and_a_ratio_are_told_apart() -> None:
    """Growth alone teaches the ratio, so a compacted request is estimated right."""
    calibration = taught(*((counted, 20_000 + counted * 6 // 5) for counted in (100, 5_000, 9_000, 60_000, 90_000)))
    assert calibration.ratio("m") == pytest.approx(1.2, rel=0.001)
    assert calibration.apply("m", 3_000) == pytest.approx(23_600, rel=0.001)


def test_one_hidden_jump_does_not_change_the_ratio() -> None:
    """One uncounted jump moves the fixed part of the estimate, not its ratio."""
    steps = [(counted, 1_000 + counted) for counted in range(1_000, 11_000, 1_000)]
    jumped = [(counted, 13_000 + counted) for counted in range(11_000, 13_000, 1_000)]
    calibration = taught(*steps, *jumped)
    assert calibration.ratio("m") == 1.0
    assert calibration.apply("m", 20_000) == 33_000


def test_steps_without_usage_teach_nothing() -> None:
    """A failed step, or one without reported tokens, leaves the calibration unchanged."""
    calibration = taught((100, 150))
    assert calibration.observe("m", 5_000, 0) is calibration
    assert calibration.observe("m", 5_000, -1) is calibration
    assert calibration.observe("m", 5_000, 1_249) is calibration  # without what was read from a cache


def test_growth_of_a_few_tokens_is_no_ratio() -> None:
    """Growth by a few tokens teaches no ratio: its noise would falsify estimates."""
    assert taught((1_000, 1_000), (1_010, 1_040)).ratio("m") < 1.1


def test_the_ratio_stays_in_its_bounds() -> None:
    """Implausible usage cannot make estimates explode or vanish."""
    assert taught((0, 1), (1_000, 7_000)).ratio("m") == 4.0
    assert taught((0, 1), (1_000, 10_000_000)).ratio("m") == 1.0
    assert taught((1_000, 1_000), (10_000, 2_600)).ratio("m") == 0.25


STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2_000_000), st.integers(-5, 2_000_000)), max_size=40)


@given(STEPS, st.integers(0, 2_000_000))
def test_calibration_is_a_pure_value_that_survives_encoding(steps: list[tuple[str, int, int]], counted: int) -> None:
    """Every calibration is bounded, decodes to itself and estimates nothing negative."""
    calibration = Calibration()
    for model, seen, reported in steps:
        before = msgspec.msgpack.encode(calibration)
        after = calibration.observe(model, seen, reported)
        assert msgspec.msgpack.encode(calibration) == before
        calibration = after
    data = msgspec.msgpack.encode(calibration)
    decoded = msgspec.msgpack.decode(data, type=Calibration)
    assert decoded == calibration
    assert msgspec.msgpack.encode(decoded) == data
    assert len(data) < 800
    for model in "ab":
        assert decoded.apply(model, counted) == calibration.apply(model, counted) >= 0
        assert 0.25 <= calibration.ratio(model) <= 4.0
