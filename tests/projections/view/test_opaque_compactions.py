"""Compactions that only their provider can read: as they come in, as they go out.

Recorded and live alike: OpenAI's `context_management` and `/responses/compact`, Codex, Anthropic's
compaction blocks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import Model, Opaque
from eventlog.errors import RefusedError
from eventlog.importers import import_file
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.streams.tokens import anthropic_usage
from eventlog.values import MessageError
from projections import LiveView, ModelView, Transcript
from projections.loop import CallModel, ContextWindow, Stop, window_report
from projections.reports.audit import audit
from projections.requests.anthropic import anthropic_request
from projections.requests.openai import chat_messages
from projections.requests.openai_responses import responses_request
from projections.view.options import RenderOptions
from projections.window import covered_by

GPT, CLAUDE = Model("openai", "gpt-5"), Model("anthropic", "claude")
CIPHER = {"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAAA"}
BLOCK = {"type": "compaction", "content": "<summary>all of it</summary>", "signature": "S"}
ANSWERS: dict[Model, Any] = {
    GPT: {
        "object": "response",
        "status": "completed",
        "output": [
            CIPHER,
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "hello", "annotations": []}],
            },
        ],
        "usage": {"input_tokens": 90_000, "output_tokens": 700, "total_tokens": 90_700},
    },
    CLAUDE: {
        "type": "message",
        "role": "assistant",
        "content": [BLOCK, {"type": "text", "text": "hello"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 5, "output_tokens": 9},
    },
}


@pytest.fixture
def talk(store: Store) -> Session:
    """A session with an exchange, and a question that the model compacts it for."""
    session = store.create_session()
    session.user("first", id="q1")
    with session.assistant(CLAUDE, id="a1") as reply:
        reply.add_text("one")
        reply.finish()
    session.user("second", id="q2")
    return session


def answered(session: Session, model: Model, **step: Any) -> Session:
    """Let a model answer with a compaction of its provider's."""
    with session.assistant(model, id="a2") as reply:
        if step:
            reply.step(**step)
        reply.fill(ANSWERS[model])
    return session


def of(session: Session, model: Model, **options: Any) -> ModelView:
    """Return the view of a model."""
    return ModelView.of(session, options=RenderOptions(model=model, **options))


def test_its_target_begins_with_it_and_others_with_the_history(talk: Session) -> None:
    """The item goes back as it came, behind the pending question; others get the history."""
    answered(talk, GPT)
    request = responses_request(of(talk, GPT).messages)["input"]
    assert [item.get("type") for item in request] == ["message", "compaction", "message"]
    assert request[1] == CIPHER
    others = chat_messages(of(talk, CLAUDE).messages)
    assert [message["content"] for message in others] == ["first", "one", "second", "hello"]
    assert (of(talk, GPT).boundary is None, of(talk, CLAUDE).boundary) == (False, None)
    assert ModelView.of(talk).digest == of(talk, GPT).digest


def test_a_readable_one_counts_for_all(talk: Session) -> None:
    """Anthropic gets its block, others the summary; neither the messages that it stands for."""
    answered(talk, CLAUDE)
    request = anthropic_request(of(talk, CLAUDE).messages)["messages"]
    assert request[1]["content"][0] == BLOCK
    others = chat_messages(of(talk, GPT).messages)
    assert [message["content"] for message in others] == ["second", "<summary>all of it</summary>hello"]
    assert of(talk, GPT).boundary == of(talk, CLAUDE).boundary


@pytest.mark.parametrize("way", ["remove", "undo", "redact", "rollback", "refused"])
def test_what_takes_it_away_brings_the_history_back(talk: Session, way: str) -> None:
    """After each of the ways the target is sent the history again, and no cipher."""
    before = talk.version
    answered(talk, GPT)
    part = of(talk, GPT).boundary
    assert part is not None
    options: dict[str, Any] = {}
    if way == "remove":
        talk.remove_part(part)
    elif way == "undo":
        assert ContextWindow(talk, model=GPT, limits=eventlog.Limits(200_000, 8_000)).undo() == "compaction"
    elif way == "redact":
        talk.redact(part, reason="secret")
    elif way == "rollback":
        talk.rollback(to=before)
    else:
        options["state_from"] = talk.version
    shown = of(talk, GPT, **options)
    said = [message["content"] for message in chat_messages(shown.messages)]
    assert said[:3] == ["first", "one", "second"]
    assert "gAAAA" not in json.dumps(responses_request(shown.messages))
    assert shown.boundary is None


