"""The operations of views, transcripts and reports on a session."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import eventlog
from eventlog import Recorded, Session
from projections import (
    LiveView,
    ModelView,
    Transcript,
    cache_uses,
    common_prefix,
    event_kind,
    event_record,
    event_summary,
    preset,
    session_stats,
    usage_by_model,
)
from projections.loop import ContextWindow
from projections.requests.ai_sdk import model_messages
from projections.requests.anthropic import anthropic_request
from projections.requests.forms import RequestForm, digest, form_named, recorded_form
from projections.requests.gemini import gemini_request
from projections.requests.openai import chat_messages
from projections.requests.openai_responses import responses_request
from projections.requests.output_format import chat_format, responses_format
from tests.growth.operation import Table, constant, history, output
from tests.growth.place import POLICY, Place

_ALL = "gives every message"
_EVERY = "reads every event"


@contextmanager
def _live(at: Place) -> Generator[LiveView]:
    live = at.live
    live.advance()
    at.long.user("a question")
    yield live


@contextmanager
def _wide(at: Place) -> Generator[LiveView]:
    live = at.wide_live
    live.advance()
    at.wide.user("a question")
    yield live


def _said(of: Callable[[Place], Session]) -> Any:
    @contextmanager
    def said(at: Place) -> Generator[Session]:
        session = of(at)
        ModelView.of(session)
        session.user("a question")
        yield session

    return said


@contextmanager
def _event(at: Place) -> Generator[Recorded]:
    yield next(at.long.events(100, 101))


@contextmanager
def _view(at: Place) -> Generator[ModelView]:
    yield ModelView.of(at.long)


@contextmanager
def _fresh(at: Place) -> Generator[Session]:
    with eventlog.open(at.closed.path, flush_interval=60.0) as store:
        yield store.session("long")


@contextmanager
def _fresh_fork(at: Place) -> Generator[Session]:
    with eventlog.open(at.closed.path, flush_interval=60.0) as store:
        yield store.session("fork000000")


VIEWS: Table = {
    "ModelView.of": constant(lambda at, _: ModelView.of(at.long)),
    "ModelView.of, wide": constant(lambda at, _: ModelView.of(at.wide)),
    "ModelView.of, after a message": constant(lambda _, session: ModelView.of(session), _said(lambda at: at.long)),
    "ModelView.of, after a message, wide": constant(
        lambda _, session: ModelView.of(session), _said(lambda at: at.wide)
    ),
    "ModelView.of, an early version": constant(lambda at, _: ModelView.of(at.long, 500)),
    "ModelView.of, the middle of many compactions": constant(lambda at, _: ModelView.of(at.aged, at.aged.version // 2)),
    "ModelView.of, an old version, not compacted": history(
        lambda at, _: ModelView.of(at.wide, at.wide.version // 2), "the view of then is the history up to then"
    ),
    "ModelView.digest": constant(lambda _, view: view.digest, _view),
    "ModelView.record": constant(lambda _, view: view.record, _view),
    "ModelView.explain": constant(lambda at, view: view.explain(f"u{at.last_turn:06}"), _view),
    "ModelView.explain, what is covered": history(lambda _, view: view.explain("u000100"), _EVERY, _view),
    "ModelView.tokens": constant(lambda _, view: view.tokens, _view),
    "LiveView.view, of a new one": constant(lambda at, _: LiveView(at.long).view),
    "LiveView.advance": constant(lambda _, live: live.advance(), _live),
    "LiveView.advance, wide": constant(lambda _, live: live.advance(), _wide),
    "LiveView.catch_up": constant(lambda _, live: live.catch_up(), _live),
    "LiveView.excluding": constant(lambda _, live: live.excluding(None), _live),
    "LiveView.render_with": constant(lambda _, live: live.render_with(preset("default")), _live),
    "LiveView.readable": constant(lambda _, live: live.readable, _live),
    "LiveView.save": constant(lambda _, live: live.save(), _live),
    "LiveView.state": constant(lambda _, live: live.state, _live),
    "LiveView.version": constant(lambda _, live: live.version, _live),
    "LiveView.view": constant(lambda _, live: live.view, _live),
    "LiveView.view, wide": constant(lambda _, live: live.view, _wide),
    "cache_uses": history(lambda at, _: [*cache_uses(at.wide)], "rebuilds every request"),
    "common_prefix": constant(lambda at, view: common_prefix(view, ModelView.of(at.long)), _view),
    "event_kind": constant(lambda _, found: event_kind(found.event), _event),
    "event_record": constant(lambda _, found: event_record(found), _event),
    "event_summary": constant(lambda _, found: event_summary(found.event), _event),
    "preset": constant(lambda _at, _: preset("default")),
    "session_stats": history(lambda at, _: session_stats(at.long), _EVERY),
    "usage_by_model": history(lambda at, _: usage_by_model(at.long.reader.spans()), _EVERY),
}
COLD_VIEWS: Table = {
    "ModelView.of, cold": constant(lambda _, session: ModelView.of(session), _fresh),
    "ModelView.of, cold, of a fork": constant(lambda _, session: ModelView.of(session), _fresh_fork),
    "LiveView.view, cold": constant(lambda _, session: LiveView(session).view, _fresh),
    "Transcript.page, cold": constant(lambda _, session: Transcript(session).page(50), _fresh),
    "ContextWindow.next_step, cold": constant(
        lambda _, session: ContextWindow(session, POLICY, environment={}).next_step(), _fresh
    ),
}
"""The first call of a process."""


@contextmanager
def _asked(at: Place) -> Generator[ModelView]:
    yield at.wide_live.advance()


TRANSCRIPTS: Table = {
    "Transcript.newest_first": constant(lambda at, _: [*islice(Transcript(at.long).newest_first(), 50)]),
    "Transcript.oldest_first": history(lambda at, _: Transcript(at.long).oldest_first(), _ALL),
    "Transcript.page": constant(lambda at, _: Transcript(at.long).page(50)),
    "Transcript.page, from the middle": constant(lambda at, _: Transcript(at.long, at.long.version // 2).page(50)),
}

FORMATS: Table = {
    "anthropic_request": output(lambda _, view: len(anthropic_request(view.messages)["messages"]), _asked),
    "chat_messages": output(lambda _, view: len(chat_messages(view.messages)), _asked),
    "gemini_request": output(lambda _, view: len(gemini_request(view.messages)["contents"]), _asked),
    "model_messages": output(lambda _, view: len(model_messages(view.messages)), _asked),
    "digest": output(lambda _, view: len(digest(RequestForm("ai-sdk").body(view.messages))) and len(view), _asked),
    "form_named": constant(lambda _at, _: form_named("anthropic")),
    "recorded_form": constant(lambda _at, _: recorded_form('{"name":"anthropic/1"}')),
    "chat_format": constant(lambda _at, _: chat_format('{"type":"text"}')),
    "responses_format": constant(lambda _at, _: responses_format('{"type":"text"}')),
    "responses_request": output(lambda _, view: len(responses_request(view.messages)["input"]), _asked),
}
