"""Golden files fix the canonical encoding of every schema version."""

from __future__ import annotations

from hashlib import sha256

import pytest

from eventlog import events as ev
from eventlog.codec.decoded import Recorded, events_of
from eventlog.log.commit import Commit
from eventlog.values import Model, Origin, Text
from tests.support.event_strategies import KINDS
from tests.support.golden_events import DIGESTS, EVENTS, EVENTS_OF_2, EVENTS_OF_3, GOLDEN, RUN, TIME, batches


def read(name: str, count: int) -> list[Recorded]:
    """The events of a golden file."""
    return list(events_of(Commit("s", 1, count, 1, 0, 0, (GOLDEN / name).read_bytes())))


@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_a_golden_file_is_what_it_was(name: str) -> None:
    """Golden files are frozen: each schema version's canonical encoding never changes."""
    assert sha256((GOLDEN / name).read_bytes()).hexdigest() == DIGESTS[name]


@pytest.mark.parametrize("name", sorted(batches()))
def test_the_encoding_of_the_current_schema_is_its_golden_file(name: str) -> None:
    """Equal events encode to the golden file's bytes, because digests are taken over them."""
    assert batches()[name] == (GOLDEN / name).read_bytes()


@pytest.mark.parametrize(("schema", "events"), [(2, EVENTS_OF_2), (3, EVENTS_OF_3), (4, EVENTS)])
def test_one_of_every_kind_is_in_the_golden_file_and_comes_back(schema: int, events: tuple[ev.Event, ...]) -> None:
    """Every event kind of schema versions 2 to 4 is read back from its golden bytes."""
    assert {type(event) for event in EVENTS} == set(KINDS)
    found = read(f"schema-{schema}-events.msgpack", len(events))
    assert [(recorded.time, recorded.event) for recorded in found] == [
        (TIME + number, event) for number, event in enumerate(events)
    ]


@pytest.mark.parametrize("schema", [2, 3, 4])
def test_the_golden_run_of_deltas_comes_back(schema: int) -> None:
    """A run of every schema version gives back every delta with its time."""
    assert [(recorded.time, recorded.event) for recorded in read(f"schema-{schema}-run.msgpack", 4)] == list(RUN)


@pytest.mark.parametrize("schema", [2, 3, 4])
def test_the_golden_escaped_batch_comes_back(schema: int) -> None:
    """Lone surrogates and U+10FFFF are read back from their escapes."""
    (recorded,) = read(f"schema-{schema}-escaped.msgpack", 1)
    assert recorded.event == ev.SessionRenamed("\ud800\U0010ffff0041")


def test_the_golden_batch_of_schema_1_is_upcast() -> None:
    """A batch of schema version 1, as it lies on disk, is read as events of today."""
    started, added, part, first, second = read("schema-1.msgpack", 5)
    assert started.event == ev.SessionStarted(
        "t", "scope", "/d", "build", Model("p", "m"), None, Origin("claude-code", "abc")
    )
    assert added.event == ev.UserMessageAdded("m1", "build")
    assert part.event == ev.PartStarted("m1", "p1", Text("hello"))
    assert [(first.time - TIME, first.event), (second.time - first.time, second.event)] == [
        (1_600_000_000_009 - TIME, ev.PartDelta("p2", "text", "a")),
        (4, ev.PartDelta("p2", "text", "bc")),
    ]
