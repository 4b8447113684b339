"""Tokens of successive views: the shared beginning is counted once, and sums are exact."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.codec.large_texts import INLINE
from projections.tokens.counter import CharsCounter
from projections.view.messages import Messages
from projections.view.neutral import Call, File, NeutralMessage, Result, Text
from projections.view.token_count import ViewCounter

PICTURE = File("image/png", "data:image/png;base64,AAAA", "a.png")


class Counting(CharsCounter):
    """A counter of characters that records the texts it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails = False

    def count(self, text: str) -> int:
        """Count as the estimate does."""
        if self.fails:
            raise LookupError(text)
        self.asked.append(text)
        return super().count(text)


def user(text: str) -> NeutralMessage:
    """A user message."""
    return NeutralMessage("user", (Text(text),))


texts = st.text(max_size=9) | st.integers(0, 3).map(lambda number: "x" * (INLINE + number))


@st.composite
def messages(draw: st.DrawFn) -> NeutralMessage:
    """A message of any role."""
    text, role = draw(texts), draw(st.sampled_from(["user", "tool", "assistant"]))
    if role == "user":
        return user(text)
    if role == "tool":
        return NeutralMessage("tool", (Result("1", "b", text, files=(PICTURE,)), Result("2", "b", text)))
    return NeutralMessage("assistant", (Text(text), Call("1", "bash", text)))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(messages(), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6),
    st.lists(st.text(max_size=3), max_size=2),
)
def test_views_that_follow_each_other(
    pool: list[NeutralMessage], steps: list[tuple[int, int]], system: list[str]
) -> None:
    """The count of each view equals a new counter's, wherever the view begins to differ."""
    counter = ViewCounter(CharsCounter())
    view: list[NeutralMessage] = []
    for keep, more in steps:
        view = view[:keep] + [pool[(keep + number) % len(pool)] for number in range(more)]
        tools = "[]" if keep % 2 else None
        assert counter.count(view, system, tools) == ViewCounter(CharsCounter()).count(view, system, tools)
        assert counter.count(Messages(view)) == ViewCounter(CharsCounter()).count(view)


def test_only_what_is_new_is_counted() -> None:
    """After a change in the middle the changed message is counted, and no other text."""
    asking = Counting()
    counter = ViewCounter(asking)
    view = [user(f"message {number}") for number in range(100)]
    before = counter.count(view, ("header",), "[]")
    asking.asked.clear()
    view = [*view[:50], user("other"), *view[51:], user("new")]
    assert (
        counter.count(view, ("header",), "[]") == ViewCounter(CharsCounter()).count(view, ("header",), "[]") != before
    )
    assert asking.asked == ["other", "new"]


def test_a_count_that_failed_changes_nothing() -> None:
    """A failed count changes nothing: the next one is right."""
    asking = Counting()
    counter = ViewCounter(asking)
    view = [user(f"message {number}") for number in range(9)]
    counter.count(view)
    asking.fails = True
    with pytest.raises(LookupError):
        counter.count([*view[:3], user("other"), *view[4:]])
    asking.fails = False
    for again in (view, view[:3], [*view, user("new")]):
        assert counter.count(again) == ViewCounter(CharsCounter()).count(again)
