"""Appends in bulk: none waits for the one before, and each is decided like any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import eventlog
from eventlog import Session, Store
from eventlog import events as ev
from eventlog.append.bulk import MOST_APPENDS, BulkAppender
from eventlog.errors import AlreadyExistsError, BusyError, ConflictError, LeaseHeldError, NotFoundError
from eventlog.state.loader import newest_state
from eventlog.values import Text
from tests.support.faulty_log import FaultyLog


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Give a store in a directory, with a checkpoint every hundred events."""
    with eventlog.open(tmp_path / "s", checkpoint_events=100) as opened:
        yield opened


def asked(number: int) -> list[tuple[int, ev.Event]]:
    """The events of a question."""
    message = f"m{number:06d}"
    return [
        (number, ev.UserMessageAdded(message)),
        (number, ev.PartStarted(message, f"p{number:06d}", Text(f"question {number}"))),
    ]


def bulk_of(session: Session) -> BulkAppender:
    """Begin bulk appends to a session whose lease is free."""
    bulk = session.executor.bulk()
    assert bulk is not None
    return bulk


def test_bulk_leaves_what_single_appends_leave(store: Store) -> None:
    """Appends in bulk give the commits, state and checkpoints of single ones."""
    one, many = store.create_session(id="one"), store.create_session(id="many")
    questions = [asked(number) for number in range(2 * MOST_APPENDS + 20)]
    for question in questions:
        one.append(question)
    bulk = bulk_of(many)
    for question in questions:
        bulk.append(question, {})
    assert bulk.version == one.version
    bulk.wait()
    for alone, together in zip(store.log.read("one", 1), store.log.read("many", 1), strict=True):
        assert (alone.first, alone.count, alone.time, alone.payload) == (
            together.first,
            together.count,
            together.time,
            together.payload,
        )
    assert many.info.messages == one.info.messages == len(questions)
    assert newest_state(store.log, "many", many.version) == many.version
    assert list(many.reader.wrong_checkpoints(many.version)) == []
    assert sorted(many.reader.state().messages.items()) == sorted(one.reader.state().messages.items())


def test_a_refused_append_leaves_the_others(store: Store) -> None:
    """An append that the rules refuse is left out whole; those around it go in."""
    session = store.create_session()
    bulk = bulk_of(session)
    bulk.append(asked(1), {})
    with pytest.raises(NotFoundError):
        bulk.append([*asked(2), (2, ev.PartEnded("unknown"))], {})
    bulk.append(asked(3), {})
    with pytest.raises(AlreadyExistsError):
        bulk.append(asked(1), {})
    bulk.wait()
    assert [found.event.message for found in session.events() if isinstance(found.event, ev.UserMessageAdded)] == [
        "m000001",
        "m000003",
    ]


def test_another_writer_ends_the_work(store: Store) -> None:
    """Behind another writer's append nothing more goes in, and no checkpoint is stored."""
    session = store.create_session()
    bulk = bulk_of(session)
    for number in range(200):
        bulk.append(asked(number), {})
    bulk.wait()
    stored = newest_state(store.log, session.id, session.version)
    session.user("between")
    for number in range(200, 320):
        bulk.append(asked(number), {})
    with pytest.raises(ConflictError):
        bulk.wait()
    bulk.wait()
    assert newest_state(store.log, session.id, bulk.version) == stored
    assert session.version == 1 + 400 + 2
    assert bulk_of(session).version == session.version


def test_the_lease_is_respected(tmp_path: Path) -> None:
    """Another owner's lease ends the work; with one of its own a handle does not work in bulk."""
    with eventlog.open(tmp_path / "s") as one, eventlog.open(tmp_path / "s") as two:
        session = one.create_session(id="a")
        bulk = bulk_of(session)
        bulk.append(asked(1), {})
        bulk.wait()
        with two.session("a").assistant(model="p/m") as reply:
            reply.stream_text().append("x")
            two.flush()
            with pytest.raises(LeaseHeldError):
                bulk.append(asked(2), {})
            reply.finish("stop")
        with session.lease():
            assert session.executor.bulk() is None


def test_the_first_failure_is_told() -> None:
    """Of several failed appends the first one's error is raised."""
    log = FaultyLog()
    session = Store(log).create_session(id="s")
    bulk = bulk_of(session)
    bulk.append(asked(1), {})
    log.fail, log.error = 1, BusyError("full")
    bulk.append(asked(2), {})
    bulk.append(asked(3), {})
    with pytest.raises(BusyError, match="full"):
        bulk.wait()
    assert session.version == 3
