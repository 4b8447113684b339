"""A loop goes on where the user does, and ends where the model has answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eventlog import Limits, MessageError, Reply, Session, Store
from projections import CallModel, ContextWindow, ModelRequest
from projections.loop import Step, Stop, fill_retrying

Fill = Callable[[Reply, ModelRequest, int], object]


def run(session: Session, fill: Fill, **options: Any) -> tuple[Step, int]:
    """Run the loop; return its last step and the number of model calls."""
    calls = 0
    with ContextWindow(session, model="openai/gpt-5", environment={}, **options) as window:
        while step := window.next_step():
            if isinstance(step, CallModel):
                calls += 1
                assert calls < 20
                reply, request = window.begin(step)
                fill(reply, request, calls)
            else:
                window.perform(step)
    return step, calls


def answers(reply: Reply, _request: ModelRequest, _number: int) -> None:
    """Answer."""
    reply.add_text("Done.")
    reply.finish()


def breaks(name: str) -> Fill:
    """Return what ends the reply with an error of this name."""
    return lambda reply, _request, _number: reply.abort(MessageError(name, "no"))


@pytest.mark.parametrize("name", ["api", "aborted"])
def test_a_queued_question_behind_a_failed_answer_is_answered(store: Store, session: Session, name: str) -> None:
    """A user who goes on with the queue is answered; what was queued before waits till then."""
    with session.turn("first", "r0", delivery="queue") as turn:
        session.user("queued before", id="before", delivery="queue")
        step, _ = run(session, breaks(name))
    assert isinstance(step, Stop)
    assert step.reason == ("failed" if name == "api" else "aborted")
    assert run(session, answers)[1] == 0
    with session.turn("second", "r1", delivery="queue") as turn:
        assert run(session, answers) == (Stop("finished"), 2)
    assert turn.state == "done"
    assert store.unfinished() == []


def test_an_interrupt_after_the_answer_changes_nothing(store: Store, session: Session) -> None:
    """A queued question is answered although a stop came behind the answer before it."""
    with session.turn("first", "r0"):
        run(session, answers)
    session.user("second", delivery="queue")
    session.interrupt()
    (info,) = store.unfinished()
    with store.session(info.id).turn() as turn:
        assert turn.mine
        assert run(session, answers) == (Stop("finished"), 1)
    assert store.unfinished() == []


@pytest.mark.parametrize(
    ("field", "ends", "state"), [("content", "finished", "done"), ("reasoning", "failed", "failed")]
)
def test_answers_that_promise_calls_and_make_none_end(session: Session, field: str, ends: str, state: str) -> None:
    """A text with the reason of calls is asked for once more, then taken; a thought is none."""
    chunk: dict[str, Any] = {"choices": [{"index": 0, "delta": {field: "hi"}, "finish_reason": "tool_calls"}]}
    with session.turn("hello", "r1") as turn:
        step, calls = run(session, lambda reply, _request, _number: fill_retrying(reply, lambda: [chunk]))
    assert isinstance(step, Stop)
    assert (step.reason, calls, turn.state) == (ends, 2, state)


def said(request: ModelRequest) -> str:
    """Return the texts of a request."""
    return str([part for message in request.messages for part in message.parts])


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_failed_question_is_in_the_request_that_retries_it(session: Session, by_hand: bool) -> None:
    """No compaction covers a question that failed and may be retried."""
    options: dict[str, Any] = {"limits": Limits(20_000, 1_000)}
    session.user("FIRST", request_id="r1")
    for number in range(6):
        session.user(f"more {number} " + "long matter " * 300)
    with session.turn("FIRST", "r1"):
        run(session, breaks("api"), **options)
    if by_hand:
        with ContextWindow(session, model="openai/gpt-5", environment={}, **options) as window:
            window.compact()
    requests: list[str] = []

    def fill(reply: Reply, request: ModelRequest, number: int) -> None:
        requests.append(said(request))
        answers(reply, request, number)

    with session.turn("FIRST", "r1") as turn:
        turn.retry()
        run(session, fill, **options)
    assert turn.state == "done"
    assert "FIRST" in requests[-1]
