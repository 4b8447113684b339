"""Token counting: exact counts of any text, estimates while it streams, and frames."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from projections.tokens import encodings as encodings_module
from projections.tokens.counter import (
    WINDOW,
    CharsCounter,
    TokenCounter,
    counter_named,
    frame_tokens,
    split,
    utf8_length,
)
from projections.tokens.encodings import ENCODINGS, encoder, encoding_for
from tests.support.shared import shared_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


CHINESE = "会话的每一次增量都是一个事件；压缩之后，视图仍然可以重建。我们先测量，再决定。"  # noqa: RUF001 - Chinese marks are meant


def whole(name: str, text: str) -> int:
    """Tiktoken's own count of the whole text."""
    return len(encoder(name).encode_ordinary(text))


def test_special_tokens_are_ordinary_text() -> None:
    """A text that spells a special token is counted as ordinary text."""
    counter = TokenCounter()
    assert counter.count("<|endoftext|>") == whole("o200k_base", "<|endoftext|>") > 1


def test_lone_surrogates_count_as_the_replacement_character() -> None:
    """Surrogates never raise: a lone one counts as U+FFFD, a pair as its character."""
    counter = TokenCounter()
    for filler in ("", "word " * WINDOW):
        assert counter.count(f"{filler}a\ud800b\udc00") == counter.count(f"{filler}a\ufffdb\ufffd")
        assert counter.count(f"{filler}a\ud83d\ude00") == counter.count(f"{filler}a\U0001f600")


ALPHABET = "abZÉßж中文が한 \n\r\t\u00a0\u3000'’.,;/\\(-_=“。，！0٣½́😀"  # noqa: RUF001 - every kind of boundary


@pytest.mark.parametrize("name", sorted(ENCODINGS))
@given(text=st.text(alphabet=ALPHABET, max_size=60) | st.text(max_size=60), limit=st.integers(1, 20))
@settings(max_examples=300, deadline=None)
def test_safe_cuts_change_no_count(name: str, text: str, limit: int) -> None:
    """A text between two safe cuts is encoded as inside the whole."""
    pieces = list(split(text, limit))
    assert "".join(piece for piece, _ in pieces) == text
    assert all(len(piece) <= limit for piece, _ in pieces)
    spans, span = [""], 0
    for piece, safe in pieces:
        spans[span] += piece
        if safe:
            spans.append("")
            span += 1
    tokens = [token for part in spans for token in encoder(name).encode_ordinary(part)]
    assert tokens == encoder(name).encode_ordinary(text)


def letters() -> str:
    """A reproducible run of letters without a boundary."""
    return "".join(random.Random(7).choices("etaoinshrdlu", k=200_000))


PATHOLOGICAL: dict[str, Callable[[], str]] = {
    "one letter": lambda: "a" * 1_000_000,
    "blanks": lambda: " " * 1_000_000,
    "newlines": lambda: "\n" * 300_000,
    "symbols": lambda: "^" * 300_000,
    "letters": letters,
    "hexadecimal": lambda: random.Random(7).randbytes(200_000).hex(),
    "Chinese without marks": lambda: "".join(c for c in CHINESE if c.isalpha()) * 3_000,
    "emoji": lambda: "😀👩‍👩‍👧" * 10_000,
}


@pytest.mark.parametrize("kind", sorted(PATHOLOGICAL))
def test_long_runs_are_counted_within_the_stated_error(kind: str) -> None:
    """Runs without a safe cut do not raise or take long, and err by a token per hard cut."""
    text = PATHOLOGICAL[kind]()
    hard = sum(not safe for _, safe in split(text, WINDOW))
    assert hard > 0
    # tiktoken itself overflows its stack on a million blanks, so the reference is a part of such a
    # text.
    part = text[: 100 * WINDOW]
    reference = whole("o200k_base", part)
    assert abs(TokenCounter().count(part) - reference) <= min(100, hard)
    assert TokenCounter().count(text) == pytest.approx(reference * len(text) / len(part), rel=0.02)


