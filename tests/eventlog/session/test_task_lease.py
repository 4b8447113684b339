"""A lease belongs to one task and its children; another task waits or is refused."""

from __future__ import annotations

import time
from contextvars import copy_context
from threading import Event

import pytest

from eventlog import events as ev
from eventlog.errors import FencedError, LeaseHeldError
from eventlog.session.session import Session
from eventlog.store import Store
from tests.support.engines import Engine
from tests.support.faulty_log import FaultyLog
from tests.support.sample_sessions import apart, begin


def set_todos(session: Session) -> None:
    """Give a command that needs the lease."""
    session.set_todos([])


def test_another_thread_is_refused_until_it_is_handed_the_lease(store: Store) -> None:
    """A thread without the lease in its context is refused until it enters the lease."""
    session = store.create_session()

    def handed() -> None:
        with lease:
            set_todos(session)

    with session.lease() as lease:
        for refused in (lambda: set_todos(session), session.executor.acquire):
            with pytest.raises(LeaseHeldError):
                apart(refused)
        apart(handed)
        apart(lambda: session.user("needs no lease"))
    apart(lambda: set_todos(session))


@pytest.mark.promise(4)
def test_a_child_that_outlives_the_lease_is_fenced(store: Store) -> None:
    """Promise 4: a child task that outlives its parent's lease is fenced until it takes one."""
    session = store.create_session()

    def anew() -> None:
        with session.lease():
            set_todos(session)
        set_todos(session)

    with session.lease() as lease:
        child = copy_context()
        child.run(set_todos, session)
    version = session.version
    for late in (lambda: child.run(set_todos, session), lease.__enter__):
        with pytest.raises(FencedError):
            late()
    assert session.version == version
    child.run(anew)
    assert [type(recorded.event) for recorded in session.events(version)] == [ev.TodosSet] * 2


def test_a_lease_left_in_a_store_that_is_gone_stops_no_other(engine: Engine) -> None:
    """A lease never released ends with its store and blocks no new store's session."""
    with engine.open() as gone:
        gone.create_session(id="s").executor.acquire()
    with engine.open() as store:
        session = store.session("s")
        set_todos(session)
        assert not session.executor.holds_lease


def test_a_reply_gives_back_only_a_lease_of_its_own(store: Store) -> None:
    """A reply under the running task's lease ends without releasing it."""
    session = store.create_session()
    with session.lease() as lease:
        reply = session.assistant()
        reply.begin()
        reply.finish()
        assert lease.live
        assert session.executor.holds_lease
        set_todos(session)
    assert not session.executor.holds_lease


@pytest.mark.promise(4)
def test_what_another_owner_was_quicker_to_take_is_not_written_under(log: FaultyLog, session: Session) -> None:
    """Promise 4: nothing commits under a lost claim, even with the other lease's epoch."""
    other = Store(log, flush_interval=1000.0).session("s")

    def lose() -> None:
        with session.assistant(), other.lease():
            before = other.version
            for _ in range(2):
                with pytest.raises(LeaseHeldError):
                    session.append([(1, ev.TodosSet(()))])
                with pytest.raises(LeaseHeldError):
                    session.executor.commit([ev.TodosSet(())])
            assert other.version == before

    with pytest.raises(LeaseHeldError):
        lose()


def test_a_lease_on_its_way_back_holds_up_no_other_thread(log: FaultyLog, session: Session) -> None:
    """While the last append of a lease waits for the disk, another task is refused at once."""
    released = Event()

    def run() -> None:
        with session.executor.lease():
            with session.executor.collecting():
                set_todos(session)
            log.held = []
        released.set()

    giving = begin(run)
    while not log.held and not giving.done():
        time.sleep(0.01)
    with pytest.raises(LeaseHeldError):
        apart(session.executor.acquire)
    assert not released.is_set()
    log.let_go()
    assert released.wait(60.0)
    giving.result(60.0)
    apart(lambda: set_todos(session))
