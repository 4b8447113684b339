"""A loop that its policy blocks leaves its turn to go on, as the stop says."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

import eventlog
from eventlog.store import Store
from projections import answer_text
from projections.loop import Blocked, CallModel, ContextWindow, ModelRequest, RunTools, Stop
from projections.window import LoopPolicy
from tests.support.window_loop import LIMITS, SMALL, Loop, Reply


def scripted(*answers: Reply) -> Callable[[ModelRequest], Reply]:
    """Give answers one after another."""
    left = list(answers)
    return lambda _request: left.pop(0)


def go_on_allowed(loop: Loop, window: ContextWindow) -> None:
    """Run the loop to its end and let calls repeat."""
    while step := window.next_step(allow_repeats=True):
        if isinstance(step, CallModel):
            loop.call(window, step)
        elif isinstance(step, RunTools):
            for call in step.calls:
                window.run(call, str)
            window.finish()


@pytest.mark.parametrize("way", ["ask", "worker", "allow", "allow-later", "say"])
@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("tools", [["look"], ["look", "check"]])
def test_a_doom_loop_leaves_its_turn_to_go_on(store: Store, way: str, tools: list[str], *, raises: bool) -> None:
    """Each action that the stop names goes on, and so does asking the same request again."""
    session = store.create_session()
    calls = [Reply(calls=[(name, "{}")]) for name in tools * 3]
    loop = Loop(session, scripted(*calls, Reply("enough")), policy=SMALL, limits=LIMITS)
    with session.turn("go", "r1") as turn:
        try:
            with loop.window() as window:
                step = loop.go(window)
                assert isinstance(step, Blocked)
                assert step.reason == "doom-loop"
                assert f"{' and '.join(tools)}" in step.sentence
                assert "`next_step(allow_repeats=True)`" in step.sentence
                if raises:
                    raise step.error()
                if way == "allow":
                    go_on_allowed(loop, window)
        except eventlog.BlockedError:
            assert raises
    if way == "allow" and not raises:
        assert turn.state == "done"
        return
    assert turn.state in {"new", "resumed"}
    assert [info.id for info in store.unfinished()] == [session.id]
    asked = {"worker": (), "say": ("something else", "r2")}.get(way, ("go", "r1"))
    with session.turn(*asked) as again:
        assert again.mine
        if way.startswith("allow"):
            with loop.window() as window:
                go_on_allowed(loop, window)
        else:
            assert loop.run() == Stop("finished")
    assert again.state == "done"
    with session.turn("go", "r1") as turn:
        assert (turn.state, answer_text(session, turn.answer)) == ("done", "enough")
    assert store.unfinished() == []


@pytest.mark.parametrize("way", ["say", "more steps", "no bound"])
@pytest.mark.parametrize("most", [1, 2])
def test_a_turn_that_had_its_steps_goes_on_by_what_the_stop_names(store: Store, way: str, most: int) -> None:
    """A new question or more steps go on; asked again as it was, the turn stops the same way."""
    session = store.create_session()
    calls = [Reply(calls=[("look", f'{{"n": {number}}}')]) for number in range(most)]
    loop = Loop(session, scripted(*calls, Reply("enough")), limits=LIMITS)
    loop.policy = msgspec.structs.replace(SMALL, loop=LoopPolicy(max_steps=most))
    for state in ("new", "resumed"):
        with session.turn("go", "r1") as turn:
            assert turn.state == state
            step = loop.run()
            assert isinstance(step, Blocked)
            assert step.reason == "max-steps"
            assert "`session.turn(text, request_id)`" in step.sentence
            assert "`max_steps`" in step.sentence
        assert len(loop.requests) == most
    if way != "say":
        loop.policy = msgspec.structs.replace(
            SMALL, loop=LoopPolicy(max_steps=most + 1 if way == "more steps" else None)
        )
    with session.turn(*(("go on", "r2") if way == "say" else ("go", "r1"))) as again:
        assert again.mine
        assert loop.run() == Stop("finished")
    with session.turn("go", "r1") as turn:
        assert (turn.state, answer_text(session, turn.answer)) == ("done", "enough")
    assert store.unfinished() == []
