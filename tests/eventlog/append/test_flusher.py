"""The flush thread survives every error: events commit in time or an error is reported."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from time import sleep
from typing import NoReturn

import pytest

from eventlog.log.embedded.engine import open_log
from eventlog.session.text_stream import TextStream
from eventlog.store import Store
from tests.support.faulty_io import FaultyIO
from tests.support.faulty_log import FaultyLog
from tests.support.sample_sessions import said

PATIENCE = 30.0


def opened(store: Store, name: str) -> TextStream:
    """An open text of a new session whose start is committed."""
    session = store.create_session(id=name)
    session.executor.acquire()
    reply = session.assistant()
    reply.begin()
    text = reply.stream_text(id=f"{name} text")
    session.flush()
    return text


def stored(log: FaultyLog, name: str) -> dict[str, str]:
    """The events of a session that another program sees."""
    return said(Store(log, flush_interval=1000.0).session(name))


def unforeseen(*_: object) -> NoReturn:
    """Raise an error that the flush thread does not expect."""
    raise ZeroDivisionError


@pytest.mark.promise(1)
def test_a_session_that_fails_in_an_unforeseen_way_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Promise 1: an unexpected error in one session delays no other session's deltas."""
    log = FaultyLog()
    store = Store(log, flush_interval=0.005)
    broken, sound = opened(store, "broken"), opened(store, "sound")
    position = log.last_positions()[0]
    with monkeypatch.context() as patch:
        patch.setattr(broken._writer, "hand_over", unforeseen)
        broken.append("a")
        sound.append("b")
        assert log.wait_after([position], PATIENCE)
        sound.append("c")
        assert log.wait_after([position + 1], PATIENCE)
        assert stored(log, "broken") == {}
    assert log.wait_after([position + 2], PATIENCE)
    assert stored(log, "broken") == {"broken text": "a"}
    store.close()


def test_a_clock_that_fails_does_not_end_the_thread() -> None:
    """A failing clock does not end the flush thread: later deltas are committed as usual."""
    log = FaultyLog()
    ticking = [True]

    def clock() -> int:
        if not ticking[0]:
            raise ZeroDivisionError
        return 1_000

    store = Store(log, flush_interval=0.005, clock=clock)
    text = opened(store, "s")
    position = log.last_positions()[0]
    text.append("a")
    ticking[0] = False
    assert log.wait_after([position], PATIENCE)
    thread = store.host.flusher._thread
    assert thread is not None
    thread.join(0.1)
    assert thread.is_alive()
    ticking[0] = True
    text.append("b")
    assert log.wait_after([position + 1], PATIENCE)
    store.close()


@pytest.mark.promise(1)
def test_a_delta_that_comes_while_a_tick_catches_up_delays_no_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Promise 1: a delta that a tick itself takes along leaves the writer to the next tick."""
    log = FaultyLog()
    store = Store(log, flush_interval=0.005)
    text = opened(store, "s")
    position = log.last_positions()[0]
    queue = text._writer.queue
    catch_up = queue.catch_up

    def meanwhile() -> None:
        monkeypatch.undo()
        text.append("b")
        catch_up()

    monkeypatch.setattr(queue, "catch_up", meanwhile)
    text.append("a")
    assert log.wait_after([position + 1], PATIENCE)
    while store.host.flusher.writers():
        sleep(0.001)
    text.append("c")
    assert log.wait_after([position + 2], 5.0)
    assert stored(log, "s") == {"s text": "abc"}
    store.close()


@pytest.mark.promise(1)
def test_a_thread_that_cannot_be_started_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 1: deltas are accepted if no thread can start, and the next delta tries again."""
    log = FaultyLog()
    store = Store(log, flush_interval=0.005)
    start = Thread.start

    def none_left(thread: Thread) -> None:
        if thread.name == "eventlog-flush":
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", none_left)
        text = opened(store, "s")
        position = log.last_positions()[0]
        text.append("a")
        text.append("b")
    assert stored(log, "s") == {}
    text.append("c")
    assert log.wait_after([position], PATIENCE)
    assert stored(log, "s") == {"s text": "abc"}
    store.close()


@pytest.mark.promise(1)
def test_one_tick_commits_what_all_sessions_accepted_at_once(tmp_path: Path) -> None:
    """One flush commits the waiting deltas of all sessions with one sync of the disk."""
    io = FaultyIO()
    store = Store(open_log(tmp_path / "store", io=io), flush_interval=1000.0)
    texts: list[TextStream] = []
    for number in range(50):
        session = store.create_session(id=f"s{number}")
        session.executor.acquire()
        reply = session.assistant()
        reply.begin()
        texts.append(reply.stream_text())
        session.flush()
    before = store.log.last_positions()[0]
    io.calls.clear()
    for text in texts:
        text.append("a delta")
    store.host.flusher.tick()
    assert store.log.last_positions()[0] >= before + 50
    assert [name for name, _ in io.calls].count("fdatasync") == 1
    store.close()
