"""Doom loops: identical calls in a row, and two that alternate, are seen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.conversation.parts import Message, TextPart, ToolPart
from projections.window.prune.repeated_calls import RepeatedCall, repeated_call


def call(name: str, tool: str, given: str) -> ToolPart:
    """A completed call."""
    return ToolPart(name, call=name, tool=tool, status="completed", input=given, output=name)


def answer(*parts: ToolPart | TextPart) -> Message:
    """An assistant message."""
    return Message("m", user=False, version=1, created=0, parts=list(parts))


def found(*messages: Message, limit: int = 3) -> RepeatedCall | None:
    """Return the repeated call."""
    return repeated_call(reversed(messages), limit, str)


CALLS = st.tuples(st.sampled_from(["bash", "read"]), st.sampled_from(['{"a":1}', '{"a":2}', "{"]))


@given(st.lists(st.lists(CALLS, max_size=4), max_size=5), st.integers(0, 4))
def test_the_newest_row_is_counted(steps: list[list[tuple[str, str]]], limit: int) -> None:
    """The report names all of the newest equal or alternating calls, also across messages."""
    messages = [
        answer(*[call(f"{step}.{index}", *given) for index, given in enumerate(calls)])
        for step, calls in enumerate(steps)
    ]
    calls = [(given, f"{step}.{index}") for step, made in enumerate(steps) for index, given in enumerate(made)]
    equal = [name for key, name in calls if all(later == key for later, _ in calls[calls.index((key, name)) :])]
    many = len(calls)
    turns = (n for n in range(many, 0, -1) if all(calls[i][0] == calls[i - 2][0] for i in range(many - n + 2, many)))
    changes = next(turns, 0)
    report = found(*messages, limit=limit)
    names = equal if len(equal) >= limit else [name for _, name in calls[-changes:]]
    if limit and calls and (len(equal) >= limit or changes >= 2 * limit):
        assert report is not None
        assert report.parts == tuple(names)
        assert report.tools == tuple(key[0] for key, name in calls if name in names)[: 1 if names is equal else 2]
    else:
        assert report is None


@pytest.mark.parametrize(
    ("calls", "times"),
    [("ababab", 6), ("xababab", 6), ("aababab", 6), ("babab", 0), ("abcabcabc", 0), ("abababc", 0), ("bababab", 7)],
)
def test_two_calls_that_alternate_are_a_doom_loop(calls: str, times: int) -> None:
    """Each is made three times in turn; three calls in turn, or another call since, are none."""
    report = found(*[answer(call(str(number), name, "{}")) for number, name in enumerate(calls)])
    assert (0 if report is None else len(report.parts)) == times
    if report is not None:
        first, second = report.tools
        assert {first, second} == {"a", "b"}
        assert f"of {first} and {second}, {times} times in a row" in report.sentence


def test_inputs_are_compared_as_json() -> None:
    """Order and blanks of the input make no difference, a value does."""
    one, same = '{"a": 1, "b": [1, 2]}', '{"b":[1,2],"a":1}'
    assert found(answer(call("1", "t", one), call("2", "t", same), call("3", "t", one))) is not None
    assert found(answer(call("1", "t", one), call("2", "t", '{"b":[2,1],"a":1}'), call("3", "t", one))) is None
    assert found(answer(call("1", "t", "{"), call("2", "t", "{"), call("3", "t", "{"))) is not None


def test_a_pending_call_counts_by_what_has_streamed() -> None:
    """A call that is about to run counts: the loop is seen before it runs a third time."""
    given: dict[str, Any] = {"command": "ls"}
    pending = ToolPart("3", tool="t", pieces=[*json.dumps(given)])
    assert found(answer(call("1", "t", json.dumps(given)), call("2", "t", json.dumps(given)), pending)) is not None


@pytest.mark.parametrize(("synthetic", "expected"), [(False, None), (True, RepeatedCall(("t",), ("1", "2", "3")))])
def test_a_word_of_the_user_ends_the_row(*, synthetic: bool, expected: RepeatedCall | None) -> None:
    """Calls before the user's last word do not count."""
    user = Message("u", user=True, version=1, created=0, synthetic=synthetic)
    text = TextPart("x", pieces=["again"])
    first = answer(call("1", "t", "{}"), call("2", "t", "{}"))
    assert found(first, user, answer(text, call("3", "t", "{}"))) == expected


def test_removed_calls_do_not_count() -> None:
    """A removed call neither counts nor splits a row."""
    gone = call("2", "t", '{"other":1}')
    gone.removed = True
    assert found(answer(call("1", "t", "{}"), gone, call("3", "t", "{}"), call("4", "t", "{}"))) == RepeatedCall(
        ("t",), ("1", "3", "4")
    )
