"""Truncation when a tool finishes."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from projections.window.policy.policy import DEFAULT_POLICY, TruncationPolicy
from projections.window.retrieval.truncation import Bounds, bounds, count_lines, truncate

ALPHABET = st.sampled_from("ab \n\r\t中é𝄞\ud800\udc00\u2028")
PIECES = st.lists(st.tuples(st.text(ALPHABET, max_size=12), st.integers(1, 400)), max_size=8)
texts = PIECES.map(lambda pieces: "".join(text * times for text, times in pieces))
DIRECTIONS = ("head", "tail", "both")
policies = st.builds(
    TruncationPolicy,
    max_lines=st.integers(0, 60),
    max_bytes=st.integers(0, 4_000),
    direction=st.sampled_from(DIRECTIONS),
    window_share=st.none() | st.floats(0, 1),
)
MARKER = re.compile(
    r"\[(\d+) of (\d+) lines, (\d+) of (\d+) bytes left out here\. Read them with: "
    r"recall (\S+) lines (\d+)-(\d+), or bytes (\d+)-(\d+), or search TEXT\]"
)


def utf8(text: str) -> bytes:
    """The bytes that sizes are given in."""
    return text.encode("utf-8", "surrogatepass")


@given(texts, policies, st.none() | st.integers(0, 50_000))
@example("x" * 60_000, TruncationPolicy(), None)
@example("a\n" * 3_000, TruncationPolicy(direction="tail"), None)
def test_preview_is_within_the_limits(text: str, policy: TruncationPolicy, usable: int | None) -> None:
    """A text within the bounds is shown whole, and a preview with its marker is within them."""
    limits = bounds(policy, usable)
    found = truncate(text, policy, usable, part="prt_1")
    if count_lines(text) <= limits.lines and len(utf8(text)) <= limits.size:
        assert found is None
        return
    assert found is not None
    assert isinstance(found.preview, str)
    assert (found.lines, found.size, found.direction) == (count_lines(text), len(utf8(text)), policy.direction)
    assert len(utf8(found.preview)) <= limits.size
    assert count_lines(found.preview) <= limits.lines


@given(texts, policies, st.sampled_from(["prt_1", "p" * 256, "中" * 85]))
def test_marker_tells_exactly_what_is_missing(text: str, policy: TruncationPolicy, part: str) -> None:
    """The ranges of the marker, put between both sides of the preview, give the text again."""
    found = truncate(text, policy, None, part=part)
    if found is None:
        return
    assert isinstance(found.preview, str)
    told = MARKER.search(found.preview)
    assert told is not None
    before, after = found.preview[: told.start()], found.preview[told.end() :]
    numbers = [int(told[index]) for index in (1, 2, 3, 4, 6, 7, 8, 9)]
    missing_lines, lines, missing_bytes, size, first, last, start, end = numbers
    assert told[5] == part
    assert (lines, size) == (found.lines, found.size)
    omitted = utf8(text)[start:end]
    assert utf8(before)[start:] in (b"", b"\n")  # the marker is a line of its own
    assert utf8(before)[:start] + omitted + utf8(after.removeprefix("\n")) == utf8(text)
    assert missing_bytes == len(omitted) > 0
    assert missing_lines == last - first + 1 == count_lines(omitted.decode("utf-8", "surrogatepass"))
    assert utf8(before)[:start].count(b"\n") == first - 1
    assert utf8(text)[:end].count(b"\n") - omitted.endswith(b"\n") == last - 1


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("letter", ["x", "中", "𝄞", "\ud800"])
def test_one_long_line_is_not_an_empty_preview(direction: str, letter: str) -> None:
    """One line of 60 KB is cut between characters and mostly shown."""
    policy = TruncationPolicy(direction="head" if direction == "head" else "tail" if direction == "tail" else "both")
    text = letter * (60_000 // len(utf8(letter)))
    found = truncate(text, policy, None, part="prt_1")
    assert found is not None
    assert isinstance(found.preview, str)
    assert found.preview.count(letter) * len(utf8(letter)) > 50_000
    assert found.lines == 1


def test_lines_are_cut_between_lines() -> None:
    """A text of ordinary lines is cut between lines, and its ends are its own."""
    text = "".join(f"line {number}\n" for number in range(5_000))
    found = truncate(text, TruncationPolicy(), None, part="prt_1")
    assert found is not None
    assert isinstance(found.preview, str)
    lines = found.preview.splitlines()
    assert len(lines) == 2_000
    assert lines[:1_000] == [f"line {number}" for number in range(1_000)]
    assert lines[1_001:] == [f"line {number}" for number in range(4_001, 5_000)]
    assert lines[1_000].startswith("[3001 of 5000 lines, ")
    assert "lines 1001-4001," in lines[1_000]


@pytest.mark.parametrize(("direction", "shown"), [("head", ["line 0"]), ("tail", ["line 4999"])])
def test_direction_says_which_end_is_kept(direction: str, shown: list[str]) -> None:
    """`head` keeps the beginning only, `tail` the end only."""
    policy = TruncationPolicy(direction="head" if direction == "head" else "tail")
    text = "".join(f"line {number}\n" for number in range(5_000))
    found = truncate(text, policy, None, part="prt_1")
    assert found is not None
    assert isinstance(found.preview, str)
    ends = {"line 0", "line 4999"} & set(found.preview.splitlines())
    assert ends == set(shown)


def test_a_line_feed_at_the_end_begins_no_line() -> None:
    """2,000 lines are shown whole with or without a last line feed; one more is cut."""
    assert truncate("a\n" * 2_000, TruncationPolicy(), None, part="p") is None
    assert truncate("a\n" * 1_999 + "a", TruncationPolicy(), None, part="p") is None
    assert truncate("a\n" * 2_000 + "a", TruncationPolicy(), None, part="p") is not None
    assert truncate("x" * 51_200, TruncationPolicy(), None, part="p") is None
    assert truncate("x" * 51_201, TruncationPolicy(), None, part="p") is not None


def test_bounds_scale_with_the_window() -> None:
    """A large window has the policy's bounds, a small one both in proportion, with a minimum."""
    policy = DEFAULT_POLICY.truncation
    assert bounds(policy, None) == bounds(policy, 200_000) == Bounds(2_000, 51_200)
    assert bounds(policy, 24_000) == Bounds(351, 9_000)
    assert bounds(policy, 0) == Bounds(3, 1_024)
    fixed = TruncationPolicy(window_share=None)
    assert bounds(fixed, 24_000) == Bounds(2_000, 51_200)


def test_truncation_can_be_switched_off() -> None:
    """With `enabled` off the longest output is shown whole."""
    assert truncate("x\n" * 100_000, TruncationPolicy(enabled=False), 1_000, part="p") is None


@pytest.mark.parametrize("part", ["a\nb", "\ud800", "\x1b[31m" * 60])
def test_an_odd_id_keeps_the_marker_on_one_line(part: str) -> None:
    """An id that cannot stand in the marker is escaped, and the preview stays within limits."""
    found = truncate("x" * 5_000, TruncationPolicy(max_bytes=0), None, part=part)
    assert found is not None
    assert isinstance(found.preview, str)
    assert count_lines(found.preview) == 3
    assert len(found.preview.encode()) <= 1_024
