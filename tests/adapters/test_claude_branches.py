"""Transcripts of Claude Code that go back to left branches: one view, imported and live."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.adapters.test_claude_links import (
    CLEARED,
    Records,
    answer,
    boundary,
    call,
    cleared,
    entry,
    results,
    user,
    view_of,
    words,
)

BEGUN = [user("u1", None, "one"), answer("c1", "u1", call("t1")), results("r1", "c1", t1="out")]


def summary(uuid: str, parent: str) -> dict[str, Any]:
    """The summary of a compaction."""
    return user(uuid, parent, f"summary {uuid}", isCompactSummary=True)


def test_a_result_cleared_on_another_branch_is_cleared_where_it_was() -> None:
    """A micro-compaction counts on its branch, also once it is left, and on no other."""
    one = [*BEGUN, user("u2", "r1", "two"), cleared("x", "u2", "t1")]
    other = [*one, user("u3", "r1", "three")]
    assert words(view_of(other, forks=1)) == ["u:one", "t1", "t1=out", "u:three"]
    back = [*other, user("u4", "x", "four"), cleared("y", "u4", "t1"), answer("a4", "y", "fourth")]
    assert words(view_of(back, forks=2)) == ["u:one", "t1", f"t1={CLEARED}", "u:two", "u:four", "a:fourth"]
    again = [*back, user("u5", "u3", "five"), cleared("z", "u5", "t1")]
    assert words(view_of(again, forks=3)) == ["u:one", "t1", f"t1={CLEARED}", "u:three", "u:five"]


@pytest.mark.parametrize("root", [True, False])
def test_a_micro_compaction_knows_the_calls_of_a_branch_that_was_left(root: bool) -> None:
    """Calls before a branch that was left can be cleared once the transcript is back."""
    left = user("v", None if root else "u1", "left")
    records = [*BEGUN, left, user("u2", "r1", "two"), cleared("x", "u2", "t1")]
    assert words(view_of(records, forks=2)) == ["u:one", "t1", f"t1={CLEARED}", "u:two"]


@pytest.mark.parametrize("is_list", [True, False])
def test_a_compaction_keeps_messages_of_a_branch_that_was_left(is_list: bool) -> None:
    """Kept messages stand behind the summary, also those of a branch that was left before."""
    kept: dict[str, Any] = {"preservedSegment": {"headUuid": "u2", "tailUuid": "u3"}}
    if is_list:
        kept = {"preservedMessages": {"uuids": ["u2", "v", "a2", "u3"]}}
    records = [
        user("u1", None, "one"),
        answer("a1", "u1", "first"),
        user("u2", "a1", "two"),
        answer("a2", "u2", "second"),
        user("v", "a1", "left"),
        user("u3", "a2", "three"),
        boundary("b", "u3", **kept),
        summary("sum", "b"),
        user("u4", "u3", "four"),
    ]
    assert words(view_of(records, forks=2))[1:] == ["a:summary sum", "u:two", "a:second", "u:three", "u:four"]


def test_a_call_that_a_left_branch_answered_is_open_where_it_was_made() -> None:
    """Back at a call without a result, a result completes it, and a compaction ends it."""
    records = [
        user("u1", None, "one"),
        answer("c1", "u1", call("t1"), call("t2")),
        user("u2", "c1", "two"),
        results("r1", "u2", t1="early"),
        user("u3", "c1", "three"),
        results("r2", "u3", t1="late"),
    ]
    assert words(view_of(records, forks=1))[:4] == ["u:one", "t1", "t2", "t1=late"]
    view_of([*records, boundary("b", "r2"), summary("sum", "b"), user("u4", "c1", "four")], forks=2)


def note(uuid: str, parent: str) -> dict[str, Any]:
    """A record that is no message."""
    return entry(uuid, "attachment", parent, attachment={"type": "hook_success"})


TALK = [user("u1", None, "one"), answer("a1", "u1", "first")]


@pytest.mark.parametrize("place", [2, 3])
@pytest.mark.parametrize("parent", ["n", "m"])
def test_what_follows_a_summary_may_stand_before_it(place: int, parent: str) -> None:
    """A record that is no message belongs to its summary's node, also if it stands before it."""
    records = [*TALK, boundary("b", "a1"), summary("sum", "b")]
    records[place:place] = [note("n", "sum"), note("m", "n")]
    records += [user("u2", parent, "two")]
    assert words(view_of(records))[1:] == ["a:summary sum", "u:two"]
    again = [*records, answer("a2", "u2", "second"), user("u3", parent, "three")]
    assert words(view_of(again, forks=1))[1:] == ["a:summary sum", "u:three"]


