"""Threads of one process wait for each other's commands, and do nothing else to them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator

import pytest

from eventlog import events as ev
from eventlog.errors import LeaseHeldError
from eventlog.session.session import Session
from eventlog.store import Store
from tests.support.faulty_log import FaultyLog


def started(command: Callable[[], object]) -> threading.Thread:
    """Start a thread that runs a command."""
    thread = threading.Thread(target=command)
    thread.start()
    return thread


def test_a_request_of_another_thread_comes_behind_a_pipeline(session: Session, log: FaultyLog) -> None:
    """A request has an append of its own, which must not part the pipeline's."""
    before = session.version
    with session.pipeline():
        session.rename("one")
        other = started(lambda: session.user("x", request_id="r"))
        time.sleep(0.05)
        session.rename("two")
    other.join()
    assert [commit.count for commit in log.read("s", before)] == [2, 2]


def test_a_lease_is_not_given_back_in_front_of_what_needs_it(session: Session, log: FaultyLog) -> None:
    """Another thread's request goes in before a lease release and leaves the lease as it is."""
    with session.assistant(id="m") as reply:
        session.flush()
        log.held = []
        threads = [started(lambda: session.user("on its way"))]
        while not log.held:
            time.sleep(0.001)
        threads.append(started(lambda: session.user("x", request_id="r")))
        while not any(command.terms for command in session.executor.writer.queue.commands):
            time.sleep(0.001)
        threads.append(started(lambda: Store(log, flush_interval=1000.0).session("s").user("between")))
        finish = started(reply.finish)
        while not any(command.returns_lease for command in session.executor.writer.queue.commands):
            time.sleep(0.001)
        log.let_go()
        for thread in (*threads, finish):
            thread.join()
        assert not reply.is_open
    finished = [one.event for one in session.events() if isinstance(one.event, ev.MessageFinished)]
    assert [(one.message, one.error) for one in finished] == [("m", None)]


def test_who_waits_for_a_lease_holds_up_no_other_thread(session: Session, log: FaultyLog) -> None:
    """A thread that waits for a lease does not delay another thread's refusal."""
    heard = threading.Event()

    def wait() -> None:
        with session.lease(wait=60):
            pass

    def ask() -> None:
        with pytest.raises(LeaseHeldError):
            session.set_todos([])
        heard.set()

    with Store(log, flush_interval=1000.0).session("s").lease():
        waiting = started(wait)
        time.sleep(0.05)
        asking = started(ask)
        assert heard.wait(30)
        assert waiting.is_alive()
    waiting.join()
    asking.join()


def test_a_pipeline_that_another_thread_closes_is_over(session: Session, log: FaultyLog) -> None:
    """The next command of the thread that opened the pipeline is durable when it returns."""

    def opened() -> Generator[None]:
        with session.pipeline():
            yield

    block = opened()
    next(block)
    session.rename("inside")
    started(block.close).join()
    session.rename("after")
    reader = Store(log, flush_interval=1000.0).session("s")
    assert reader.info.title == "after"
