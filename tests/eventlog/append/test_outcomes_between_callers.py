"""One caller's trouble neither doubles nor refuses what another caller appends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import EventlogError, KeyProviderError
from eventlog.session.session import Session
from eventlog.store import Store
from tests.support.faulty_log import FaultyLog
from tests.support.sample_sessions import begin


@pytest.mark.promise(1)
@pytest.mark.parametrize("ask", ["flush", "user", "events"])
def test_a_signal_inside_the_leader_doubles_no_delta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: str) -> None:
    """Promise 1: a handler that uses the session during its own commit doubles nothing."""
    asked: dict[str, Callable[[Session], object]] = {
        "flush": lambda session: session.flush(),
        "user": lambda session: session.user("from the handler"),
        "events": lambda session: list(session.events()),
    }
    armed: list[Session] = []
    sync = os.fdatasync

    def interrupted(fd: int) -> None:
        if armed:
            session = armed.pop()

            def handle(_number: int, _frame: FrameType | None) -> None:
                _try(lambda: asked[ask](session))

            signal.signal(signal.SIGUSR1, handle)
            signal.raise_signal(signal.SIGUSR1)
        sync(fd)

    monkeypatch.setattr(os, "fdatasync", interrupted)
    before = signal.getsignal(signal.SIGUSR1)
    try:
        with eventlog.open(tmp_path / "s", flush_interval=1000.0) as store:
            session = store.create_session()
            with session.assistant() as reply:
                stream = reply.stream_text()
                session.flush()
                for character in "abcdef":
                    stream.append(character)
                armed.append(session)
                _try(session.flush)
                stream.end()
                reply.finish()
            events = [recorded.event for recorded in session.events()]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not armed, "the handler did not run"
    assert "".join(event.text for event in events if isinstance(event, ev.PartDelta)) == "abcdef"


def _try(work: Callable[[], object]) -> None:
    with suppress(EventlogError):
        work()


@pytest.mark.promise(5)
def test_a_committed_command_is_reported_as_committed(log: FaultyLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 5: a failed read afterwards does not make a committed command an error."""
    mine, other = Store(log, flush_interval=1000.0), Store(log, flush_interval=1000.0)
    session = mine.create_session(id="s")
    session.user("first")
    beside = other.session("s")
    read = log.read
    broken = [True]

    def once(name: str, after: int = 0, upto: int | None = None, *, reverse: bool = False) -> object:
        if broken.pop() if broken else False:
            raise KeyProviderError("the key provider is away")
        return read(name, after, upto, reverse=reverse)

    with session.assistant() as reply:
        session.flush()
        log.held = []
        adding = begin(lambda: session.user("hello", request_id="r"))
        while not log.held:
            pass
        reply.step()
        held, log.held = log.held, None
        beside.user("hello", request_id="r")
        log.held = held
        monkeypatch.setattr(log, "read", once)
        log.let_go()
        adding.result(60)
        monkeypatch.undo()
        reply.finish()
    assert sum(isinstance(recorded.event, ev.UserMessageAdded) for recorded in session.events()) == 2
