"""Followers get a handle's own appends without reading, as the log would give them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import Session
from eventlog.append.queue import RECENT
from eventlog.codec.decoded import DecodedCommit
from eventlog.errors import BusyError
from eventlog.session.reader import SessionReader
from eventlog.store import Store
from projections.view.model_view import LiveView, ModelView
from tests.support.faulty_log import FaultyLog


def said(session: Session, text: str) -> None:
    """Run a turn with every kind of append: waited for, accepted, streamed, several in one."""
    session.user(text)
    with session.pipeline(), session.assistant(model="p/one") as reply:
        stream = reply.stream_text()
        for piece in text:
            stream.append(piece)
        stream.end()
        reply.tool("bash", call_id="c1", input={"command": text}).succeed(text)
        reply.finish("stop")


def test_own_appends_are_not_read_back(store: eventlog.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an event of this handle the next view reads no event from the log."""
    session, elsewhere = store.create_session(), store.create_session()
    live = LiveView(session)
    said(session, "one")
    live.advance()

    def read(*_: Any, **__: Any) -> Iterator[Any]:
        raise AssertionError("the log was read")

    monkeypatch.setattr(store.log, "read", read)
    for number in range(3 * RECENT):
        elsewhere.user("in another session")
        session.user(f"question {number}")
        if number % 2:
            elsewhere.user("in another session, after it")
        assert live.advance().messages[-1].source == live.advance().messages[-1].source
        session.pin(f"fact {number}")
        live.advance()
    monkeypatch.undo()
    assert list(live.advance().messages) == list(ModelView.of(session).messages)


def test_what_others_append_is_seen(tmp_path: Path) -> None:
    """A follower misses nothing that another handle of the session appends."""
    with eventlog.open(tmp_path / "s") as one, eventlog.open(tmp_path / "s") as two:
        session = one.create_session(id="a")
        other = two.session("a")
        unrelated = two.create_session(id="b")
        live, seen = LiveView(session), LiveView(other)
        for number in range(4 * RECENT):
            if number % 3 == 0:
                other.user(f"theirs {number}")
            if number % 5 == 0:
                unrelated.user("elsewhere")
            session.user(f"ours {number}")
            if number % 4 == 0:
                other.user(f"theirs, after {number}")
            if number % 2:
                expected = list(ModelView.of(session).messages)
                assert list(live.advance().messages) == expected
                assert list(seen.advance().messages) == expected
                assert live.version == seen.version == session.version


def test_a_follower_far_behind_reads(store: eventlog.Store) -> None:
    """A follower that is far behind, or behind large appends, misses nothing."""
    session = store.create_session()
    live = LiveView(session)
    for number in range(2 * RECENT):
        session.user(f"question {number}")
    assert list(live.advance().messages) == list(ModelView.of(session).messages)
    for number in range(200):
        session.set_metadata(str(number), '"x"')
    with session.pipeline():
        for number in range(300):
            session.user(f"one of many {number} " + "x" * 100)
    assert list(live.advance().messages) == list(ModelView.of(session).messages)


@pytest.mark.promise(9)
def test_rollbacks_and_undos_of_ones_own_count(store: eventlog.Store) -> None:
    """Promise 9: a rollback of this handle reaches its followers as a fresh view shows it."""
    session = store.create_session()
    live = LiveView(session)
    for number in range(3):
        said(session, f"turn {number}")
        version = session.version
        live.advance()
        said(session, "mistake")
        live.advance()
        session.rollback(version)
        assert list(live.advance().messages) == list(ModelView.of(session).messages)
        session.redo()
        assert list(live.advance().messages) == list(ModelView.of(session).messages)
        session.rollback(version)


def test_what_failed_or_came_later_is_not_shown() -> None:
    """An own append that failed, or came behind another, is shown as the log has it."""
    log = FaultyLog()
    session = Store(log, flush_interval=1000.0).create_session(id="s")
    other = Store(log).session("s")
    live = LiveView(session)
    for number in range(24):
        if number % 3 == 0:
            log.meanwhile.append(partial(other.user, f"theirs {number}"))
        if number % 4 == 1:
            log.fail = 1
        with suppress(BusyError):
            session.user(f"ours {number}")
        if number % 5:
            assert list(live.advance().messages) == list(ModelView.of(session).messages)
            assert live.version == session.version
    assert len(live.advance()) > 20


@pytest.mark.promise(7)
def test_a_look_that_broke_off_doubles_nothing(store: eventlog.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 7: a live view whose reading failed half way shows what a replay shows."""
    session = store.create_session()
    live = LiveView(session)
    session.user("go")
    with session.assistant(model="p/one") as reply:
        stream = reply.stream_text()
        session.flush()
        live.advance()
        for piece in ("one ", "two ", "three "):
            stream.append(piece)
            session.flush()
        whole = SessionReader.decoded_commits

        def broken(of: SessionReader, after: int = 0, upto: int | None = None) -> Iterator[DecodedCommit]:
            yield next(iter(whole(of, after, upto)))
            raise BusyError("the disk was asked to wait")

        monkeypatch.setattr(SessionReader, "decoded_commits", broken)
        with pytest.raises(BusyError):
            live.advance()
        live.save()
        monkeypatch.undo()
        assert list(live.advance().messages) == list(ModelView.of(session).messages)
        reply.finish("stop")
    assert list(live.advance().messages) == list(ModelView.of(session).messages)
