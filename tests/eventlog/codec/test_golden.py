"""Golden files fix the canonical encoding of every schema version."""

from __future__ import annotations

from hashlib import sha256

import pytest

from eventlog import events as ev
from eventlog.codec.decoded import Recorded, events_of
from eventlog.log.commit import Commit
from tests.support.event_strategies import KINDS
from tests.support.golden_events import DIGESTS, EVENTS, GOLDEN, RUN, TIME, batches


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


def test_one_of_every_kind_is_in_the_golden_file_and_comes_back() -> None:
    """Every event kind is read back from its golden bytes."""
    assert {type(event) for event in EVENTS} == set(KINDS)
    found = read("schema-1-events.msgpack", len(EVENTS))
    assert [(recorded.time, recorded.event) for recorded in found] == [
        (TIME + number, event) for number, event in enumerate(EVENTS)
    ]


def test_the_golden_run_of_deltas_comes_back() -> None:
    """A run gives back every delta with its time."""
    assert [(recorded.time, recorded.event) for recorded in read("schema-1-run.msgpack", 4)] == list(RUN)


def test_the_golden_escaped_batch_comes_back() -> None:
    """Lone surrogates and U+10FFFF are read back from their escapes."""
    (recorded,) = read("schema-1-escaped.msgpack", 1)
    assert recorded.event == ev.SessionRenamed("\ud800\U0010ffff0041")
