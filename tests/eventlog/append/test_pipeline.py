"""Pipelines: commands are accepted one by one and durable when the outermost block ends."""

from __future__ import annotations

import pytest

from eventlog import events as ev
from eventlog.errors import BusyError, NotFoundError
from eventlog.session.session import Session
from tests.support.engines import Engine
from tests.support.faulty_log import FaultyLog

SLOW = 3600.0
"""A flush interval no test waits for."""


def committed(session: Session) -> int:
    """Return the version that others see, without the accepted events."""
    head = session.store.log.head(session.id)
    assert head is not None
    return head.version


def test_a_pipeline_inside_another_is_the_other(engine: Engine) -> None:
    """An inner pipeline's commands go into the outer pipeline's one append."""
    store = engine.open(flush_interval=SLOW)
    session = store.create_session()
    appends = store.metrics().appends
    with session.pipeline():
        session.user("one")
        with session.pipeline():
            session.user("two")
        assert committed(session) == 1
    assert committed(session) == session.version == 5
    assert store.metrics().appends == appends + 1


def test_a_pipeline_left_by_an_error_waits_for_nothing(engine: Engine) -> None:
    """An error leaves the pipeline at once; its accepted commands go with the next append."""
    store = engine.open(flush_interval=SLOW)
    session = store.create_session()

    def two_commands() -> None:
        with session.pipeline():
            session.user("kept")
            session.unpin("no pin")

    with pytest.raises(NotFoundError):
        two_commands()
    assert committed(session) == 1
    session.rename("later")
    kinds = [type(recorded.event) for recorded in session.events()]
    assert kinds == [ev.SessionStarted, ev.UserMessageAdded, ev.PartStarted, ev.SessionRenamed]


@pytest.mark.promise(1)
def test_what_nobody_waited_for_is_flushed(engine: Engine) -> None:
    """Promise 1: collected commands left by an error are committed within the flush interval."""
    store, other = engine.open(flush_interval=0.01), engine.open(flush_interval=SLOW)
    session = store.create_session()
    positions = other.log.last_positions()

    def interrupted() -> None:
        with session.executor.collecting():
            session.user("not awaited")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert other.log.wait_after(positions, 60.0)
    assert committed(session) == 3


def test_a_collecting_caller_is_in_no_other_pipeline(engine: Engine) -> None:
    """Collected commands are their caller's to commit, also inside another pipeline."""
    session = engine.open(flush_interval=SLOW).create_session()
    with session.pipeline():
        with session.executor.collecting() as collected:
            session.user("mine")
        session.user("the pipeline's")
        assert committed(session) == 1
        collected.commit()
    assert committed(session) == 5


@pytest.mark.promise(4)
@pytest.mark.parametrize("begun", ["inside", "before"])
def test_a_refused_pipeline_leaves_no_lease_behind(log: FaultyLog, session: Session, begun: str) -> None:
    """Promise 4: after a refused pipeline that ended a reply, the next append holds no lease."""
    reply = session.assistant()
    if begun == "before":
        reply.__enter__()
        session.flush()

    def whole() -> None:
        with session.pipeline():
            if begun == "inside":
                reply.__enter__()
            reply.finish()
            reply.__exit__(None, None, None)
            log.fail = 1

    with pytest.raises(BusyError):
        whole()
    session.user("next")
    head = log.head("s")
    assert head is not None
    assert not head.lease.until
