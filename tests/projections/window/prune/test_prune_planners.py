"""The planners that look at more than age: what was superseded, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.values import Patch
from projections.conversation.parts import Message, NotePart, TextPart, ToolPart
from projections.window.policy.policy import Prices, PrunePolicy
from tests.support.prune_sessions import Letters, Talk, parts_of, plan, tools_of

SUPERSEDED = PrunePolicy(policy="superseded", protect=1_000, minimum=0)


@pytest.mark.parametrize(
    ("earlier", "later", "gone"),
    [
        (("bash", {"command": "ls", "cwd": "/"}), ("bash", {"cwd": "/", "command": "ls"}), True),
        (("bash", {"command": "ls"}), ("shell", {"command": "ls"}), False),
        (("bash", {"command": "ls"}), ("bash", {"command": "ls -l"}), False),
        (("read", {"filePath": "/a.py"}), ("read", {"filePath": "/a.py"}), True),
        (("read", {"filePath": "/a.py", "offset": 9}), ("read", {"filePath": "/a.py"}), True),
        (("read", {"filePath": "/a.py"}), ("read", {"filePath": "/a.py", "offset": 9}), True),
        (("read", {"filePath": "/a.py", "offset": 9}), ("read", {"filePath": "/a.py", "offset": 99}), False),
        (("read", {"filePath": "/a.py"}), ("read", {"filePath": "/b.py"}), False),
        (("read", {"filePath": "/x/../a.py"}), ("edit", {"filePath": "/a.py", "newString": "x"}), True),
        (("read", {"filePath": "/a.py", "offset": 9}), ("write", {"filePath": "/a.py", "content": "x"}), True),
        (("Read", {"file_path": "/a.py"}), ("MultiEdit", {"file_path": "/a.py", "edits": ["x"]}), True),
        (("Read", {"file_path": "/a.ipynb"}), ("NotebookEdit", {"notebook_path": "/a.ipynb"}), True),
        (("read_file", {"path": "a.py"}), ("write_file", {"path": "./a.py"}), True),
        (
            ("read", {"path": "a.py"}),
            ("apply_patch", {"input": "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch"}),
            True,
        ),
        (
            ("str_replace_based_edit_tool", {"command": "view", "path": "/a.py"}),
            ("str_replace_based_edit_tool", {"command": "str_replace", "path": "/a.py", "old_str": "x"}),
            True,
        ),
        (
            ("str_replace_based_edit_tool", {"command": "str_replace", "path": "/a.py", "old_str": "x"}),
            ("str_replace_based_edit_tool", {"command": "view", "path": "/a.py"}),
            False,
        ),
        (("edit", {"filePath": "/a.py", "newString": "x"}), ("read", {"filePath": "/a.py"}), False),
        (("grep", {"pattern": "x", "path": "/a.py"}), ("edit", {"filePath": "/a.py"}), False),
    ],
)
def test_what_supersedes_what(earlier: tuple[str, Any], later: tuple[str, Any], *, gone: bool) -> None:
    """A repeated call, or a file shown again or written, supersedes the earlier result."""
    talk = Talk()
    talk.user().step(talk.tool(100, earlier[0], input=earlier[1])).user().step(talk.tool(100, later[0], input=later[1]))
    talk.user()
    assert parts_of(plan(talk.messages, SUPERSEDED)) == (("t0",) if gone else ())


def test_an_error_goes_as_a_result_does_and_supersedes_nothing() -> None:
    """A later call of the same arguments supersedes it."""
    talk = Talk()
    for status in ("completed", "failed", "completed", "failed"):
        talk.user().step(talk.tool(100, "read", input={"filePath": "/a.py"}, status=status))
    talk.user().user()
    assert parts_of(plan(talk.messages, SUPERSEDED)) == ("t0", "t1")
    assert parts_of(plan(talk.messages, PrunePolicy(policy="recency", protect=0, minimum=0))) == (
        "t0",
        "t1",
        "t2",
        "t3",
    )
    assert parts_of(plan(talk.messages, PrunePolicy(policy="opencode", protect=0, minimum=0))) == ("t0", "t2")


def test_changed_files_supersede_what_was_read_of_them() -> None:
    """A record of changed files counts as a writing of each file, by any tool."""
    talk = Talk()
    talk.user().step(talk.tool(100, "read", input={"filePath": "/w/a.py"}))
    talk.step(talk.tool(100), NotePart("p", note=Patch("h", ("/w/a.py", "/w/b.py")))).user().user()
    assert parts_of(plan(talk.messages, SUPERSEDED)) == ("t0",)


PRICES = Prices(input=Decimal(3), cache_read=Decimal("0.3"), cache_write=Decimal("3.75"))


def cost(messages: Sequence[Message], pruned: set[str], policy: PrunePolicy) -> Decimal:
    """Return the cost of the expected requests if these are pruned now, token by token."""
    letters = Letters()
    sizes: list[tuple[int, bool]] = []
    for message in messages:
        results = [part for part in message.parts if isinstance(part, ToolPart)]
        texts = [part for part in message.parts if isinstance(part, TextPart)]
        sizes += [
            (letters.messages([Message("", user=True, version=0, created=0, parts=[part])]), False) for part in texts
        ]
        sizes += [(8 if part.id in pruned else letters.counted(part), part.id in pruned) for part in results]
    first = next((index for index, (_, changed) in enumerate(sizes) if changed), len(sizes))
    prefix = sum(size for size, _ in sizes[:first])
    suffix = sum(size for size, _ in sizes[first:])
    prices, requests = policy.prices, policy.expected_turns
    assert prices is not None
    assert requests is not None
    once = prefix * prices.cache_read + suffix * (prices.cache_write or prices.input)
    return once + (requests - 1) * (prefix + suffix) * prices.cache_read


@st.composite
def long_talks(draw: st.DrawFn) -> list[Message]:
    """Conversations of complete calls of very different sizes."""
    talk = Talk()
    for _ in range(draw(st.integers(2, 4))):
        talk.user("u" * draw(st.integers(0, 3_000)))
        for _ in range(draw(st.integers(0, 3))):
            talk.step(*[talk.tool(draw(st.integers(9, 4_000))) for _ in range(draw(st.integers(1, 2)))])
    return talk.messages


@given(long_talks(), st.integers(1, 60), st.integers(0, 3_000), st.sampled_from([Decimal("3.75"), Decimal(0)]))
def test_cost_aware_is_the_cheapest_beginning(
    messages: list[Message], requests: int, protect: int, write: Decimal
) -> None:
    """Of all places to begin at, the plan is the cheapest by a plain sum over the requests."""
    prices = msgspec.structs.replace(PRICES, cache_write=write)
    policy = PrunePolicy(policy="cost-aware", prices=prices, expected_turns=requests, protect=protect, minimum=10**9)
    everything = parts_of(plan(messages, msgspec.structs.replace(policy, policy="recency", minimum=0)))
    ordered = [part.id for _, part in tools_of(messages) if part.id in everything]
    choices = [set(ordered[index:]) for index in range(len(ordered) + 1)]
    found = set(parts_of(plan(messages, policy)))
    assert cost(messages, found, policy) == min(cost(messages, choice, policy) for choice in choices)


@pytest.mark.parametrize(("behind", "pays"), [(17_371, True), (17_372, False)])
def test_cost_aware_is_exact_at_the_edge(behind: int, *, pays: bool) -> None:
    """Ten requests save 19,992 tokens each at the cached price."""
    talk = Talk()
    talk.user().step(talk.tool(20_000)).user("u" * behind).user()
    policy = PrunePolicy(policy="cost-aware", protect=0, prices=PRICES, expected_turns=10)
    assert (plan(talk.messages, policy) is not None) is pays


OPENCODE = PrunePolicy(policy="opencode", protect=0, minimum=0)


def test_opencode_counts_every_user_message() -> None:
    """With OpenCode's planner the program's messages and markers make a turn older."""
    talk = Talk()
    talk.user().step(talk.tool(100)).user().step(talk.tool(100)).user(synthetic=True)
    assert parts_of(plan(talk.messages, OPENCODE)) == ("t0",)
    talk.compaction()
    assert parts_of(plan(talk.messages[:-1], OPENCODE)) == ("t0", "t1")
    assert plan(talk.messages, msgspec.structs.replace(OPENCODE, turns=0)) is None
