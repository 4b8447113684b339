"""One caller's trouble neither doubles nor refuses what another caller appends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from types import FrameType

import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import (
    BusyError,
    EventlogError,
    KeyProviderError,
    LimitError,
    RequestReusedError,
    RetryError,
    UnknownOutcomeError,
)
from eventlog.log.ticket import wake
from eventlog.session.session import Session
from eventlog.store import Store
from tests.support.faulty_log import FaultyLog
from tests.support.sample_sessions import begin

Ask = Callable[[Session, str], object]


def by_user(session: Session, text: str) -> object:
    """Add a user message by a request."""
    return session.user(text, request_id="r")


def by_append(session: Session, text: str) -> object:
    """Append an event as it is by a request; return its place."""
    done = session.append([(0, ev.UserMessageAdded("m", agent=text))], request_id="r")
    return done.first, done.last, done.position


def by_turn(session: Session, text: str) -> object:
    """Begin a turn by a request; return the question."""
    with session.turn(text, "r") as turn:
        return turn.message


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


def asked_beside(log: FaultyLog, session: Session, first: Ask, second: Ask) -> tuple[Future[object], Future[object]]:
    """Ask in two threads: the append of the first is held, and the other waits for it."""
    log.held = []
    one = begin(lambda: first(session, "hello"))
    while not log.held:
        time.sleep(0.001)
    (ticket,) = log.held
    other = begin(lambda: second(session, "hello"))
    while len(ticket.waiters) < 2 and not other.done():
        time.sleep(0.001)
    return one, other


def end(log: FaultyLog, error: EventlogError) -> None:
    """End the held append with an error; hold no more."""
    held, log.held = log.held or [], None
    for ticket in held:
        ticket.fail(error)
    wake(held)


@pytest.mark.promise(5)
@pytest.mark.parametrize("error", [BusyError("full"), UnknownOutcomeError("lost")], ids=["refused", "unknown"])
@pytest.mark.parametrize("ask", [by_user, by_append, by_turn])
def test_a_repeat_of_a_request_that_fails_is_sent_again(
    log: FaultyLog, session: Session, ask: Ask, error: EventlogError
) -> None:
    """Promise 5: beside a first try that may be sent again, its repeat may be sent again, too."""
    asked = asked_beside(log, session, ask, ask)
    end(log, error)
    for each in asked:
        with pytest.raises(RetryError):
            each.result(60)
    assert ask(session, "hello") == ask(session, "hello")
    assert session.reader.state().visible == 1


@pytest.mark.promise(5)
@pytest.mark.parametrize("ask", [by_user, by_append])
def test_a_repeat_of_a_request_on_its_way_has_its_result(log: FaultyLog, session: Session, ask: Ask) -> None:
    """Promise 5: a repeat waits for the first try, and has its result."""
    one, other = asked_beside(log, session, ask, ask)
    log.let_go()
    assert one.result(60) == other.result(60)
    assert session.reader.state().visible == 1


@pytest.mark.promise(5)
def test_a_repeat_of_a_request_that_is_refused_is_decided_by_itself(log: FaultyLog, session: Session) -> None:
    """Promise 5: where the first try is refused for good, the repeat goes in if it may."""
    _, other = asked_beside(log, session, by_user, by_user)
    end(log, LimitError("bytes", 2, 1))
    assert other.result(60) == by_user(session, "hello")
    assert session.reader.state().visible == 1


@pytest.mark.promise(5)
@pytest.mark.parametrize("fails", [False, True])
def test_another_content_for_a_request_on_its_way(log: FaultyLog, session: Session, *, fails: bool) -> None:
    """Promise 5: other content is refused if the first is in, and else to be sent again."""
    one, other = asked_beside(log, session, by_user, lambda asked, _: by_user(asked, "another"))
    if fails:
        end(log, BusyError("full"))
    else:
        log.let_go()
    with pytest.raises(BusyError if fails else RequestReusedError):
        other.result(60)
    if not fails:
        assert one.result(60) == by_user(session, "hello")
