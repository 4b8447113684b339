"""A question larger than the window: each action that the stop names goes on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest

import eventlog
from eventlog.session.session import Session
from eventlog.values import Limits, MessageError
from projections import Transcript, answer_text
from projections.loop import AsyncContextWindow, Blocked, CallModel, ContextWindow, Step, Stop
from tests.support.window_loop import MODEL, texts

LARGE = "lorem ipsum " * 5_000
Bounds = tuple[Limits, int | None]
WINDOWS: dict[str, Bounds] = {
    "known limits": (Limits(8_192, 1_024), None),
    "a provider that takes less": (Limits(100_000, 1_024), 10_000),
    "unknown limits": (Limits(), 10_000),
}
"""Limits that the program knows, and the characters that the provider takes."""


async def loop(session: Session, bounds: Bounds) -> Step:
    """Run the loop in asyncio."""
    limits, most = bounds
    async with AsyncContextWindow(ContextWindow(session, model=MODEL, limits=limits, environment={})) as window:
        while step := await window.next_step():
            if isinstance(step, CallModel):
                reply, request = await window.begin(step)
                if most is not None and len("".join(texts(request.messages))) > most:
                    await asyncio.to_thread(reply.abort, MessageError("overflow", "prompt is too long"))
                    continue
                reply.add_text("fine")
                await asyncio.to_thread(reply.finish)
            else:
                await window.perform(step)
    return step


def ran(session: Session, bounds: Bounds) -> Step:
    """Run the loop."""
    limits, most = bounds
    with ContextWindow(session, model=MODEL, limits=limits, environment={}) as window:
        while step := window.next_step():
            if isinstance(step, CallModel):
                reply, request = window.begin(step)
                if most is not None and len("".join(texts(request.messages))) > most:
                    reply.abort(MessageError("overflow", "prompt is too long"))
                    continue
                reply.add_text("fine")
                reply.finish()
            else:
                window.perform(step)
    return step


def in_task(session: Session, bounds: Bounds) -> Step:
    """Run the loop in an event loop of its own."""
    return asyncio.run(loop(session, bounds))


def take_out(session: Session, step: Blocked) -> None:
    """Do as the sentence says, which names the messages of the step."""
    named = re.findall(r"`session\.remove_message\('(.*?)'\)`", step.sentence)
    assert tuple(named) == step.too_large
    for message in named:
        session.remove_message(message)


def cut(session: Session, step: Blocked) -> None:
    """Let an excerpt stand for each text."""
    for message in list(Transcript(session).newest_first()):
        if message.id in step.too_large:
            for part in message.parts:
                session.edit_part(part.id, part.text[:100])


def go_back(session: Session, step: Blocked) -> None:
    """Roll back as the sentence says."""
    (before,) = re.findall(r"`session\.rollback\(before='(.*?)'\)`", step.sentence)
    session.rollback(before=before)


Act = Callable[[Session, Blocked], None]
Run = Callable[[Session, Bounds], Step]


@pytest.mark.parametrize("run", [ran, in_task])
@pytest.mark.parametrize("before", [0, 2], ids=["alone", "behind others"])
@pytest.mark.parametrize("bounds", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("act", [take_out, cut])
def test_a_question_that_is_too_large_is_taken_out_or_cut(
    store: eventlog.Store, act: Act, bounds: Bounds, before: int, run: Run
) -> None:
    """Its turn is withdrawn, or done with the excerpt; then the next question is answered."""
    session = store.create_session()
    for number in range(before):
        with session.turn(f"question {number}", f"question {number}"):
            assert run(session, bounds) == Stop("finished")
    with session.turn(LARGE, "large") as turn:
        step = run(session, bounds)
        assert isinstance(step, Blocked)
        assert step.too_large
        act(session, step)
        assert isinstance(run(session, bounds), Stop)
    assert turn.state == ("done" if act is cut else "withdrawn")
    assert store.unfinished() == []
    with session.turn("small", "small") as turn:
        assert run(session, bounds) == Stop("finished")
    assert answer_text(session, turn.answer) == "fine"


@pytest.mark.parametrize("bounds", WINDOWS.values(), ids=WINDOWS)
def test_a_rollback_to_before_a_question_that_is_too_large_goes_on(store: eventlog.Store, bounds: Bounds) -> None:
    """The sentence's rollback is enough."""
    session = store.create_session()
    with session.turn(LARGE, "large"):
        step = ran(session, bounds)
        assert isinstance(step, Blocked)
    go_back(session, step)
    with session.turn("small", "small") as turn:
        assert ran(session, bounds) == Stop("finished")
    assert turn.state == "done"


def test_only_what_is_too_large_is_named(store: eventlog.Store) -> None:
    """An earlier question is, and not the newest one; beside a large system prompt none is."""
    bounds = WINDOWS["known limits"]
    session = store.create_session()
    large = session.user(LARGE)
    with session.turn("small", "small") as turn:
        step = ran(session, bounds)
        assert isinstance(step, Blocked)
        assert step.too_large == (large,)
        take_out(session, step)
        assert ran(session, bounds) == Stop("finished")
    assert turn.state == "done"
    session.set_system_prompt("word " * 9_000)
    with session.turn("small again", "again"):
        step = ran(session, bounds)
    assert isinstance(step, Blocked)
    assert (step.reason, step.too_large) == ("window-too-small", ())