def test_an_answer_that_broke_off_compacts_nothing(talk: Session) -> None:
    """A compaction counts once its model call has ended."""
    reply = talk.assistant(GPT)
    with reply:
        reply.step()
        reply.part(Opaque("openai.compaction", json.dumps(CIPHER), "openai/gpt-5"))
        reply.abort()
    assert of(talk, GPT).boundary is None
    assert "first" in str([*of(talk, GPT).messages])


def test_an_unknown_model_gets_the_history(talk: Session) -> None:
    """Without a model no target is known to read the cipher: nothing is lost."""
    with talk.assistant() as reply:
        reply.fill(ANSWERS[GPT])
    assert [message["content"] for message in chat_messages(ModelView.of(talk).messages)] == [
        "first",
        "one",
        "second",
        "hello",
    ]


def test_endpoints_are_targets_of_their_own(talk: Session) -> None:
    """Another host of the same model is sent neither the cipher nor signatures."""
    answered(talk, GPT, endpoint="eu")
    assert of(talk, GPT).boundary is not None  # the newest step asked the model there
    assert of(talk, GPT, target="openai/gpt-5 at eu").boundary is not None
    elsewhere = of(talk, GPT, target="openai/gpt-5 at us")
    assert elsewhere.boundary is None
    assert "first" in str([*elsewhere.messages])


def test_a_form_that_cannot_send_it_says_so(talk: Session) -> None:
    """The error names the view that is needed; nothing is left out in silence."""
    answered(talk, GPT)
    for form in (chat_messages, anthropic_request):
        with pytest.raises(RefusedError, match="RenderOptions"):
            form(of(talk, GPT).messages)


@pytest.mark.parametrize("model", [GPT, CLAUDE])
def test_a_window_goes_on_behind_it(talk: Session, model: Model) -> None:
    """The window asks with it, reports both boundaries, audits what it sent, and can undo it."""
    answered(talk, model)
    limits = eventlog.Limits(200_000, 8_000)
    talk.user("third")
    with ContextWindow(talk, model=model, limits=limits) as window:
        report = window_report(window)
        assert report.tokens < 2_000  # not the 90,000 that were compacted
        assert report.boundary is not None
        assert report.boundary_for_all == (None if model is GPT else report.boundary)
        assert report.target == str(model)
        step = window.next_step()
        assert isinstance(step, CallModel)
        reply, request = window.begin(step)
        assert "first" not in str([*request.messages])
        reply.add_text("three")
        window.finish("stop")
    assert {step.verdict for step in audit(talk) if step.recorded} == {"match"}
    assert covered_by(talk, report.boundary).target == (str(GPT) if model is GPT else None)
    assert [message.id for message in covered_by(talk, report.boundary).messages] == ["q1", "a1"]
    explained = of(talk, model).explain("q1")
    assert (explained.reason, str(model) in explained.sentence) == ("covered", model is GPT)


def test_a_refused_cipher_is_not_sent_again(talk: Session) -> None:
    """The loop asks once more with the history; a second refusal in a row ends the turn."""
    answered(talk, GPT)
    talk.user("third")
    sent: list[str] = []
    with ContextWindow(talk, model=GPT, limits=eventlog.Limits(200_000, 8_000)) as window:
        while isinstance(step := window.next_step(), CallModel):
            reply, request = window.begin(step)
            sent.append(json.dumps(responses_request(request.messages)))
            reply.abort(MessageError("opaque-state", "the encrypted content could not be verified"))
        assert isinstance(step, Stop)
        assert step.reason == "failed"
    assert [("gAAAA" in body, "first" in body) for body in sent] == [(True, False), (False, True)]
    assert {step.verdict for step in audit(talk) if step.recorded} == {"match"}


def test_a_switch_to_a_full_window_begins_with_a_compaction(store: Store) -> None:
    """The history that the new target would be sent is summarised first, and for all targets."""
    session = store.create_session()
    for number in range(30):
        session.user(f"question {number}")
        with session.assistant(GPT) as reply:
            reply.add_text(f"answer {number} " + "word " * 400)
            reply.finish()
    session.user("and now")
    answered(session, GPT)
    session.user("next")
    small = eventlog.Limits(8_000, 1_000)
    with ContextWindow(session, model=GPT, limits=small) as window:
        assert type(window.next_step()).__name__ == "CallModel"
    with ContextWindow(session, model=CLAUDE, limits=small) as window:
        seen: list[str] = []
        while type(step := window.next_step()).__name__ != "CallModel":
            seen.append(type(step).__name__)
            window.perform(step)
        assert seen == ["RequestCompaction", "Compact"]
        assert window.tokens < 8_000
    for model in (GPT, CLAUDE):
        assert of(session, model).boundary == of(session, CLAUDE).boundary
    assert "question 3" in str([*of(session, GPT).messages])


