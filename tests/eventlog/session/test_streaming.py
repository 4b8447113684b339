"""Accepted deltas: visible to their handle, committed in time and order, bounded."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import msgspec
import pytest

from eventlog import AsyncSession, Session
from eventlog import events as ev
from eventlog.codec.large_texts import INLINE
from eventlog.errors import CallError, LimitError, RefusedError
from eventlog.session.text_stream import MAX_DELTA
from eventlog.store import Store
from eventlog.values import Attachment, Body, File, Subtask, Text, Truncation
from projections.exports.opencode import opencode_export
from tests.support.engines import Engine
from tests.support.sample_sessions import ODD, said


@pytest.mark.promise(2)
def test_accepted_deltas_are_visible_to_their_own_handle_at_once(engine: Engine) -> None:
    """Promise 2: accepted events are visible to their own handle at once, to others later."""
    store, other = engine.open(flush_interval=60.0), engine.open()
    session = store.create_session()
    watcher = other.session(session.id)
    with session.assistant() as reply:
        text = reply.stream_text()
        text.append("abc")
        assert watcher.version < session.version
        assert said(session) == {text.id: "abc"}
        assert said(watcher) == {text.id: "abc"}  # reading made them durable
        reply.finish()


@pytest.mark.promise(1)
def test_accepted_deltas_are_committed_within_the_interval(engine: Engine) -> None:
    """Promise 1: accepted deltas commit by themselves within the interval."""
    store, other = engine.open(flush_interval=0.02), engine.open()
    session = store.create_session()
    with session.assistant() as reply:
        text = reply.stream_text()
        for word in ("one", "two"):
            text.append(word)
            reached = other.log.last_positions()
            assert other.log.wait_after(reached, 1.0) or said(other.session(session.id))
        deadline = 3000
        while said(other.session(session.id)).get(text.id) != "onetwo" and deadline:
            other.log.wait_after(other.log.last_positions(), 0.02)
            deadline -= 1
        assert said(other.session(session.id)) == {text.id: "onetwo"}
        reply.finish()


@pytest.mark.promise(1)
def test_no_delta_is_left_behind_by_a_flush_at_the_same_time(store: Store) -> None:
    """Promise 1: a delta accepted while the buffer is flushed is flushed as well."""
    session = store.create_session()
    writer = session.executor.writer
    store.host.flusher.interval = 0.002
    with session.assistant() as reply:
        text = reply.stream_text()
        session.flush()
        tick = store.host.clock

        def flushed_meanwhile() -> int:
            writer.flush()  # as the flusher would, between the check and the delta
            return tick()

        text._clock = flushed_meanwhile
        text.append("lost?")
        positions = store.log.last_positions()
        assert store.log.wait_after(positions, 5.0) or said(session)
        assert writer.log.head(session.id).version == session.reader.state().version  # type: ignore[union-attr]  # it is there
        assert not writer.buffer
        reply.finish()


@pytest.mark.promise(1)
def test_a_full_buffer_commits_and_loses_nothing(engine: Engine) -> None:
    """Promise 1: a full buffer blocks the producer until its commit and drops nothing."""
    store = engine.open(flush_interval=60.0)
    session = store.create_session()
    session.executor.writer.buffer.capacity = session.executor.writer.buffer.limit = 3 * 16
    with session.assistant() as reply:
        text = reply.stream_text()
        for number in range(100):
            text.append(f"{number},")
            assert len(session.executor.writer.buffer) <= 3 * 16
        assert store.log.head(session.id).version >= 80  # type: ignore[union-attr]  # it is there
        reply.finish()
    assert said(session) == {text.id: "".join(f"{number}," for number in range(100))}


@pytest.mark.promise(12)
def test_deltas_are_checked_when_they_are_made(store: Store) -> None:
    """Promise 12: a delta that is no text or too long is refused; an empty one is nothing."""
    session = store.create_session()
    with session.assistant() as reply:
        text = reply.stream_text()
        session.flush()
        before = session.version
        text.append("")
        with pytest.raises(CallError):
            text.append(b"bytes")  # type: ignore[arg-type]  # the mistake it is about
        with pytest.raises(LimitError):
            text.append("x" * (MAX_DELTA + 1))
        assert session.version == before
        reply.finish()


def test_deltas_of_a_part_that_was_ended_otherwise_are_reported(store: Store) -> None:
    """Deltas for an ended part are never written, and the next command reports them."""
    session = store.create_session()
    with session.assistant() as reply:
        one, two = reply.stream_text(), reply.stream_text()
        one.append("a")
        session.append([(1, ev.PartEnded(one.id))])
        one.append("too late")
        two.append("b")
        with pytest.raises(RefusedError):
            session.flush()
        session.flush()
        reply.abort()
    assert said(session) == {one.id: "a", two.id: "b"}


@pytest.mark.promise(2)
def test_clock_and_ids_are_the_callers(engine: Engine) -> None:
    """Clock and id source are injectable; a clock set back changes times, not order."""
    ticks = iter([1000, 500, 2000, *range(3000, 4000)])
    counter = iter(range(1000))

    def numbered(prefix: str) -> str:
        return f"{prefix}{next(counter)}"

    store = engine.open(clock=lambda: next(ticks), new_id=numbered)
    session = store.create_session()
    assert session.id == "ses_0"
    session.rename("a")
    session.rename("b")
    assert [(recorded.version, recorded.time) for recorded in session.events()] == [(1, 1000), (2, 500), (3, 2000)]


def test_lone_surrogates_are_kept_everywhere(engine: Engine) -> None:
    """Lone surrogates are kept exactly in titles, texts, deltas, bodies, results and ids."""
    store = engine.open()
    session = store.create_session(title=ODD)
    session.user(ODD)
    session.user(ODD * INLINE)
    with session.assistant() as reply:
        text = reply.stream_text(id="part" + ODD)
        text.append(ODD)
        text.append("\udfff")
        call = reply.tool("bash", call_id=ODD, input=json.dumps(ODD, ensure_ascii=False))
        call.stream_output(ODD)
        call.succeed(ODD * INLINE)
        reply.finish()
    store.close()
    with engine.open() as again:
        events = [recorded.event for recorded in again.session(session.id).events()]
        assert isinstance(events[0], ev.SessionStarted)
        assert events[0].title == ODD
        texts = [
            again.text(event.kind.text)
            for event in events
            if isinstance(event, ev.PartStarted) and isinstance(event.kind, Text)
        ]
        assert texts == [ODD, ODD * INLINE, ""]
        assert said(again.session(session.id)) == {"part" + ODD: ODD + "\udfff", call.id: ODD}
        assert next(again.text(event.output) for event in events if isinstance(event, ev.ToolCompleted)) == ODD * INLINE


def test_what_lists_give_back_is_text_for_any_response(engine: Engine) -> None:
    """A list, a search and a fork have U+FFFD for half an emoji; a scope with one is refused."""
    store = engine.open()
    half = "half \ud83d"
    session = store.create_session(title=half, scope="é", directory=half, agent=half)
    session.set_note(half)
    session.user(f"{half} emoji")
    renamed = store.create_session(scope="é")
    renamed.rename(half)
    infos = [*store.newest_sessions("é").sessions, *store.sessions(), renamed.info, session.fork().info]
    hits = store.search("emoji").hits
    assert hits
    for each in (*infos, *hits):
        msgspec.json.encode(each)
    assert {info.title for info in infos} == {"half \ufffd"}
    assert opencode_export(renamed)["info"]["title"] == half  # nothing is lost
    assert (session.info.note, session.info.directory, session.info.agent) == ("half \ufffd",) * 3
    for begin in (store.create_session, partial(store.open_session, ("chat", "1"))):
        with pytest.raises(CallError):
            begin(scope=half)
    assert not [*store.sessions(format="chat")]


@pytest.mark.promise(14)
def test_a_large_body_is_stored_once(engine: Engine) -> None:
    """Promise 14: a large text in several sessions and events is stored once."""
    store = engine.open()
    large = f'["{"content " * INLINE}"]'
    one, two = store.create_session(), store.create_session()
    one.set_tools(large)
    one.set_tools(large)
    two.set_system_prompt(large, large)
    two.user(large, files=[File("text/plain", large)], system=large)
    with two.assistant() as reply:
        call = reply.tool("bash", call_id="c", input=large)
        call.succeed(large, attachments=[Attachment("text/plain", large)], truncation=Truncation(large, 1, len(large)))
        reply.part(Subtask(large))
        reply.finish()
    assert len(list(store.log.bodies())) == 1
    completed = next(recorded.event for recorded in two.events() if isinstance(recorded.event, ev.ToolCompleted))
    assert isinstance(completed.output, Body)
    assert completed.truncation is not None
    assert {
        store.text(content)
        for content in (completed.output, completed.truncation.preview, completed.attachments[0].url)
    } == {large}


@pytest.mark.promise(14)
def test_a_short_text_stays_in_its_event(store: Store) -> None:
    """Promise 14: a text that a reference would not shorten stays in its event."""
    session = store.create_session()
    session.user("x" * INLINE)
    assert list(store.log.bodies()) == []


def inputs(session: Session) -> list[str]:
    """The arguments of the calls that ran."""
    return [session.text(known.event.input) for known in session.events() if isinstance(known.event, ev.ToolRunning)]


@pytest.mark.parametrize("pieces", [('{"a":', "1}"), ()], ids=["streamed", "none streamed"])
def test_a_call_runs_with_the_arguments_that_streamed(engine: Engine, pieces: tuple[str, ...]) -> None:
    """A call that begins without arguments has those that streamed; a call begins once."""
    session = engine.open().create_session()
    with session.assistant() as reply:
        call = reply.tool("bash", call_id="c")
        for piece in pieces:
            call.stream_input(piece)
        call.start()
        assert inputs(session) == ["".join(pieces) or "{}"]
        for begun in (call, reply.tool("bash", call_id="d", input={})):
            with pytest.raises(RefusedError, match="the call is running"):
                begun.start()
            with pytest.raises(RefusedError, match=r"give the arguments to `ask\(input=…\)` instead"):
                begun.ask("no undo")


def test_a_call_does_not_run_with_half_of_its_arguments(engine: Engine) -> None:
    """Arguments that broke off are no JSON: the call stays pending."""
    session = engine.open().create_session()
    with session.assistant() as reply:
        call = reply.tool("bash", call_id="c")
        call.stream_input('{"a":')
        with pytest.raises(CallError, match="JSON"):
            call.start()
        call.stream_input("1}")
        call.start()


def test_a_call_in_asyncio_runs_with_the_arguments_that_streamed(engine: Engine) -> None:
    """A call in asyncio begins with the arguments that streamed, and begins once."""
    session = engine.open().create_session()

    async def run() -> None:
        async with AsyncSession(session).assistant() as reply:
            call = await reply.tool("bash", call_id="c")
            call.stream_input('{"a":1}')
            await reply.start(call)
            with pytest.raises(RefusedError, match="the call is running"):
                await reply.start(call)

    asyncio.run(run())
    assert inputs(session) == ['{"a":1}']
