"""Ids, request ids, threads and pipelines: identity, and what happens exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from eventlog import events as ev
from eventlog.aio import AsyncSession
from eventlog.errors import AlreadyExistsError, LimitError, NotFoundError, RequestReusedError
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Patch
from tests.support.before_lease import before_lease
from tests.support.compactions import compacted
from tests.support.engines import Engine
from tests.support.sample_sessions import kinds, run_together, said


def test_callers_bring_their_own_ids_and_find_things_by_them(engine: Engine) -> None:
    """Ids are opaque, up to 256 bytes, and objects are found by them after reopening."""
    store = engine.open()
    session = store.create_session(id="my session/ü")
    session.user("hi", id="my message")
    with session.assistant(id="é" * 128) as reply:
        reply.stream_text(id="my part")
        reply.tool("bash", call_id="c", id="my call").fail()
        reply.finish()
    store.close()
    with engine.open() as again:
        found = again.session("my session/ü")
        events = {recorded.version: recorded.event for recorded in found.events()}
        assert getattr(events[found.reader.find("my message")], "message", "") == "my message"
        assert getattr(events[found.reader.find("é" * 128)], "message", "") == "é" * 128
        assert getattr(events[found.reader.find("my part")], "part", "") == "my part"
        assert getattr(events[found.reader.find("my call")], "part", "") == "my call"
        with pytest.raises(NotFoundError):
            found.reader.find("nothing")
        with pytest.raises(NotFoundError):
            again.session("nothing")
        with pytest.raises(AlreadyExistsError):
            again.create_session(id="my session/ü")
        with pytest.raises(AlreadyExistsError):
            found.user("again", id="my message")
        with pytest.raises(LimitError):
            again.create_session(id="x" * 257)
        with pytest.raises(LimitError):
            found.user("x", id="é" * 129)


def test_a_lost_race_for_an_id_is_an_answer_and_no_fault(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """A log that operators read has no warning where two workers begin one session."""
    with engine.open() as store:
        store.create_session(id="s")
        with pytest.raises(AlreadyExistsError):
            store.create_session(id="s")
    assert "append" not in caplog.text


def test_one_session_has_one_handle_in_a_store(store: Store) -> None:
    """A session asked for twice is one handle, so its threads share one order."""
    session = store.create_session()
    assert store.session(session.id) is session


@pytest.mark.promise(5)
def test_a_repeated_request_gives_the_first_result(engine: Engine) -> None:
    """Promise 5: a repeated request gets the first result, across handles and restarts."""
    store = engine.open()
    session = store.create_session()
    message = session.user("once", request_id="r")
    committed = session.append([(5, ev.SessionRenamed("t"))], request_id="raw")
    assert session.user("once", request_id="r") == message
    with session.pipeline():
        assert session.user("once", request_id="r") == message
        again = session.user("twice", request_id="r2")
        assert session.user("twice", request_id="r2") == again
    version = session.version
    other = engine.open()
    assert other.session(session.id).user("once", request_id="r") == message
    store.close()
    other.close()
    with engine.open() as reopened:
        found = reopened.session(session.id)
        assert found.user("once", request_id="r") == message
        repeated = found.append([(99, ev.SessionRenamed("t"))], request_id="raw")
        assert repeated.repeated
        assert (repeated.first, repeated.last) == (committed.first, committed.last)
        assert found.version == version
        with pytest.raises(RequestReusedError):
            found.user("other", request_id="r")
        with pytest.raises(RequestReusedError):
            found.append([(5, ev.SessionRenamed("u"))], request_id="raw")
        assert found.version == version


Undo = Callable[[Session, str], object]
UNDOES: dict[str, Undo] = {
    "a rollback": lambda session, request: session.rollback(before="m3", request_id=request),
    "a rollback to a version": lambda session, request: session.rollback(5, request_id=request),
    "a redo": lambda session, request: session.redo(request_id=request),
    "the undoing of a compaction": lambda session, request: session.context.undo_compaction(request_id=request),
    "a rollback in a task": lambda session, request: asyncio.run(
        AsyncSession(session).do(session.rollback, before="m3", request_id=request)
    ),
    "a redo in a task": lambda session, request: asyncio.run(
        AsyncSession(session).do(session.redo, request_id=request)
    ),
}
"""Commands whose target is what is newest, or is gone once they are done."""


@pytest.mark.promise(5)
@pytest.mark.parametrize("undo", UNDOES.values(), ids=UNDOES)
def test_an_undoing_that_is_sent_again_undoes_nothing_else(engine: Engine, undo: Undo) -> None:
    """Promise 5: sent again, also by another process and much later, it has its first result."""
    store = engine.open()
    session = changed(store)
    first = undo(session, "r")
    version, effective = session.version, session.reader.effective_ranges()
    assert undo(session, "r") == first
    other = engine.open()
    with session.lease():  # it needs no lease any more
        assert undo(other.session("s"), "r") == first
    store.close()
    other.close()
    with engine.open() as again:
        session = again.session("s")
        assert (session.version, session.reader.effective_ranges()) == (version, effective)
        session.user("later")
        assert undo(session, "r") == first
        with pytest.raises(RequestReusedError):
            session.rollback(2, request_id="r")
        with pytest.raises(RequestReusedError):
            session.user("r", request_id="r")


@pytest.mark.promise(5)
@pytest.mark.parametrize("undo", UNDOES.values(), ids=UNDOES)
def test_an_undoing_that_another_process_was_asked_for_meanwhile_is_one(
    engine: Engine, undo: Undo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 5: of two processes that got one request, the second finds what the first did."""
    with engine.open() as store, engine.open() as other:
        session = changed(store)
        found = before_lease(monkeypatch, session, lambda: undo(other.session("s"), "r"))
        assert undo(session, "r") == found[0]


