"""The loop after each kind of refusal; none of them ends a conversation."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import StreamError
from eventlog.session.session import Session
from eventlog.values import Limits, Model, Retry
from projections import ModelView
from projections.loop import (
    Blocked,
    CallModel,
    ContextWindow,
    ModelRequest,
    Step,
    Stop,
    afill_retrying,
    fill_retrying,
    refusal,
)
from projections.reports.audit import audit
from projections.requests.anthropic import anthropic_request

CLAUDE, GPT = Model("anthropic", "claude-sonnet-4-5"), Model("openai", "gpt-5")
SAYS: list[dict[str, Any]] = [{"choices": [{"delta": {"content": "fine"}, "finish_reason": "stop"}]}]
SIGNED = '{"anthropic":{"signature":"s1gn4ture"}}'


class RefusedError(Exception):
    """A refusal as the providers' packages raise it."""

    def __init__(self, status: int, text: str, code: str | None = None, **headers: str) -> None:
        super().__init__(text)
        self.status_code = status
        self.code = code
        self.response = SimpleNamespace(headers={name.replace("_", "-"): value for name, value in headers.items()})


Refuses = Callable[[ModelRequest], Exception | None]


def run(session: Session, refuses: Refuses, model: Model = CLAUDE) -> tuple[list[ModelRequest], Step]:
    """Run a loop as on its page, without waiting; returns its requests and its last step."""
    asked: list[ModelRequest] = []

    def ask(request: ModelRequest) -> Iterator[dict[str, Any]]:
        asked.append(request)
        error = refuses(request)
        if error is not None:
            raise error
        yield from SAYS

    with ContextWindow(session, model=model, limits=Limits(900_000, 4_000), environment={}) as window:
        while step := window.next_step():
            assert len(asked) < 20
            if isinstance(step, CallModel):
                reply, request = window.begin(step)
                try:
                    fill_retrying(reply, lambda request=request: ask(request), sleep=lambda _seconds: None)  # type: ignore[misc]
                except (RefusedError, StreamError) as error:
                    if reply.is_open:
                        reply.abort(refusal(error))
            else:
                window.perform(step)
        return asked, step


def never(_request: ModelRequest) -> None:
    """Refuse nothing."""


# -- rate ------------------------------------------------------------------------------------------


def limited(**headers: str) -> RefusedError:
    """A refusal for the rate."""
    return RefusedError(429, "slow down", **headers)


@pytest.mark.parametrize(
    ("refusals", "waited", "calls"),
    [
        ([limited(retry_after="20"), limited(retry_after_ms="40000")], 60.0, 3),
        ([limited(retry_after="20"), limited(retry_after="41")], 20.0, 2),
        ([limited(retry_after="61")], 0.0, 1),
        ([RefusedError(429, "Please try again in 6m0s")], 0.0, 1),
        ([RefusedError(413, "Requested 9000 tokens per minute (TPM)", retry_after="1")], 0.0, 1),
        ([RefusedError(429, "plan and billing", "insufficient_quota", retry_after="1")], 0.0, 1),
    ],
)
def test_a_rate_is_waited_for_up_to_a_minute(
    session: Session, refusals: list[RefusedError], waited: float, calls: int
) -> None:
    """The waits that a provider asks for are at most 60 s together; billing never passes."""
    session.user("hi")
    waits: list[float] = []
    asked: list[None] = []

    def ask() -> Iterator[dict[str, Any]]:
        asked.append(None)
        if len(asked) <= len(refusals):
            raise refusals[len(asked) - 1]
        yield from SAYS

    with session.assistant(CLAUDE) as reply:
        if calls > len(refusals):
            assert fill_retrying(reply, ask, sleep=waits.append).reason == "stop"
        else:
            with pytest.raises(RefusedError):
                fill_retrying(reply, ask, sleep=waits.append)
    assert (sum(waits), len(asked)) == (waited, calls)
    assert all(wait <= 1.0 for wait in waits)