def test_our_summary_of_a_session_with_ciphers_has_all_of_it(talk: Session) -> None:
    """Messages that a cipher hides from one target are in the summary for all targets."""
    answered(talk, GPT)
    with ContextWindow(talk, model=GPT, limits=eventlog.Limits(200_000, 8_000)) as window:
        talk.user("third")
        assert window.compact().completed
    view = str([*of(talk, GPT).messages])
    assert "first" in view  # in the summary
    assert "gAAAA" not in view
    assert {step.verdict for step in audit(talk) if step.recorded} == {"match"}


def test_a_requested_compaction_is_not_lost_behind_a_cipher(talk: Session) -> None:
    """A later summary of ours counts for the target of the cipher, too."""
    part = talk.context.request_compaction()
    marker = talk.reader.state().last_message
    answered(talk, GPT)
    assert of(talk, GPT).boundary != part
    with talk.lease():
        talk.context.start_compaction(part, through="a2", kept=())
        with talk.assistant(GPT, reply_to=marker, summary=True) as reply:
            reply.add_text("summary of ours")
            reply.finish()
        talk.context.complete_compaction(part, reply.id)
    for model in (GPT, CLAUDE):
        assert of(talk, model).boundary == part
        talk.store.host.kept.forget(talk.id)


def codex(*records: dict[str, Any]) -> bytes:
    """A rollout of a known model."""
    meta = {"type": "session_meta", "payload": {"id": "s", "cwd": "/w", "model_provider": "openai"}}
    turn = {"type": "turn_context", "payload": {"model": "gpt-5"}}
    every = [meta, turn, *records]
    return b"".join(json.dumps({"timestamp": "2026-09-01T10:00:00.000Z", **one}).encode() + b"\n" for one in every)


def message(role: str, text: str) -> dict[str, Any]:
    """A message of a rollout."""
    kind = "input_text" if role == "user" else "output_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


@pytest.mark.parametrize("repeats", [False, True])
def test_codex_goes_on_from_its_own(store: Store, tmp_path: Path, repeats: bool) -> None:
    """The replaced history is sent as Codex sends it; another model gets the readable one."""
    left = [message("user", "first"), {"type": "compaction", "encrypted_content": "gAAAA"}]
    items = [{"type": "response_item", "payload": left[1]}] if repeats else []
    path = tmp_path / "rollout.jsonl"
    path.write_bytes(
        codex(
            {"type": "response_item", "payload": message("user", "first")},
            {"type": "response_item", "payload": message("assistant", "one")},
            {"type": "compacted", "payload": {"message": "", "replacement_history": left}},
            *items,
            {"type": "response_item", "payload": message("user", "second")},
            {"type": "response_item", "payload": message("assistant", "two")},
        )
    )
    session = store.session(import_file(store, path).sessions[0])
    sent = responses_request(of(session, GPT).messages)["input"]
    assert [item.get("content") or item["type"] for item in sent] == [
        [{"type": "input_text", "text": "first"}],
        "compaction",
        [{"type": "input_text", "text": "second"}],
        "two",
    ]
    assert [each["content"] for each in chat_messages(of(session, CLAUDE).messages)] == [
        "first",
        "one",
        "second",
        "two",
    ]


def test_it_costs_what_its_provider_reported(talk: Session) -> None:
    """The compaction counts as the output of its call; the call of Anthropic's is paid, too."""
    answered(talk, GPT)
    assert 700 <= of(talk, GPT).tokens < 800
    usage = {
        "input_tokens": 5,
        "output_tokens": 9,
        "iterations": [
            {"type": "compaction", "input_tokens": 1_000, "output_tokens": 50, "cache_read_input_tokens": 3},
            {"type": "message", "input_tokens": 5, "output_tokens": 9},
        ],
    }
    tokens = anthropic_usage(usage).tokens
    assert (tokens.input, tokens.output, tokens.cache_read) == (1_005, 59, 3)


def test_opening_costs_what_the_target_sees(store: Store) -> None:
    """A fresh process reads the target's checkpoint, not the covered history."""
    session = store.create_session()
    for number in range(300):
        session.user(f"question {number}")
        with session.assistant(GPT) as reply:
            reply.add_text(f"answer {number}")
            reply.finish()
    session.user("and now")
    answered(session, GPT)
    view = ModelView.of(session)
    store.host.kept.forget(session.id)
    live = LiveView(session)
    assert len(live.state.messages) < 5
    assert live.view.digest == view.digest
    assert len(Transcript(session).oldest_first()) == 602
