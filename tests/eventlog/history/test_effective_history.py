"""Effective history after rollbacks and forks equals a model that stores plain lists."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.errors import DamagedError
from eventlog.history.effective_history import END, History
from eventlog.history.ranges import without

STEPS = st.lists(st.none() | st.integers(0, 1 << 30), max_size=60)
"""The next version: an event (None), or a rollback to one of the versions before it."""


@pytest.mark.parametrize("to", [-1, 0, 3, 4, 1 << 62])
def test_rollback_to_no_version_before_it_is_damage(to: int) -> None:
    """A stored rollback leads back, or it is refused: no walk along it is without an end."""
    history = History()
    history.roll_back(2, 1)
    with pytest.raises(DamagedError, match="not before it"):
        history.roll_back(3, to)


def grow(steps: list[int | None]) -> tuple[History, list[list[int]]]:
    """A history, and per version the list of versions that were effective right after it."""
    history = History()
    lists: list[list[int]] = [[]]
    for pick in [None, *steps]:
        version = len(lists)
        if pick is None:
            lists.append([*lists[-1], version])
        else:
            to = pick % (version - 1) + 1
            history.roll_back(version, to)
            lists.append([*lists[to], version])
    return history, lists


def spelled(ranges: list[tuple[int, int]]) -> list[int]:
    """The versions of ranges, one by one."""
    return [version for first, last in ranges for version in range(first, last + 1)]


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_effective_history_is_the_list_it_went_back_to(steps: list[int | None]) -> None:
    """A rollback to version v restores the history as it was right after v, for every v."""
    history, lists = grow(steps)
    now = len(lists) - 1
    for version in range(1, now + 1):
        ranges = history.at(version)
        assert spelled(ranges) == lists[version]
        assert all(after[0] > before[1] + 1 for before, after in pairwise(ranges))
    assert {version for version in range(-1, now + 1) if history.holds(version)} == set(lists[now])
    assert history.holds(now + 1)
    assert history.holds(END)


@settings(max_examples=100, deadline=None)
@given(STEPS, st.integers(0, 60))
def test_taking_rollbacks_back_is_as_if_they_never_were(steps: list[int | None], count: int) -> None:
    """Retracting rollbacks of a failed append restores exactly the earlier history."""
    kept = steps[: len(steps) - count]
    history, _ = grow(steps)
    for pick in steps[len(kept) :]:
        if pick is not None:
            history.cut(history.starts[-1] - 1)
    assert history == grow(kept)[0]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["event", "back", "hidden", "redo"]), max_size=40), st.data())
def test_redo_answers_the_newest_rollback(commands: list[str], data: st.DataObject) -> None:
    """Only a return to right before the newest open rollback is a redo."""
    history, lists = grow([])
    waiting: list[int] = []
    for command in commands:
        version = len(lists)
        hidden_ones = sorted(set(range(1, version)) - set(lists[-1]))
        if command == "event":
            lists.append([*lists[-1], version])
            continue
        if command == "redo" and waiting:
            assert history.to_redo() == waiting[-1]
            target = waiting[-1] - 1
        elif command == "hidden" and hidden_ones:
            target = data.draw(st.sampled_from(hidden_ones))
        else:
            target = data.draw(st.integers(1, version - 1))
        if waiting and target == waiting[-1] - 1:
            waiting.pop()
        else:
            waiting.append(version)
        history.roll_back(version, target)
        lists.append([*lists[target], version])
        assert spelled(history.at(version)) == lists[version]
    assert history.to_redo() == (waiting[-1] if waiting else None)


@given(STEPS)
def test_hidden_is_what_is_not_effective(steps: list[int | None]) -> None:
    """Hidden and effective versions partition the history."""
    history, lists = grow(steps)
    now = len(lists) - 1
    assert spelled(without([(1, now)], history.at(now))) == sorted(set(range(1, now + 1)) - set(lists[now]))
