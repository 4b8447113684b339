"""`fill_retrying` and `afill_retrying` ask again after failures that pass, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eventlog import events as ev
from eventlog.aio import AsyncSession
from eventlog.errors import CallError
from eventlog.session.session import Session
from eventlog.values import Model, Retry
from projections import ModelView
from projections.view.neutral import Text as ViewText
from projections.window import afill_retrying, fill_retrying
from projections.window.backoff import Backoff, seconds_asked
from projections.window.retrying import LOOK_EVERY

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
        return fill_retrying(reply, provider, sleep=waited, **options)


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
            return await afill_retrying(reply.sync, ask, sleep=sleep, **options)

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
    backoff = Backoff(attempts=9, first=0.5, longest=30.0)
    for attempt in range(1, 9):
        most = min(30.0, 0.5 * 2 ** (attempt - 1))
        found = {backoff.seconds(attempt) for _ in range(20)}
        assert len(found) > 1
        assert all(most / 2 <= seconds <= most for seconds in found)
    assert (backoff.seconds(1, 3.0), backoff.seconds(1, 300.0)) == (3.0, 30.0)
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
