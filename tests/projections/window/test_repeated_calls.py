"""Doom loops: repeated identical calls are reported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.values import Content
from projections.conversation.parts import Message, TextPart, ToolPart
from projections.window.repeated_calls import RepeatedCall, repeated_call


class Plain:
    """A measure that is asked for texts only."""

    def text(self, content: Content) -> str:
        """The text, which is never a body here."""
        return cast("str", content)

    def messages(self, messages: Sequence[Message]) -> int:
        """Fail: the check must not ask for messages."""
        raise AssertionError(messages)

    def sent(self, message: Message) -> int:
        """Fail: the check must not ask for the rendered message."""
        raise AssertionError(message)

    def counted(self, part: ToolPart) -> int:
        """Fail: no call is counted."""
        raise AssertionError(part)

    @property
    def ratio(self) -> float:
        """Fail: no ratio is asked for."""
        raise AssertionError


def call(name: str, tool: str, given: str) -> ToolPart:
    """A completed call."""
    return ToolPart(name, call=name, tool=tool, status="completed", input=given, output=name)


def answer(*parts: ToolPart | TextPart) -> Message:
    """An assistant message."""
    return Message("m", user=False, version=1, created=0, parts=list(parts))


def found(*messages: Message, limit: int = 3) -> RepeatedCall | None:
    """The reported repeated call."""
    return repeated_call(reversed(messages), limit, Plain())


CALLS = st.tuples(st.sampled_from(["bash", "read"]), st.sampled_from(['{"a":1}', '{"a":2}', "{"]))


@given(st.lists(st.lists(CALLS, max_size=4), max_size=5), st.integers(0, 4))
def test_the_newest_row_is_counted(steps: list[list[tuple[str, str]]], limit: int) -> None:
    """The report names all newest equal calls in a row, across messages."""
    messages = [
        answer(*[call(f"{step}.{index}", *given) for index, given in enumerate(calls)])
        for step, calls in enumerate(steps)
    ]
    calls = [(given, f"{step}.{index}") for step, made in enumerate(steps) for index, given in enumerate(made)]
    rows = [(key, [name for _, name in row]) for key, row in groupby(calls, key=lambda made: made[0])]
    report = found(*messages, limit=limit)
    if limit and rows and len(rows[-1][1]) >= limit:
        (tool, _), names = rows[-1]
        assert report == RepeatedCall(tool, len(names), tuple(names))
    else:
        assert report is None


def test_inputs_are_compared_as_json() -> None:
    """Inputs compare as JSON, independent of order and blanks; invalid JSON as text."""
    one, same = '{"a": 1, "b": [1, 2]}', '{"b":[1,2],"a":1}'
    assert found(answer(call("1", "t", one), call("2", "t", same), call("3", "t", one))) is not None
    assert found(answer(call("1", "t", one), call("2", "t", '{"b":[2,1],"a":1}'), call("3", "t", one))) is None
    assert found(answer(call("1", "t", "{"), call("2", "t", "{"), call("3", "t", "{"))) is not None


def test_a_pending_call_counts_by_what_has_streamed() -> None:
    """A call about to run counts, so the loop is seen before its third run."""
    given: dict[str, Any] = {"command": "ls"}
    pending = ToolPart("3", tool="t", pieces=[*json.dumps(given)])
    assert found(answer(call("1", "t", json.dumps(given)), call("2", "t", json.dumps(given)), pending)) is not None


@pytest.mark.parametrize(("synthetic", "expected"), [(False, None), (True, RepeatedCall("t", 3, ("1", "2", "3")))])
def test_a_word_of_the_user_ends_the_row(*, synthetic: bool, expected: RepeatedCall | None) -> None:
    """A user's message ends the row; a synthetic message or a text does not."""
    user = Message("u", user=True, version=1, created=0, synthetic=synthetic)
    text = TextPart("x", pieces=["again"])
    first = answer(call("1", "t", "{}"), call("2", "t", "{}"))
    assert found(first, user, answer(text, call("3", "t", "{}"))) == expected


def test_removed_calls_do_not_count() -> None:
    """A removed call neither counts nor splits a row."""
    gone = call("2", "t", '{"other":1}')
    gone.removed = True
    assert found(answer(call("1", "t", "{}"), gone, call("3", "t", "{}"), call("4", "t", "{}"))) == RepeatedCall(
        "t", 3, ("1", "3", "4")
    )
