"""Commands accepted while a store closes are durable when `close` returns, or refused."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import wait

import pytest

from eventlog import events as ev
from eventlog.errors import ClosedError, EventlogError
from eventlog.log.commit import Append, Ticket
from eventlog.session.session import Session
from eventlog.session.text_stream import LONG_DELTA, TextStream
from eventlog.store import Store
from tests.support.faulty_log import FaultyLog, together
from tests.support.sample_sessions import begin, said

PATIENCE = 30.0


class Gate:
    """A clock that holds one thread between a check for acceptance and the acceptance."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.thread: threading.Thread | None = None

    def __call__(self) -> int:
        """Return a time; to the held thread once the gate opens."""
        if threading.current_thread() is self.thread:
            self.reached.set()
            assert self.opened.wait(PATIENCE)
        return 1_000

    def run(self, command: Callable[[], object], outcome: list[EventlogError | None]) -> threading.Thread:
        """Start a command in the thread to hold; return once it waits at the gate."""

        def told() -> None:
            try:
                command()
            except EventlogError as error:
                outcome.append(error)
            else:
                outcome.append(None)

        self.thread = threading.Thread(target=told)
        self.thread.start()
        assert self.reached.wait(PATIENCE)
        return self.thread


@pytest.fixture
def gate() -> Gate:
    """The clock."""
    return Gate()


@pytest.fixture
def store(log: FaultyLog, gate: Gate) -> Store:
    """A store whose deltas are flushed by commands only."""
    return Store(log, flush_interval=1000.0, clock=gate)


@pytest.fixture
def text(store: Store) -> Iterator[TextStream]:
    """An open text of an open message."""
    session = store.create_session(id="s")
    session.executor.acquire()
    reply = session.assistant()
    reply.begin()
    text = reply.stream_text(id="p")
    text.append("kept ")
    yield text
    store.close()


def stored(log: FaultyLog) -> Session:
    """The session as another program sees it."""
    return Store(log, flush_interval=1000.0).session("s")


@pytest.mark.promise(1)
@pytest.mark.parametrize("piece", ["late", "late" * LONG_DELTA, None])
def test_what_comes_too_late_is_refused(
    log: FaultyLog, store: Store, gate: Gate, text: TextStream, piece: str | None
) -> None:
    """Promise 1: a delta, or an event without a waiter, that comes after a close is refused."""
    outcome: list[EventlogError | None] = []
    executor = text._executor

    def come() -> None:
        if piece is None:
            executor.command([ev.Custom("n", "{}")], wait=False)
        else:
            text.append(piece)

    late = gate.run(come, outcome)
    store.close()
    gate.opened.set()
    late.join(PATIENCE)
    assert [type(error) for error in outcome] == [ClosedError]
    assert said(stored(log)) == {"p": "kept "}
    assert not any(isinstance(recorded.event, ev.Custom) for recorded in stored(log).events())


@pytest.mark.promise(1)
def test_a_delta_that_comes_during_the_last_flush_goes_in_or_is_refused(
    log: FaultyLog, store: Store, gate: Gate, text: TextStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 1: a delta added during the last flush is durable or refused, as reported."""
    outcome: list[EventlogError | None] = []
    writer = text._writer
    accepted, submit = threading.Event(), log.submit
    wake = writer.wake

    def woken(delta: tuple[tuple[str, str], str] | None = None) -> None:
        accepted.set()
        wake(delta)

    def last_flush(append: Append) -> Ticket:
        gate.opened.set()
        assert accepted.wait(PATIENCE)
        return submit(append)

    late = gate.run(lambda: text.append("late"), outcome)
    monkeypatch.setattr(writer, "wake", woken)
    monkeypatch.setattr(log, "submit", last_flush)
    store.close()
    late.join(PATIENCE)
    assert type(outcome[0]) in {ClosedError, type(None)}
    assert said(stored(log)) == {"p": "kept late" if outcome[0] is None else "kept "}


@pytest.mark.promise(1)
def test_what_was_accepted_through_a_handle_that_is_gone_is_durable(log: FaultyLog) -> None:
    """Promise 1: closing commits what a session accepted after its handle is gone."""
    for end in (Store.close, Store.flush):
        store = Store(log, flush_interval=1000.0)
        name = store.create_session().id

        def fail() -> None:
            raise KeyError

        def leave(store: Store, name: str, fail: Callable[[], None]) -> None:
            session = store.session(name)
            together(session, lambda: session.user("kept"), fail)

        with pytest.raises(KeyError):
            leave(store, name, fail)
        gc.collect()
        assert not store.registry.handles
        end(store)
        assert any(isinstance(r.event, ev.UserMessageAdded) for r in Store(log).session(name).events())


@pytest.mark.promise(1)
@pytest.mark.usefixtures("text")
def test_whoever_closes_it_as_well_waits_for_the_end(
    log: FaultyLog, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 1: when a second `close` returns all is durable."""
    submit, flushing, go_on = log.submit, threading.Event(), threading.Event()

    def last_flush(append: Append) -> Ticket:
        flushing.set()
        assert go_on.wait(PATIENCE)
        return submit(append)

    monkeypatch.setattr(log, "submit", last_flush)

    def close() -> dict[str, str]:
        store.close()
        return said(stored(log))

    first = begin(store.close)
    assert flushing.wait(PATIENCE)
    second = begin(close)
    assert not wait([second], 0.05).done
    go_on.set()
    first.result(PATIENCE)
    assert second.result(PATIENCE) == {"p": "kept "}
    assert store.closed


@pytest.mark.promise(1)
def test_a_close_that_was_interrupted_can_be_repeated(
    log: FaultyLog, store: Store, text: TextStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 1: an interrupted `close` can be repeated and loses nothing."""
    with monkeypatch.context() as patch:
        patch.setattr(text._writer, "flush", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.close()
    store.close()
    assert said(stored(log)) == {"p": "kept "}


def _interrupted() -> None:
    raise KeyboardInterrupt