def test_a_record_behind_a_prompt_before_its_summary_begins_no_branch() -> None:
    """A conversation goes on over a summary that stands behind the prompt that names it."""
    records = [*TALK, boundary("b", "a1"), user("u2", "sum", "two"), summary("sum", "b"), answer("a2", "u2", "second")]
    view_of(records)


KEEPS: list[dict[str, Any]] = [
    {"preservedMessages": {"uuids": ["a1", "u2"]}},
    {"preservedSegment": {"headUuid": "a1", "tailUuid": "u2"}},
]


@pytest.mark.parametrize("keeps", KEEPS)
def test_a_message_may_be_kept_by_two_compactions(keeps: dict[str, Any]) -> None:
    """A message that an earlier compaction kept last is kept again, without its summary."""
    records = [
        *TALK,
        boundary("b", "a1", preservedMessages={"uuids": ["u1", "a1"]}),
        summary("s1", "b"),
        user("u2", "a1", "two"),
        boundary("d", "u2", **keeps),
        summary("s2", "d"),
        user("u3", "u2", "three"),
    ]
    view = ["a:summary s2", "a:first", "u:two"]
    assert words(view_of(records))[1:] == [*view, "u:three"]
    assert words(view_of([*records, user("u4", "u2", "four")], forks=1))[1:] == [*view, "u:four"]


def test_the_newest_compaction_says_where_a_message_goes_on_that_two_keep() -> None:
    """Back at a message that two compactions kept last, it goes on behind the newer one."""
    records = [
        *TALK,
        boundary("b", "a1", preservedMessages={"uuids": ["a1"]}),
        summary("s1", "b"),
        user("u2", "a1", "two"),
        boundary("d", "u2", preservedMessages={"uuids": ["a1"]}),
        summary("s2", "d"),
        user("u3", "a1", "three"),
        answer("a3", "u3", "third"),
    ]
    assert words(view_of(records))[1:] == ["a:summary s2", "a:first", "u:three", "a:third"]
    again = [*records, user("u4", "a1", "four")]
    assert words(view_of(again, forks=1))[1:] == ["a:summary s2", "a:first", "u:four"]


@pytest.mark.parametrize("place", [2, 3, 4])
@pytest.mark.parametrize("parent", ["n", "m"])
@pytest.mark.parametrize("is_list", [True, False])
def test_what_follows_the_last_kept_message_stands_behind_the_summary(place: int, parent: str, is_list: bool) -> None:
    """A prompt behind records that follow the last kept message stands behind the summary."""
    keeps: dict[str, Any] = {"preservedSegment": {"headUuid": "u1", "tailUuid": "a1"}}
    if is_list:
        keeps = {"preservedMessages": {"uuids": ["u1", "a1"]}}
    records = [*TALK, boundary("b", "a1", **keeps), summary("sum", "b")]
    records[place:place] = [note("n", "a1"), note("m", "n")]
    records += [user("u2", parent, "two")]
    view = ["a:summary sum", "u:one", "a:first"]
    assert words(view_of(records))[1:] == [*view, "u:two"]
    again = [*records, answer("a2", "u2", "second"), user("u3", parent, "three")]
    assert words(view_of(again, forks=1))[1:] == [*view, "u:three"]


