"""Forks that begin with records: one append, and what a fork that is told them later says."""

from __future__ import annotations

from typing import Any

import pytest

from eventlog import AlreadyExistsError, CallError, Feed, NotFoundError, Store
from eventlog import events as ev
from projections import ModelView
from tests.support.engines import Engine
from tests.support.toy_records import ToyMapping

ASK: Any = {"kind": "user", "text": "What is in the directory?"}
CALL: Any = {
    "kind": "answer",
    "text": "I look",
    "calls": [{"id": "c1", "tool": "ls", "input": {"path": "/a/long/path"}}],
}
RESULT: Any = {"kind": "result", "call": "c1", "output": "one two three " * 900}
NAME = ("toys", "fork")


def shown(feed: Feed) -> list[Any]:
    """Return roles and parts of a view, whose ids are of no matter."""
    return [(message.role, message.parts) for message in ModelView.of(feed.session).messages]


@pytest.mark.parametrize("values", [[], [RESULT], [ASK, CALL], [RESULT, ASK, {"kind": "?", "blob": "x" * 5000}]])
@pytest.mark.parametrize("place", [0, 1, -1])
def test_it_says_what_a_fork_told_later_says(engine: Engine, values: list[Any], place: int) -> None:
    """Behind any record its records and view are those of a fork and an add."""
    feed = Feed(engine.open().create_session(), ToyMapping())
    numbers = feed.add([ASK, CALL, ASK])
    feed.session.set_note("a later event that is no record")
    fork = feed.fork(values, after=numbers[place], name=NAME)
    other = Feed(feed.session.fork(numbers[place]), ToyMapping())
    other.add(values)
    again = Feed(engine.open().session(fork.id), ToyMapping())
    assert again.read(again.path()) == other.read(other.path())
    assert shown(again) == shown(other)
    again.add([ASK])
    other.add([ASK])
    assert shown(again) == shown(other)
    assert feed.path() == numbers


def test_it_is_one_append(store: Store) -> None:
    """Its name and its records are in the append that begins it."""
    feed = Feed(store.create_session(), ToyMapping())
    numbers = feed.add([ASK, CALL])
    fork = feed.fork([RESULT, ASK], after=numbers[0], name=NAME)
    (commit,) = store.log.read(fork.id, numbers[0], fork.version)
    kinds = [type(recorded.event) for recorded in fork.events(numbers[0])]
    assert commit.count == len(kinds)
    assert kinds[:2] == [ev.SessionForked, ev.NameGiven]
    assert kinds.count(ev.RecordKept) == 2


def test_a_fork_that_cannot_be_leaves_nothing(store: Store) -> None:
    """A taken name, a version of no record and a value that is no JSON are refused."""
    feed = Feed(store.create_session(), ToyMapping())
    numbers = feed.add([ASK, CALL])
    store.open_session(NAME)
    for error, values, after in (
        (AlreadyExistsError, [ASK], numbers[0]),
        (NotFoundError, [ASK], numbers[0] - 1),
        (CallError, [object()], numbers[0]),
        (CallError, [ASK], -1),
    ):
        with pytest.raises(error):
            feed.fork(values, after=after, name=NAME)
    assert [info.fork_of for info in store.sessions()] == [None, None]