def test_a_longer_wait_is_recorded_and_nobody_asks_before(tmp_path: Path) -> None:
    """The turn fails as rate, with the time; until then another worker makes no request."""
    ahead = [0]

    def clock() -> int:
        return int(time.time() * 1_000) + ahead[0]

    before = time.time()
    with eventlog.open(tmp_path / "store", clock=clock) as store:
        session = store.create_session(id="s")
        with session.turn("hi", "r1"):
            asked, step = run(session, lambda _request: limited(retry_after="3600"))
        assert (len(asked), isinstance(step, Stop) and step.reason) == (1, "failed")
        with session.turn("hi", "r1") as turn:
            assert (turn.state, turn.error is not None and turn.error.name) == ("failed", "rate")
            assert turn.error is not None
            until = json.loads(turn.error.data or "")["retry_not_before"] / 1_000
            assert before + 3_599 < until < time.time() + 3_601
    with eventlog.open(tmp_path / "store", clock=clock) as store:
        session = store.session("s")
        with session.turn("hi", "r1") as turn:
            turn.retry()
            asked, step = run(session, never)
            assert (asked, isinstance(step, Blocked) and step.reason) == ([], "rate")
            assert isinstance(step, Blocked)
            assert time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(until)) in step.sentence
        session.user("and this?")
        assert run(session, never)[0] == []
        assert len(run(session, never, GPT)[0]) == 1  # another model is asked
        session.user("once more")
        ahead[0] = 3_601_000
        asked, step = run(session, never)
        assert (len(asked), step) == (1, Stop("finished"))
        assert store.unfinished() == []


def test_a_rate_without_a_time_is_asked_again_after_a_minute(session: Session) -> None:
    """A provider that tells no wait is left alone for 60 s once the attempts are used up."""
    session.user("hi")
    asked, step = run(session, lambda _request: limited())
    assert (len(asked), isinstance(step, Stop) and step.reason) == (4, "failed")
    assert isinstance(step, Stop)
    assert step.error is not None
    assert 0 < json.loads(step.error.data or "")["retry_not_before"] / 1_000 - time.time() <= 60
    assert (step.goes_on, "turn.retry()" in step.sentence) == ("turn.retry()", True)
    kinds = [found.event.kind for found in session.events() if isinstance(found.event, ev.PartStarted)]
    assert [kind.error.name for kind in kinds if isinstance(kind, Retry)] == ["rate"] * 3


# -- opaque state ----------------------------------------------------------------------------------

OPAQUE = "messages.1.content.0: Invalid `signature` in `thinking` block"


def stated(session: Session, model: Model = CLAUDE, text: str = "hm") -> None:
    """A turn whose answer has state of the provider's own."""
    session.user("think")
    with session.assistant(model) as reply:
        thought = reply.stream_reasoning()
        thought.append(text)
        thought.end(SIGNED)
        reply.add_text("thought")
        reply.finish()


def state_of(request: ModelRequest) -> list[str]:
    """The state in a request."""
    found = json.dumps(anthropic_request(request.messages, request.system))
    return re.findall("s1gn4ture", found)


def signed(request: ModelRequest) -> Exception | None:
    """Refuse each request with a signature."""
    return RefusedError(400, OPAQUE) if state_of(request) else None