@pytest.mark.parametrize("root", [True, False])
def test_results_of_a_left_branch_go_back_to_it(root: bool) -> None:
    """A result whose call is on a branch that was left is its call's, and the branch goes on."""
    records = [*BEGUN[:2], user("v", None if root else "u1", "other"), answer("w", "v", "answer")]
    view = ["u:other", "a:answer"] if root else ["u:one", "u:other", "a:answer"]
    assert words(view_of(records, forks=1)) == view
    after = [*records, BEGUN[2], answer("a1", "r1", "after")]
    assert words(view_of(after, forks=2)) == ["u:one", "t1", "t1=out", "a:after"]
    both = [*records, BEGUN[2], note("n", "c1"), user("u2", "n", "two"), answer("a2", "u2", "second")]
    assert words(view_of(both, forks=2)) == ["u:one", "t1", "t1=out", "u:two", "a:second"]
    assert words(view_of([*after, user("x", "w", "back")], forks=3)) == [*view, "u:back"]


def test_results_of_one_answer_go_back_together() -> None:
    """Several results of an answer on a left branch go back to it once."""
    records = [
        user("u1", None, "one"),
        answer("c1", "u1", call("t1"), call("t2")),
        user("v", None, "other"),
        results("r1", "c1", t1="first"),
        results("r2", "c1", t2="second"),
        answer("a1", "r2", "after"),
    ]
    assert words(view_of(records, forks=2)) == ["u:one", "t1", "t2", "t1=first", "t2=second", "a:after"]


def wandering(chance: random.Random, length: int) -> Records:
    """Make a transcript with rewinds, calls, micro-compactions and compactions."""
    records: Records = [user("u0", None, "say 0"), answer("a0", "u0", "ok 0")]
    last, calls, open_calls = "a0", list[str](), list[tuple[str, str]]()
    points = ["a0"]
    """Records behind which a prompt may stand."""
    for number in range(1, length):
        kind = chance.choice(
            ["prompt", "prompt", "answer", "call", "call", "result", "clear", "rewind", "rewind", "cut", "note", "note"]
        )
        if kind == "rewind":
            last = chance.choice(points[-12:])
            kind = "prompt"
        if kind == "result" and open_calls:
            parent, name = open_calls.pop(chance.randrange(len(open_calls)))
            records.append(results(f"r{number}", parent if chance.random() < 0.8 else last, **{name: f"out {number}"}))
        elif kind == "answer":
            records.append(answer(f"a{number}", last, f"ok {number}"))
        elif kind == "call":
            records.append(answer(f"c{number}", last, call(f"t{number}")))
            calls.append(f"t{number}")
            open_calls.append((f"c{number}", f"t{number}"))
        elif kind == "clear" and calls:
            records.append(cleared(f"x{number}", last, *chance.choices(calls[-8:], k=3)))
        elif kind == "note":
            records.insert(len(records) - chance.choice([0, 0, 1]), note(f"n{number}", last))
            last = f"n{number}"
            points.append(last)
            continue
        elif kind == "cut" and chance.random() < 0.3:
            uuids = chance.sample(points[-6:], k=min(2, len(points)))
            kept = {"preservedMessages": {"uuids": uuids}} if chance.random() < 0.5 else {}
            records += [boundary(f"b{number}", last, **kept), summary(f"s{number}", f"b{number}")]
        else:
            records.append(user(f"u{number}", last, f"say {number}"))
        last = str(records[-1]["uuid"])
        points.append(last)
    return records


@pytest.mark.parametrize("seed", range(24))
def test_rewinds_and_micro_compactions_give_one_view(seed: int) -> None:
    """However a transcript wanders between its branches, import and feed show the same."""
    view_of(wandering(random.Random(seed), 40), forks=None, steps=(1, 5, 10_000))
