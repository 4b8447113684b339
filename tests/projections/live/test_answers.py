"""Answers in the protocols of chat interfaces: each part, each end, and what is refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from eventlog.errors import CallError, NotFoundError
from eventlog.session.session import Session
from eventlog.store import Store
from projections.live.answer import Answer, asked_now
from projections.live.protocols import PROTOCOLS, written
from projections.server import answer_response


async def events_of(store: Store, session: Session, question: str, protocol: str) -> list[dict[str, Any]]:
    """The events of an answer in a protocol."""
    data = b"".join([piece async for piece in written(Answer(store, session.id, question), protocol)])
    lines = [line.removeprefix(b"data: ") for line in data.split(b"\n\n") if line]
    assert (lines[-1] == b"[DONE]") == (protocol == "ai-sdk")
    return [json.loads(line) for line in lines if line != b"[DONE]"]


def answered(session: Session) -> str:
    """A question whose answer has reasoning, a call that fails, one that works, and a text."""
    question = session.user("the weather?", request_id="r")
    with session.turn("the weather?", "r") as turn:
        assert turn.mine
        with session.assistant("acme/one") as reply:
            reply.stream_reasoning().append("first")
            for tool_name, city in (("weather", "Oslo"), ("weather", "Kyiv")):
                running = reply.tool(tool_name, call_id=city)
                running.start({"city": city})
                (running.fail if city == "Oslo" else running.succeed)(f"of {city}")
            reply.finish("tool-calls")
        with session.assistant("acme/one") as reply:
            reply.add_text("Sunny 😀")
            reply.finish()
    return question


def broken_off(session: Session) -> None:
    """Begin the answer to a question, and fail."""
    with session.turn("hello", "r"), session.assistant("acme/one") as reply:
        reply.stream_text().append("half")
        raise RuntimeError("no more")


async def test_every_kind_of_part_is_told(store: Store) -> None:
    """Reasoning, calls with arguments and outcomes, texts and steps have their events."""
    session = store.create_session()
    question = answered(session)
    chunks = await events_of(store, session, question, "ai-sdk")
    called = ["tool-input-start", "tool-input-delta", "tool-input-available"]
    kinds = [chunk["type"] for chunk in chunks]
    assert [kind for kind in kinds if not kind.startswith("tool-output")] == [
        *("start", "start-step", "reasoning-start", "reasoning-delta", "reasoning-end"),
        *(2 * called),
        *("finish-step", "start-step", "text-start", "text-delta", "text-end", "finish-step", "finish"),
    ]
    (failed,) = [chunk for chunk in chunks if chunk["type"] == "tool-output-error"]
    (worked,) = [chunk for chunk in chunks if chunk["type"] == "tool-output-available"]
    assert (failed["errorText"], worked["output"]) == ("of Oslo", "of Kyiv")
    assert [chunk["input"] for chunk in chunks if chunk["type"] == "tool-input-available"] == [
        {"city": "Oslo"},
        {"city": "Kyiv"},
    ]
    events = await events_of(store, session, question, "ag-ui")
    kinds = [event["type"] for event in events]
    assert kinds[0] == "RUN_STARTED"
    assert kinds[-1] == "RUN_FINISHED"
    assert kinds.count("TOOL_CALL_RESULT") == kinds.count("TOOL_CALL_END") == 2
    assert [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"] == ["of Oslo", "of Kyiv"]


async def test_an_answer_has_no_replies_to_other_questions(store: Store) -> None:
    """A reply that has not seen a later question, and one that answers that, are not told."""
    session = store.create_session()
    first = session.user("first", request_id="1")
    with session.turn("first", "1"), session.assistant("acme/one") as reply:
        queued = session.user("second", request_id="2")
        reply.add_text("to the first")
        reply.finish()
    with session.turn("second", "2"), session.assistant("acme/one") as reply:
        reply.add_text("to the second")
        reply.finish()
    for question, said in ((first, "to the first"), (queued, "to the second")):
        events = await events_of(store, session, question, "ag-ui")
        assert [event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"] == [said]


async def test_a_long_answer_is_looked_at_by_the_step(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that grows costs no look at the turn: looks are as many for 10 pieces as for 200."""
    counts: list[int] = []
    for pieces in (10, 200):
        session, looks = store.create_session(), list[str]()
        look = Answer._look

        def counted(answer: Answer, look: Any = look, looks: list[str] = looks) -> Any:
            looks.append(answer.question)
            return look(answer)

        question = session.user("hello", request_id="r")
        with monkeypatch.context() as patched, session.turn("hello", "r"), session.assistant("acme/one") as reply:
            patched.setattr(Answer, "_look", counted)
            reading = asyncio.create_task(events_of(store, session, question, "ai-sdk"))
            text = await asyncio.to_thread(reply.stream_text)
            for _ in range(pieces):
                text.append("word ")
                await asyncio.to_thread(store.flush)
                await asyncio.sleep(0)
            await asyncio.to_thread(reply.finish)
            chunks = await reading
        assert "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta") == "word " * pieces
        counts.append(len(looks))
    assert counts[1] <= counts[0] + 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_end_of_an_answer_is_told(store: Store, protocol: str) -> None:
    """A failed answer says why, a withdrawn question ends; parts that are open are closed."""
    session = store.create_session()
    question = session.user("hello", request_id="r")
    with pytest.raises(RuntimeError):
        broken_off(session)
    events = await events_of(store, session, question, protocol)
    assert "half" in json.dumps(events)
    (failed,) = [event for event in events if event["type"] in {"RUN_ERROR", "error"}]
    assert failed.get("errorText", failed.get("message")) == "the answer failed"  # no words of others
    gone = session.user("never mind", request_id="s")
    session.rollback(session.reader.find(gone) - 1)
    assert (await events_of(store, session, question, protocol))[-1]["type"] in {"finish", "RUN_ERROR"}
    assert asked_now(store, session.id) is None


async def test_what_cannot_be_told_is_refused(store: Store) -> None:
    """An unknown protocol or question is an error, and nothing to tell is 204."""
    session = store.create_session()
    with pytest.raises(CallError, match="ai-sdk, ag-ui"):
        await answer_response(store, session.id, protocol="smoke")
    with pytest.raises(NotFoundError):
        await answer_response(store, session.id, "msg_none", protocol="ag-ui")
    assert (await answer_response(store, session.id, protocol="ag-ui")).status_code == 204