def test_refused_state_is_left_out_once_and_for_later_requests(tmp_path: Path) -> None:
    """The request is made once more without it; in another process, too, it is not sent again."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="s")
        stated(session)
        session.user("and now?")
        asked, step = run(session, signed)
        assert ([len(state_of(request)) for request in asked], step) == ([1, 0], Stop("finished"))
        said = [part for message in asked[1].messages for part in message.parts]
        assert "hm" in [getattr(part, "text", "") for part in said]
        assert {found.verdict for found in audit(session)} == {"match"}
    with eventlog.open(tmp_path / "store") as store:
        session = store.session("s")
        session.user("again?")
        asked, step = run(session, signed)
        assert ([len(state_of(request)) for request in asked], step) == ([0], Stop("finished"))
        stated(session)
        session.user("newer state is sent")
        assert [len(state_of(request)) for request in run(session, never)[0]] == [1]


def test_state_that_is_refused_without_being_sent_ends_the_turn(session: Session) -> None:
    """A refusal that repeats unchanged is not answered with a third request, nor a first one."""
    session.user("no state yet")
    asked, step = run(session, lambda _request: RefusedError(400, OPAQUE))
    assert (len(asked), isinstance(step, Stop) and step.reason) == (1, "failed")
    session.user("go on")
    assert run(session, never)[1] == Stop("finished")
    stated(session)
    session.user("state")
    asked, step = run(session, lambda _request: RefusedError(400, OPAQUE))
    assert (len(asked), isinstance(step, Stop) and step.reason) == (2, "failed")
    session.user("go on")
    assert run(session, signed)[1] == Stop("finished")


def test_refused_state_is_that_of_one_model_and_comes_back_with_a_rollback(session: Session) -> None:
    """Another model gets its own state; the history before the refusal has all."""
    stated(session)
    stated(session, GPT)
    version = session.version
    session.user("and now?")
    assert len(run(session, signed)[0]) == 2
    session.user("you?")
    assert [len(state_of(request)) for request in run(session, never, GPT)[0]] == [1]
    session.rollback(version)
    session.user("and then?")
    assert [len(state_of(request)) for request in run(session, never)[0]] == [1]


# -- the rest --------------------------------------------------------------------------------------

REST = [
    ("billing", RefusedError(402, "Insufficient Balance"), "credit"),
    ("auth", RefusedError(401, "Incorrect API key provided"), "key"),
    ("unknown-model", RefusedError(404, "The model `x` does not exist"), "take another model"),
    ("content-filter", RefusedError(400, "Input data may contain inappropriate content."), "session.rollback("),
    ("api", RefusedError(400, "Unsupported value"), "session.rollback("),
    ("media", RefusedError(400, "Invalid image data"), "session.rollback("),
    ("transient", RefusedError(503, "overloaded"), "turn.retry()"),
]


@pytest.mark.parametrize(("kind", "error", "help"), REST, ids=[kind for kind, _, _ in REST])
def test_the_rest_ends_the_turn_with_the_words_and_what_helps(
    session: Session, kind: str, error: RefusedError, help: str
) -> None:
    """The step has the kind, the provider's words, and the action; then the next is answered."""
    with session.turn("first", "r0"):
        run(session, never)
    with session.turn("hi", "r1"):
        asked, step = run(session, lambda _request: error)
        assert isinstance(step, Stop)
        assert (step.reason, step.error and step.error.name) == ("failed", kind)
        assert str(error) in step.sentence
        assert help in step.sentence
        assert len(asked) == (4 if kind == "transient" else 1)
    command = re.search(r"`(session\.rollback\([^`]*\))`", step.sentence)
    if command is not None:
        eval(command[1], {"session": session})  # noqa: S307  # the promise: the sentence is a command
        assert [message.role for message in ModelView.of(session).messages] == ["user", "assistant"]
    with session.turn("next", "r2"):
        assert run(session, never)[1] == Stop("finished")


class APIError(Exception):
    """Stands for the error that openai raises for an error inside a stream: without a status."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code


@pytest.mark.parametrize(
    ("code", "name", "calls"), [("context_length_exceeded", "overflow", 1), ("server_error", "transient", 4)]
)
def test_an_error_that_a_client_raises_inside_a_stream_is_the_streams(
    session: Session, code: str, name: str, calls: int
) -> None:
    """The error has its kind, ends the reply, and is raised as a `StreamError`."""
    asked: list[None] = []

    def ask() -> Iterator[dict[str, Any]]:
        asked.append(None)
        yield {"choices": [{"delta": {"content": "half"}}]}
        raise APIError("An error occurred", code)

    async def later() -> AsyncIterator[dict[str, Any]]:
        for chunk in ask():
            yield chunk

    for number, way in enumerate(("sync", "async")):
        asked.clear()
        with suppress(StreamError), session.turn("hi", f"r{number}"), session.assistant(CLAUDE) as reply:
            if way == "sync":
                fill_retrying(reply, ask, sleep=lambda _seconds: None)
            else:
                asyncio.run(afill_retrying(reply, later, sleep=lambda _seconds: asyncio.sleep(0)))
            raise AssertionError("nothing was raised")
        finished = [found.event for found in session.events() if isinstance(found.event, ev.MessageFinished)]
        assert (finished[-1].error and finished[-1].error.name, len(asked)) == (name, calls)