def test_long_ordinary_text_is_counted_exactly() -> None:
    """Prose, code, minified JSON and Chinese are counted to the token, however long."""
    code = Path(encodings_module.__file__).read_text("utf-8")
    minified = json.dumps([{"key": i, "value": "x y" * 3} for i in range(3_000)], separators=(",", ":"))
    for text in (code * 20, minified, CHINESE * 1_000, f"{CHINESE} It's mixed text, isn't it?\n" * 500):
        assert len(text) > 10 * WINDOW
        assert TokenCounter().count(text) == whole("o200k_base", text)
        assert TokenCounter("cl100k_base").count(text) == whole("cl100k_base", text)


@given(st.text())
@settings(max_examples=200, deadline=None)
def test_chars_counter_rounds_as_javascript_does(text: str) -> None:
    """`chars/4` is `Math.round(text.length / 4)` over UTF-16 units: halves go up."""
    units = sum(2 if ord(character) > 0xFFFF else 1 for character in text)
    assert CharsCounter().count(text) == math.floor(units / 4 + 0.5)


def test_chars_counter_by_example() -> None:
    """`chars/4` equals a JavaScript engine's values, also with a lone surrogate."""
    counts = [CharsCounter().count(text) for text in ("", "a", "ab", "abcdef", "😀", "😀\ud800", "中文中文中文")]
    assert counts == [0, 0, 1, 2, 1, 1, 2]


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base", "chars/4"])
def test_the_estimate_is_near_the_count(name: str) -> None:
    """The estimate of prose or Chinese, by its size alone, is within a quarter of the count."""
    counter = counter_named(name)
    for text in (CHINESE * 20, " ".join(str(test_the_estimate_is_near_the_count.__doc__) for _ in range(50))):
        pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
        estimated = counter.estimate(len(text), sum(map(utf8_length, pieces)))
        assert estimated == pytest.approx(counter.count(text), rel=0.25)


def recorded_texts() -> Iterator[list[str]]:
    """Every text of the recorded Claude Code and Chinese sessions, a list per file."""
    for path in sorted(shared_path("data", "entireio_claude_code").glob("*.jsonl")):
        texts: list[str] = []
        for line in path.read_text("utf-8", "replace").splitlines():
            try:
                content = json.loads(line)["message"]["content"]
            except (ValueError, KeyError, TypeError):
                continue
            for block in [content] if isinstance(content, str) else content:
                text = block if isinstance(block, str) else block.get("text") or block.get("thinking")
                texts += [text] if text else []
        yield texts
    for path in sorted(shared_path("data", "smile_zh").glob("*.json")):
        yield [message["content"] for message in json.loads(path.read_text("utf-8"))]


def test_the_sum_of_a_request_is_one_count_of_it() -> None:
    """Counting text by text is within 2 % of one count of the request, Chinese included."""
    counter, sessions, chinese = TokenCounter(), 0, 0
    for texts in recorded_texts():
        if not texts:
            continue
        content = sum(map(counter.count, texts))
        for mark in ("", "\n"):
            one = whole("o200k_base", mark.join(texts)) + frame_tokens(1)
            assert content + frame_tokens(1) == pytest.approx(one, rel=0.02)
        sessions += 1
        chinese += CharsCounter().count("".join(texts)) < 0.5 * content
    assert sessions > 15
    assert chinese > 5


def test_frames_are_what_the_provider_counts() -> None:
    """Text and frames add up to the prompt tokens that the provider reported."""
    checked = 0
    for path in sorted(shared_path("data", "pydantic_ai_cassettes").glob("*_agent_run_stream.yaml")):
        for exchange in yaml.safe_load(path.read_text("utf-8"))["interactions"]:
            request: dict[str, Any] = exchange["request"].get("parsed_body") or {}
            if request.get("model") != "gpt-4o" or request.get("tools") or "messages" not in request:
                continue
            answer = exchange["response"]["body"]["string"]
            chunks = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith("data: {")]
            reported = next(chunk["usage"]["prompt_tokens"] for chunk in chunks if chunk.get("usage"))
            texts = [message["content"] for message in request["messages"]]
            content = sum(map(TokenCounter(encoding_for("gpt-4o")).count, texts))
            assert content + frame_tokens(len(texts)) == reported
            checked += 1
    assert checked > 0


def test_an_empty_request_is_only_frames() -> None:
    """Frames are counted per message and once per request, apart from the texts."""
    assert frame_tokens(0) == 3
    assert frame_tokens(2) == 11
