"""Usage that a provider told is recorded, however the call ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import eventlog
from eventlog import events as ev
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Limits, Model, Tokens
from projections import ContextWindow
from projections.loop import afill, afill_retrying, fill_retrying, summarize_with
from projections.reports.usage import session_usage, total
from projections.window import give_title

MODEL = Model("anthropic", "claude-sonnet-4-5")
SAID: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 1000}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half"}},
]
WHOLE: list[dict[str, Any]] = [
    *SAID,
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]


class Provider:
    """An answer for each call: the first `cut` ones break off, behind `said` chunks."""

    def __init__(
        self, cut: int, error: Callable[[], Exception] = lambda: ConnectionError("cut"), said: int = 3
    ) -> None:
        self.cut, self.error, self.said, self.calls = cut, error, said, 0

    def __call__(self, _request: object = None) -> Iterator[Any]:
        """The chunks of the next answer."""
        self.calls += 1
        if self.cut:
            self.cut -= 1
            yield from SAID[: self.said]
            raise self.error()
        yield from WHOLE

    async def later(self, _request: object = None) -> AsyncIterator[Any]:
        """The chunks for asyncio."""
        for chunk in self():
            yield chunk


def spent(session: Session) -> list[tuple[int, bool, str]]:
    """Input, failure and purpose of each recorded call."""
    items = [span.item for span in session.reader.spans()]
    used = [item for item in items if isinstance(item, ev.UsageRecorded)]
    return [(item.usage.tokens.input, item.failed, item.purpose) for item in used]


def filled(session: Session, how: str, provider: Provider) -> None:
    """Answer a question, in one of the ways in which a reply is filled."""
    with session.turn("Why?", "r"), session.assistant(MODEL) as reply:
        if how == "fill":
            reply.fill(provider())
        elif how == "afill":
            asyncio.run(afill(reply, provider.later()))
        elif how == "fill_retrying":
            fill_retrying(reply, provider, attempts=2, first_wait=0.0)
        else:
            asyncio.run(afill_retrying(reply, provider.later, attempts=2, first_wait=0.0))


WAYS = ["fill", "afill", "fill_retrying", "afill_retrying"]
FAILURES = {
    "cut": lambda: ConnectionError("cut"),
    "failed": lambda: eventlog.StreamError("overloaded", code="overloaded_error"),
    "error": lambda: ValueError("of the program"),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("how", WAYS)
def test_what_a_cut_answer_told_is_recorded_once(store: Store, how: str, failure: str) -> None:
    """Each call counts, those that were repeated as well, and a failure is marked."""
    session = store.create_session()
    with suppress(ConnectionError, eventlog.StreamError, ValueError):
        filled(session, how, Provider(9, FAILURES[failure]))
    calls = 2 if "retrying" in how and failure != "error" else 1
    assert spent(session) == [(1000, True, "turn")] * calls
    assert (total(session_usage(session).own).input, session.info.calls) == (1000 * calls, calls)


@pytest.mark.parametrize("how", WAYS[2:])
def test_a_repeated_call_is_a_call_of_its_own(store: Store, how: str) -> None:
    """The attempt that broke off, and the one that answered."""
    session = store.create_session()
    filled(session, how, Provider(1))
    assert spent(session) == [(1000, True, "turn"), (1000, False, "turn")]


def test_an_answer_that_the_user_stops_costs_and_has_not_failed(store: Store) -> None:
    """The user's stop ends the stream; what was told by then is recorded."""
    session = store.create_session()

    def chunks() -> Iterator[Any]:
        yield from SAID
        session.interrupt()
        yield from SAID[-1:] * 40

    with session.turn("Why?", "r"), session.assistant(MODEL) as reply:
        assert reply.fill(chunks()).reason == "aborted"
    assert spent(session) == [(1000, False, "turn")]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["blocking", "asyncio"])
@pytest.mark.parametrize(("cut", "said"), [(1, 3), (1, 1), (0, 3)], ids=["in its text", "before its text", "not"])
def test_each_call_of_a_summariser_is_recorded(store: Store, cut: int, said: int, *, asynchronous: bool) -> None:
    """A summary that breaks off, one that is asked for again, and a title likewise."""
    session = store.create_session()
    for number in range(6):
        session.user(f"question {number} " + "word " * 600)
        with session.assistant(MODEL) as reply:
            reply.add_text("answer")
            reply.finish()
    provider = Provider(cut, said=said)
    ask = provider.later if asynchronous else provider
    summarizer = summarize_with(ask, attempts=2, first_wait=0.0)
    with ContextWindow(session, model=MODEL, limits=Limits(9_000, 1_000), summarizer=summarizer) as window:
        result = window.compact()
    assert [(tokens, purpose) for tokens, _, purpose in spent(session)] == [(1000, "summary")] * provider.calls
    assert [failed for _, failed, _ in spent(session)].count(True) == cut
    assert bool(result.reason) == (cut == 1 and said == 3)
    provider.cut, provider.calls = cut, 0
    give_title(session, summarize_with(ask, attempts=2, first_wait=0.0), model=MODEL)
    assert [tokens for tokens, _, purpose in spent(session) if purpose == "title"] == [1000] * provider.calls


def test_prices_that_fail_leave_no_reply_open() -> None:
    """The answer broke off, its cost cannot be computed: the reply is aborted all the same."""

    def prices(_model: object, _tokens: Tokens) -> None:
        raise LookupError("no prices today")

    with eventlog.open("memory:", prices=prices) as store:
        session = store.create_session()
        with pytest.raises(LookupError):
            filled(session, "fill", Provider(1))
        assert spent(session) == []
        assert session.reader.state().open_messages() == ()
