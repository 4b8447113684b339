"""`fill_retrying` and `afill_retrying` ask again after failures that pass, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from json import JSONDecodeError
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eventlog import events as ev
from eventlog.aio import AsyncSession
from eventlog.errors import CallError
from eventlog.session.session import Session
from eventlog.streams.retry_after import seconds_asked
from eventlog.values import Model, Retry
from projections import ModelView
from projections.loop import afill_retrying, fill_retrying, refusal
from projections.loop.context.retrying import LOOK_EVERY, Backoff
from projections.view.neutral import Call
from projections.view.neutral import Text as ViewText

MODEL = Model("openai", "gpt-5")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class StatusError(Exception):
    """A provider's error with a status, and perhaps a Retry-After."""

    def __init__(self, status: int, after: str | None = None) -> None:
        super().__init__(f"status {status}")
        self.status_code = status
        self.response = SimpleNamespace(headers={} if after is None else {"retry-after": after})


class Provider:
    """A model whose first calls fail, each after some text."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> Iterator[dict[str, Any]]:
        """Return the chunks of the next call."""
        self.calls += 1
        number = self.calls
        yield {"choices": [{"delta": {"content": f"attempt {number}"}}]}
        if number <= len(self.errors):
            raise self.errors[number - 1]
        yield {"choices": [{"delta": {}, "finish_reason": "stop"}]}


Fill = Callable[..., str]


def filled(session: Session, provider: Provider, waited: Callable[[float], None], **options: Any) -> str:
    """Answer with the provider; each wait is told."""
    with session.assistant(MODEL) as reply:
        reply.step()
        return fill_retrying(reply, provider, sleep=waited, **options).reason


def filled_in_a_task(session: Session, provider: Provider, waited: Callable[[float], None], **options: Any) -> str:
    """Answer in a task, with a provider whose calls are awaited; each wait is told."""

    async def chunks() -> AsyncIterator[dict[str, Any]]:
        for chunk in provider():
            yield chunk

    async def ask() -> AsyncIterator[dict[str, Any]]:
        return chunks()

    async def sleep(seconds: float) -> None:
        waited(seconds)

    async def answer() -> str:
        async with AsyncSession(session).assistant(str(MODEL)) as reply:
            reply.sync.step()
            return (await afill_retrying(reply.sync, ask, sleep=sleep, **options)).reason

    return asyncio.run(answer())


def _no_wait(seconds: float) -> None:
    raise AssertionError(f"waited {seconds} s")


@pytest.fixture(params=[filled, filled_in_a_task])
def fill(request: pytest.FixtureRequest) -> Fill:
    """Each form of the function."""
    return cast("Fill", request.param)


def attempts(session: Session) -> list[Retry]:
    """The retry parts of the session."""
    kinds = [recorded.event.kind for recorded in session.events() if isinstance(recorded.event, ev.PartStarted)]
    return [kind for kind in kinds if isinstance(kind, Retry)]


def test_failures_that_pass_are_asked_again(session: Session, fill: Fill) -> None:
    """The model never sees the text of an attempt that failed; the log has it."""
    session.user("hi")
    provider = Provider(ConnectionResetError("gone"), StatusError(429, "7"), StatusError(503))
    waits: list[float] = []
    assert fill(session, provider, waits.append) == "stop"
    assert provider.calls == 4
    assert 0.25 <= waits[0] <= 0.5
    assert sum(waits[1:9]) == 7.0
    assert 1.0 <= sum(waits[9:]) <= 2.0
    assert max(waits) <= LOOK_EVERY
    found = attempts(session)
    assert [retry.attempt for retry in found] == [1, 2, 3]
    assert [retry.error.data for retry in found] == [None, '{"status":429}', '{"status":503}']
    parts = ModelView.of(session).messages[-1].parts
    assert [part.text for part in parts if isinstance(part, ViewText)] == ["attempt 4"]
    said = [recorded.event.text for recorded in session.events() if isinstance(recorded.event, ev.PartDelta)]
    assert said == ["attempt 1", "attempt 2", "attempt 3", "attempt 4"]


@pytest.mark.parametrize("error", [StatusError(400), KeyError("x")])
def test_other_failures_are_raised_at_once(session: Session, fill: Fill, error: Exception) -> None:
    """A request that cannot succeed is not sent again."""
    session.user("hi")
    provider = Provider(error)
    with pytest.raises(type(error)):
        fill(session, provider, _no_wait)
    assert (provider.calls, attempts(session)) == (1, [])


def test_a_program_names_the_errors_of_its_provider(session: Session, fill: Fill) -> None:
    """Errors in `transient` are tried again; the last one is raised."""
    session.user("hi")
    provider = Provider(*[KeyError("x")] * 3)
    waits: list[float] = []
    with pytest.raises(KeyError):
        fill(session, provider, waits.append, transient=(KeyError,), attempts=3)
    assert (provider.calls, len(waits), len(attempts(session))) == (3, 2, 2)


def test_an_interrupt_ends_the_waiting(session: Session, fill: Fill) -> None:
    """A user who stops while the program waits is heard."""
    session.user("hi")
    provider = Provider(StatusError(429, "20"))
    waits: list[float] = []

    def stopped(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            session.interrupt()

    assert fill(session, provider, stopped) == "aborted"
    assert (provider.calls, waits) == (1, [LOOK_EVERY] * 3)


def test_waits_are_bounded_and_jittered() -> None:
    """Waits double up to the longest, half of each is random, and what is asked for holds."""
    error = StatusError(500)
    backoffs = [Backoff(attempts=9, first=0.5, longest=30.0) for _ in range(20)]
    for attempt in range(1, 9):
        most = min(30.0, 0.5 * 2 ** (attempt - 1))
        found = {backoff.wait(error) for backoff in backoffs}
        assert len(found) > 1
        assert all(seconds is not None and most / 2 <= seconds <= most for seconds in found)
    assert backoffs[0].wait(error) is None
    asked = Backoff(attempts=9, first=0.5, longest=30.0)
    assert [asked.wait(StatusError(500, after)) for after in ("3", "28", "27", "300")] == [3.0, None, 27.0, None]
    with pytest.raises(CallError):
        Backoff(attempts=0, first=0.5, longest=30.0)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("5", 5.0),
        ("-5", 0.0),
        ("Thu, 01 Jan 2026 00:00:09 GMT", 9.0),
        ("Thu, 01 Jan 2026 00:00:09 -0000", 9.0),
        ("soon", None),
    ],
)
def test_a_retry_after_is_read(header: str | None, seconds: float | None) -> None:
    """A number of seconds or a date is read; anything else asks for nothing."""
    assert seconds_asked(header, lambda: NOW) == seconds


class APIConnectionError(Exception):
    """Stands for the error of openai's and anthropic's clients."""


class TransportError(Exception):
    """Stands for the error of httpx."""


class ReadTimeoutError(TransportError):
    """One of its kinds."""


@pytest.mark.parametrize(
    "error",
    [APIConnectionError("x"), ReadTimeoutError("x"), JSONDecodeError("x", "{", 1)],
    ids=lambda error: type(error).__name__,
)
def test_a_broken_answer_is_asked_for_again_and_leaves_its_turn_to_go_on(session: Session, error: Exception) -> None:
    """A connection that a client says is broken, and garbled JSON, are no end of the turn."""
    provider = Provider(error)
    assert filled(session, provider, lambda _: None) == "stop"
    with pytest.raises(Exception, match="x"), session.turn("again", "r2"):  # each its own class
        filled(session, Provider(*[error] * 9), lambda _: None)
    with session.turn() as turn:
        assert (turn.state, turn.mine) == ("resumed", True)


def test_an_answer_without_an_end_is_asked_for_again(session: Session) -> None:
    """A stream that ends without a finish reason broke off, with its text and its calls."""
    asked: list[str] = []

    def ask() -> Iterator[dict[str, Any]]:
        asked.append("asked")
        yield {"choices": [{"delta": {"content": "half"}}]}
        if len(asked) > 1:
            yield {"choices": [{"delta": {"content": " and half"}, "finish_reason": "stop"}]}

    async def later() -> AsyncIterator[dict[str, Any]]:
        for chunk in ask():
            yield chunk

    for number, ways in enumerate(("sync", "async")):
        asked.clear()
        with session.turn("why?", f"r{number}"), session.assistant(MODEL) as reply:
            reply.step()
            if ways == "sync":
                assert fill_retrying(reply, ask, first_wait=0).reason == "stop"
            else:
                assert asyncio.run(afill_retrying(reply, later, first_wait=0)).reason == "stop"
        (part,) = ModelView.of(session).messages[-1].parts
        assert part == ViewText("half and half")


SILENT: list[dict[str, Any]] = [
    {},
    {"choices": None},
    {"choices": "x"},
    {"choices": [None, 5]},
    {"choices": [{"delta": None}]},
    {"choices": [{"delta": {"content": None, "reasoning": [], "tool_calls": "x"}}]},
    {"choices": [{"delta": {"tool_calls": [5, None]}}]},
    {"usage": "x"},
]
"""Chunks that say nothing, in forms that no provider documents."""


@pytest.mark.parametrize("chunk", SILENT, ids=str)
def test_chunks_that_say_nothing_are_nothing(session: Session, chunk: dict[str, Any]) -> None:
    """A chunk of an unknown form is passed over."""
    with session.assistant(MODEL) as reply:
        reply.step()
        chunks = [chunk, {"choices": [{"delta": {"content": "all"}}]}, chunk, {"choices": [{"finish_reason": "stop"}]}]
        assert fill_retrying(reply, lambda: chunks).reason == "stop"
    assert ModelView.of(session).messages[-1].parts == (ViewText("all"),)


def test_a_call_of_an_unknown_form_has_a_name_and_an_id(session: Session) -> None:
    """A call whose name, id or arguments are missing or no texts is still a call."""
    calls: list[dict[str, Any]] = [
        {"id": None, "function": None},
        {"index": 1, "id": 5, "function": {"name": None, "arguments": {}}},
    ]
    with session.assistant(MODEL) as reply:
        reply.step()
        chunks = [{"choices": [{"delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}]
        assert fill_retrying(reply, lambda: chunks).reason == "tool-calls"
        reply.abort()
    parts = [part for message in ModelView.of(session).messages for part in message.parts]
    assert [part.call for part in parts if isinstance(part, Call)] == ["call_0", "call_1"]


class RefusedByProviderError(Exception):
    """A refusal of a client, with a status and perhaps a code."""

    def __init__(self, status: int | None, text: str, code: str | None = None) -> None:
        super().__init__(text)
        self.status_code = status
        self.code = code


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (RefusedByProviderError(400, "no", "context_length_exceeded"), "overflow"),
        (RefusedByProviderError(413, "no"), "overflow"),
        (RefusedByProviderError(400, "prompt is too long: 210000 tokens"), "overflow"),
        (RefusedByProviderError(400, "bad request"), "api"),
        (RefusedByProviderError(401, "prompt is too long"), "auth"),
        (ValueError("no status"), "api"),
    ],
    ids=str,
)
def test_a_refusal_says_whether_it_is_for_the_size(error: Exception, name: str) -> None:
    """A refused reply's error has status and text, and is "overflow" for the size."""
    said = refusal(error)
    assert (said.name, str(error) in said.message) == (name, True)
    status = getattr(error, "status_code", None)
    assert said.data == (None if status is None else f'{{"status":{status}}}')
