"""The flusher's thread outlives every error: accepted deltas are committed in time."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import NoReturn

import pytest

from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.filesystem import JournalIO
from eventlog.session.text_stream import TextStream
from eventlog.store import Store
from tests.support.faulty_log import FaultyLog
from tests.support.sample_sessions import said

PATIENCE = 30.0


def opened(store: Store, name: str) -> TextStream:
    """An open text of a new session; its beginning is committed."""
    session = store.create_session(id=name)
    session.acquire()
    reply = session.assistant()
    reply.begin()
    text = reply.stream_text(id=f"{name} text")
    session.flush()
    return text


def stored(log: FaultyLog, name: str) -> dict[str, str]:
    """Return the texts that another program sees in a session."""
    return said(Store(log, flush_interval=1000.0).session(name))


def unforeseen(*_: object) -> NoReturn:
    """Fail with an error that the flusher does not expect."""
    raise ZeroDivisionError


@pytest.mark.promise(1)
def test_a_session_that_fails_in_an_unforeseen_way_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Promise 1: one session's unforeseen error stops no other session's deltas."""
    log = FaultyLog()
    store = Store(log, flush_interval=0.005)
    broken, sound = opened(store, "broken"), opened(store, "sound")
    position = log.last_position()
    with monkeypatch.context() as patch:
        patch.setattr(broken._writer, "hand_over", unforeseen)
        broken.append("a")
        sound.append("b")
        assert log.wait_beyond(position, PATIENCE)
        sound.append("c")
        assert log.wait_beyond(position + 1, PATIENCE)
        assert stored(log, "broken") == {}
    assert log.wait_beyond(position + 2, PATIENCE)
    assert stored(log, "broken") == {"broken text": "a"}
    store.close()


def test_a_clock_that_fails_does_not_end_the_thread() -> None:
    """A clock may raise: deltas that come later are committed as ever."""
    log = FaultyLog()
    ticking = [True]

    def clock() -> int:
        if not ticking[0]:
            raise ZeroDivisionError
        return 1_000

    store = Store(log, flush_interval=0.005, clock=clock)
    text = opened(store, "s")
    position = log.last_position()
    text.append("a")
    ticking[0] = False
    assert log.wait_beyond(position, PATIENCE)
    thread = store._flusher._thread
    assert thread is not None
    thread.join(0.1)
    assert thread.is_alive()
    ticking[0] = True
    text.append("b")
    assert log.wait_beyond(position + 1, PATIENCE)
    store.close()


@pytest.mark.promise(1)
def test_a_tick_that_broke_off_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 1: the next tick takes up all that a tick left when it met an error."""
    log = FaultyLog()
    store = Store(log, flush_interval=1000.0)
    text = opened(store, "s")
    text.append("a")
    with monkeypatch.context() as patch:
        patch.setattr(type(text._writer), "is_ahead", property(unforeseen))
        with pytest.raises(ZeroDivisionError):
            store.tick()
    store.tick()
    assert stored(log, "s") == {"s text": "a"}
    store.close()


@pytest.mark.promise(1)
def test_a_thread_that_cannot_be_started_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 1: without a thread a delta is accepted all the same, and the next tries again."""
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
        position = log.last_position()
        text.append("a")
        text.append("b")
    assert stored(log, "s") == {}
    text.append("c")
    assert log.wait_beyond(position, PATIENCE)
    assert stored(log, "s") == {"s text": "abc"}
    store.close()


class CountingIO(JournalIO):
    """Counts the flushes."""

    flushes = 0

    def fdatasync(self, fd: int) -> None:
        """Flush, and count."""
        self.flushes += 1
        super().fdatasync(fd)


@pytest.mark.promise(1)
def test_one_tick_commits_what_all_sessions_accepted_at_once(tmp_path: Path) -> None:
    """Deltas of many sessions are on disk after one tick, with one flush of the disk."""
    io = CountingIO()
    store = Store(open_log(tmp_path / "store", io=io), flush_interval=1000.0)
    texts: list[TextStream] = []
    for number in range(50):
        session = store.create_session(id=f"s{number}")
        session.acquire()
        reply = session.assistant()
        reply.begin()
        texts.append(reply.stream_text())
        session.flush()
    before, flushes = store.log.last_position(), io.flushes
    for text in texts:
        text.append("a delta")
    store.tick()
    assert store.log.last_position() >= before + 50
    assert io.flushes == flushes + 1
    store.close()
