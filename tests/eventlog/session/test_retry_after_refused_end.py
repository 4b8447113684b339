"""An end refused for lack of space can be repeated, and the reply goes on after it."""

from __future__ import annotations

import asyncio

import pytest

from eventlog import events as ev
from eventlog.aio import AsyncSession
from eventlog.errors import BusyError, RefusedError
from eventlog.session.reply import Reply
from eventlog.session.session import Session
from eventlog.session.text_stream import TextStream
from tests.support.faulty_log import FaultyLog, together
from tests.support.sample_sessions import kinds, said

WAYS = pytest.mark.parametrize("way", ["refuse", "fail"])


def is_open(what: Reply | TextStream) -> bool:
    """Whether the part or message is open."""
    return what.is_open


@WAYS
def test_the_end_of_a_text_can_be_repeated(log: FaultyLog, session: Session, way: str) -> None:
    """A text whose end was refused stays open, takes deltas and can be ended."""
    with session.assistant() as reply:
        text = reply.stream_text(id="p")
        text.append("a")
        setattr(log, way, 1)
        with pytest.raises(BusyError):
            text.end()
        assert is_open(text)
        text.append("b")
        text.end()
        assert not is_open(text)
        with pytest.raises(RefusedError):
            text.append("c")
        with pytest.raises(RefusedError):
            text.end()
        reply.finish()
    assert said(session) == {"p": "ab"}
    assert kinds(session).count("PartEnded") == 1


@WAYS
def test_what_ended_in_a_refused_pipeline_is_open(log: FaultyLog, session: Session, way: str) -> None:
    """Ends of a text, step and message in a refused pipeline do not hold and can be repeated."""
    with session.assistant() as reply:
        text = reply.stream_text(id="p")
        text.append("a")
        reply.step()
        session.flush()
        setattr(log, way, 1)
        with pytest.raises(BusyError):
            together(session, text.end, lambda: reply.end_step("stop"), reply.finish)
        assert is_open(reply)
        text.append("b")
        reply.finish()
        assert not is_open(reply)
    assert said(session) == {"p": "ab"}
    assert kinds(session)[-3:] == ["PartEnded", "StepFinished", "MessageFinished"]


@WAYS
def test_what_began_in_a_refused_pipeline_does_not_hold_up_the_end(log: FaultyLog, session: Session, way: str) -> None:
    """A text and a step that a refused pipeline never started need no end."""
    with session.assistant() as reply:
        session.flush()
        setattr(log, way, 1)
        with pytest.raises(BusyError):
            together(session, lambda: reply.stream_text(id="p"), reply.step)
        reply.finish()
    assert kinds(session)[-2:] == ["AssistantMessageStarted", "MessageFinished"]


@WAYS
def test_an_awaited_end_can_be_repeated(log: FaultyLog, session: Session, way: str) -> None:
    """A refused awaited end can be repeated, and leaving the block closes the message."""
    chat = AsyncSession(session)

    async def turn() -> None:
        async with chat.assistant() as reply:
            text = reply.stream_text()
            text.append("a")
            setattr(log, way, 1)
            with pytest.raises(BusyError):
                await reply.end(text)
            text.append("b")
            setattr(log, way, 1)
            with pytest.raises(BusyError):
                await reply.finish()
            text.append("c")
            await reply.end(text)

    asyncio.run(turn())
    assert list(said(session).values()) == ["abc"]
    assert session.reader.state().open_messages() == ()
    assert isinstance(list(session.events())[-1].event, ev.MessageFinished)


@WAYS
def test_a_call_that_could_not_run_takes_more_input(log: FaultyLog, session: Session, way: str) -> None:
    """A call whose start was refused is pending: it takes arguments and can be started."""
    with session.assistant() as reply:
        call = reply.tool("bash", call_id="c")
        call.stream_input("{")
        setattr(log, way, 1)
        with pytest.raises(BusyError):
            call.start("{}")
        call.stream_input("}")
        call.start("{}")
        with pytest.raises(RefusedError):
            call.stream_input("more")
        call.stream_output("o")
        setattr(log, way, 1)
        with pytest.raises(BusyError):
            call.succeed("out")
        call.stream_output("ut")
        call.succeed("out")
        reply.finish()
    assert list(said(session).values()) == ["{}out"]
