"""The first counts of a process, without the native encoder, equal the encoder's."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from projections.tokens import encodings as encodings_module
from projections.tokens.counter import TokenCounter
from projections.tokens.encodings import ENCODINGS, FEW, LONGEST, PairCounter, encoder, read_tokens
from tests.support.shared import shared_path

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = sorted(ENCODINGS)
WORDS = (
    "the", "The", "THE", "don't", "I'LL", "it's'", "x", "getHTTPResponse", "snake_case", " ", "  ", "\n", "\r\n", "\n\n ", "\t",
    " \n ", "\v", "\f", "\x1c", "\x1f", "\0", "1", "12", "12345", "//", "->", "...", "==", "'s", "'S", "'", "#" * 20, "/\n", "zqxj",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(WORDS), max_size=30).map("".join) | st.text(
    st.characters(max_codepoint=127), max_size=60
)


@cache
def ranks(name: str) -> dict[bytes, int]:
    """The ranks of one vocabulary."""
    return {token: rank for rank, token in enumerate(read_tokens(name))}


def fresh(name: str) -> PairCounter:
    """A counter that has counted nothing."""
    return PairCounter(ranks(name), ENCODINGS[name].ascii)


@pytest.fixture
def not_loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Simulate a process without a count so far; return the encoders built since."""
    built: list[str] = []
    build = encodings_module._build

    def noted(name: str) -> object:
        built.append(name)
        return build(name)

    monkeypatch.setattr(encodings_module, "_encoders", {})
    monkeypatch.setattr(encodings_module, "_first", {})
    monkeypatch.setattr(encodings_module, "_build", noted)
    return built


@pytest.mark.parametrize("name", NAMES)
@given(text=TEXTS)
@settings(max_examples=500, deadline=None)
def test_ascii_counts_as_the_native_encoder_counts_it(name: str, text: str) -> None:
    """ASCII text with any blanks, marks and contractions counts as natively."""
    counted = fresh(name).count(text)
    if counted is None:
        assert max(map(len, re.findall(ENCODINGS[name].ascii, text, re.ASCII))) > LONGEST
    else:
        assert counted == len(encoder(name).encode_ordinary(text))


@pytest.mark.parametrize("name", NAMES)
def test_long_pieces_count_alike_up_to_their_limit(name: str) -> None:
    """Pieces that are no token are merged in the native encoder's order."""
    source = random.Random(3)
    for length in range(1, LONGEST + 1):
        for letters in ("abcdefghijklmnopqrstuvwxyz", "etaoin", "zq", "#=-*"):
            piece = "".join(source.choices(letters, k=length))
            assert fresh(name).count(piece) == len(encoder(name).encode_ordinary(piece))
    assert fresh(name).count("zq" * LONGEST) is None
    longest = max((token for token in ranks(name) if token.isascii()), key=len).decode()
    assert fresh(name).count(longest) == 1


def recorded() -> Iterator[str]:
    """Recorded texts of people and models, and output of programs."""
    root = shared_path("data")
    for path in sorted(root.rglob("*"))[:400]:
        if path.is_file() and path.suffix in {".jsonl", ".json", ".md", ".sse", ".txt"}:
            yield path.read_text(encoding="utf-8", errors="ignore")[:4096].encode("ascii", "ignore").decode()


def test_recorded_text_counts_alike() -> None:
    """The beginnings of recorded files count as natively, in both encodings."""
    texts = list(recorded())
    assert len(texts) > 20
    for name in NAMES:
        counts = [fresh(name).count(text) for text in texts]
        assert counts.count(None) < len(texts) // 10
        for text, counted in zip(texts, counts, strict=True):
            assert counted is None or counted == len(encoder(name).encode_ordinary(text))


def test_a_few_short_texts_are_counted_without_the_native_encoder(not_loaded: list[str]) -> None:
    """The native encoder is built by the text that makes it worth while; counts stay equal."""
    counter = TokenCounter()
    text = Path(__file__).read_text(encoding="ascii")
    counts = {counter.count(text) for _ in range(FEW // len(text) // 2)}
    assert not not_loaded
    counts |= {counter.count(text) for _ in range(FEW // len(text))}
    assert not_loaded == ["o200k_base"]
    assert len(counts) == 1
    assert not encodings_module._first


@pytest.mark.parametrize(
    "text", ["\u4f1a\u8bdd", "caf\u00e9", "word " * FEW, "zq" * LONGEST], ids=["Chinese", "accent", "long", "piece"]
)
def test_what_is_not_short_ascii_has_the_native_encoder_built(not_loaded: list[str], text: str) -> None:
    """Non-ASCII, long texts, and long pieces that are no token go to the native encoder."""
    first = TokenCounter().count(text)
    assert not_loaded == ["o200k_base"]
    assert first == TokenCounter().count(text)