def changed(store: Store) -> Session:
    """A session with two compactions in force, and two rollbacks that can be redone."""
    session = store.create_session(id="s")
    for name in ("m1", "m2", "m3"):
        session.user(name, id=name)
        with session.assistant("a/b", id=f"reply to {name}") as reply:
            reply.part(Patch("digest", ("file of " + name,)))
            reply.finish()
    for _ in range(2):
        compacted(session)
    for name in ("m4", "m5"):
        session.user(name, id=name)
        session.rollback(before=name)
    return session


def test_eight_threads_on_one_handle_keep_every_word_in_order(store: Store) -> None:
    """Eight threads on one handle keep every delta in order beside reads and commands."""
    session = store.create_session()

    def work(number: int) -> None:
        for turn in range(4):
            session.user(f"{number} {turn}", id=f"u{number}.{turn}")
            with session.assistant(id=f"a{number}.{turn}", wait=60.0) as reply:
                text = reply.stream_text(id=f"t{number}.{turn}")
                for word in range(40):
                    text.append(f"{word} ")
                call = reply.tool("bash", call_id="c", input="{}", id=f"c{number}.{turn}")
                call.stream_output("o")
                call.succeed("done")
                reply.finish()
            session.rename(f"{number}")
            assert sum(span.last - span.first + 1 for span in session.history()) <= session.version

    run_together(8, work)
    assert not session.executor.holds_lease
    texts = said(session)
    assert all(
        texts[f"t{number}.{turn}"] == "".join(f"{word} " for word in range(40))
        for number in range(8)
        for turn in range(4)
    )
    versions = [recorded.version for recorded in session.events()]
    assert versions == list(range(1, session.version + 1))
    assert store.info(session.id).messages == 64
    reread = list(store.log.read(session.id))
    assert [commit.position for commit in reread] == sorted(commit.position for commit in reread)


def test_a_pipelined_command_that_is_refused_leaves_the_others(store: Store) -> None:
    """A refusal inside a pipeline affects that command only."""
    session = store.create_session()
    with session.pipeline():
        session.rename("a")
        with pytest.raises(NotFoundError):
            session.unpin("none")
        session.rename("b")
    assert kinds(session) == ["SessionStarted", "SessionRenamed", "SessionRenamed"]
