"""A step records the form and the digest of its body, and the audit makes the body again."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import CallError
from eventlog.log.commit import Commit
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Limits, Model, Opaque
from projections.loop import AsyncContextWindow, CallModel, ContextWindow, ModelRequest, RunTools
from projections.reports.audit import audit, audited_step
from projections.requests import forms
from projections.requests.forms import FORMS, RequestForm, digest
from projections.view.neutral import Call, NeutralMessage, Result, Text
from projections.window import ContextPolicy, LoopPolicy
from projections.window.policy.hooks import Hooks
from projections.window.policy.policy import OPENCODE_POLICY
from tests.projections.reports.test_audit import chunks
from tests.projections.reports.test_audit_history import forgeries
from tests.request_rules import anthropic
from tests.support.engines import LastingLog
from tests.support.provider_forms import check

pytestmark = pytest.mark.promise(10)

MODEL = Model("p", "m")
LIMITS = Limits(9_000, 1_000)
EVERY = [
    *map(RequestForm, FORMS),
    RequestForm("openai-chat", server="mistral"),
    RequestForm("openai-responses", store=False),
    RequestForm("anthropic", cache="prefix", prefill=False),
    RequestForm("gemini", ids=False),
]


def work(session: Session, form: RequestForm | str | None, steps: int = 6, hooks: Hooks | None = None) -> list[Any]:
    """Answer a question in steps that read files, pruned and compacted; return the bodies."""
    bodies: list[Any] = []
    with ContextWindow(session, model=MODEL, limits=LIMITS, hooks=hooks) as window:
        while step := window.next_step(allow_repeats=True):
            if isinstance(step, CallModel):
                reply, request = window.begin(step, form=form)
                bodies.append(request.formed)
                reply.fill(chunks(f"Step {len(bodies)}. " * 30, int(len(bodies) < steps), request.counted))
            elif isinstance(step, RunTools):
                for call in step.calls:
                    window.run(call, lambda given: f"the content of {given['file_path']} " * 200)
                window.finish()
            else:
                window.perform(step)
    return bodies


def steps_of(session: Session) -> list[ev.StepStarted]:
    """The steps of the session's turns."""
    found = [span.item for span in session.reader.spans() if isinstance(span.item, ev.StepStarted)]
    return [step for step in found if step.purpose == "turn"]


@pytest.mark.parametrize("form", EVERY, ids=lambda form: form.record)
def test_every_body_that_was_sent_is_made_again(store: Store, form: RequestForm) -> None:
    """After prunes, compactions and hooks the audit gives each body, with the recorded digest."""
    session = store.create_session()
    session.set_system_prompt("You help.", "In this folder.")
    hooks = Hooks(
        messages=lambda given: [*given, NeutralMessage("user", (Text("(a hook was here)"),))],
        system=lambda given: [*given, "Mind the tests."],
    )
    sent: list[Any] = []
    for used in (None, hooks):
        session.user("Find the defect. " * 50)
        sent += work(session, form, 8, used)
    steps = [step for step in audit(session) if step.purpose == "turn"]
    assert {(step.verdict, step.body, step.reason, step.form) for step in steps} == {
        ("match", "match", "", form.record)
    }
    requests = [audited_step(session, step.number)[1] for step in steps]
    assert [request and request.body for request in requests] == sent
    assert [step.body_digest for step in steps_of(session)] == [digest(body) for body in sent]
    assert len(sent) > 12


CHANGES: dict[str, Callable[[list[NeutralMessage]], list[NeutralMessage]]] = {
    "no calls": lambda given: [each for each in given if not any(isinstance(part, Call) for part in each.parts)],
    "no results": lambda given: [each for each in given if each.role != "tool"],
    "the newest": lambda given: [given[0], *given[-1:]],
    "results only": lambda given: [each for each in given if each.role != "assistant"],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_hook_leaves_no_call_or_result_alone(store: Store, change: str) -> None:
    """Messages that a hook drops take the other half of each call along, in every form."""
    session = store.create_session()
    session.user("Find the defect.")
    for _ in range(2):
        with session.assistant(MODEL) as reply:
            reply.tool("read", call_id="c1", input={"path": "a"}).succeed("some text")  # the id, twice
            reply.finish("tool-calls")
    with ContextWindow(session, model=MODEL, limits=LIMITS, hooks=Hooks(messages=CHANGES[change])) as window:
        step = window.next_step()
        assert isinstance(step, CallModel)
        reply, request = window.begin(step, form="anthropic")
        check(request.messages, request.system)
        said = [part for message in request.messages for part in message.parts]
        calls = [part for part in said if isinstance(part, Call)]
        assert len(calls) == sum(isinstance(part, Result) for part in said)
        reply.abort()
    assert next(audit(session)).body == "match"


def test_without_a_form_nothing_is_recorded_and_nothing_compared(store: Store) -> None:
    """A window that is asked for no form records what it always did, and has no body."""
    session = store.create_session()
    session.user("Find it")
    work(session, None, 2)
    assert {(step.form, step.body_digest) for step in steps_of(session)} == {(None, None)}
    assert {(step.verdict, step.body, step.form) for step in audit(session)} == {("match", "", None)}
    _, request = audited_step(session, 1)
    assert request is not None
    assert request.body is None


def test_a_body_is_there_for_the_form_that_was_asked_for(store: Store) -> None:
    """`request.body` has the API's members; without a form the error says how to name one."""
    session = store.create_session()
    session.user("Hello")
    with ContextWindow(session, model=MODEL, limits=LIMITS) as window:
        step = window.next_step()
        assert isinstance(step, CallModel)
        with pytest.raises(CallError, match="the forms are openai-chat"):
            window.begin(step, form="openai")
        with pytest.raises(CallError, match="a form is a RequestForm, or the name of one, not an int"):
            window.begin(step, form=3)  # type: ignore[arg-type]
        reply, request = window.begin(step)
        with pytest.raises(CallError, match=re.escape('window.begin(step, form="anthropic")')):
            _ = request.body
        reply.abort()
        session.user("Again")
        _, request = window.begin(window.next_step(), form="anthropic")  # type: ignore[arg-type]
        assert request.body.keys() == {"system", "messages"}
        assert request.form == RequestForm("anthropic")


def test_a_view_that_has_no_body_in_a_form_opens_no_reply(store: Store) -> None:
    """A refused form leaves the step to be begun in another; nothing is recorded."""
    session = store.create_session()
    session.user("Hello")
    with session.assistant(MODEL) as reply:
        reply.step()
        reply.part(Opaque("openai.compaction", '{"type":"compaction","encrypted_content":"c"}', "p/m"))
        reply.end_step("stop")
        reply.finish()
    session.user("And now")
    with ContextWindow(session, model=MODEL, limits=LIMITS) as window:
        step = window.next_step()
        assert isinstance(step, CallModel)
        version = session.version
        with pytest.raises(CallError, match="which this provider cannot read"):
            window.begin(step, form="anthropic")
        assert session.version == version
        reply, request = window.begin(step, form="openai-responses")
        assert "compaction" in [item["type"] for item in request.body["input"]]
        reply.finish()
    assert [step.body for step in audit(session)][1:] == ["match"]


def test_the_asyncio_twin_takes_the_form(store: Store) -> None:
    """`AsyncContextWindow.begin` gives the body and records it as the blocking one does."""
    session = store.create_session()
    session.user("Hello")

    async def turn() -> ModelRequest:
        async with AsyncContextWindow(ContextWindow(session, model=MODEL, limits=LIMITS)) as window:
            step = await window.next_step()
            assert isinstance(step, CallModel)
            reply, request = await window.begin(step, form=RequestForm("gemini", ids=False))
            reply.finish()
            return request

    body = asyncio.run(turn()).body
    (step,) = audit(session)
    assert body.keys() == {"contents"}
    assert (step.body, step.form) == ("match", '{"name":"gemini/1","ids":false}')


def test_a_body_that_differs_is_a_mismatch_although_the_view_matches(store: Store) -> None:
    """A form changed without a new version, or a forged digest, is found by the body."""
    session = store.create_session()
    session.user("Hello")
    work(session, "anthropic", 1)
    view = steps_of(session)[0]
    with session.assistant(MODEL) as reply:
        reply.step(
            view_version=view.view_version,
            view_digest=view.view_digest,
            render=view.render,
            form=view.form,
            body_digest=bytes(32),
        )
        reply.finish()
    first, second = audit(session)
    assert (first.verdict, first.body) == ("match", "match")
    assert (second.verdict, second.body) == ("mismatch", "mismatch")
    assert second.recorded == second.rebuilt
    assert second.reason == "the body rebuilt as anthropic/1 differs from the recorded one"


def no_messages(*_messages: object, **_options: object) -> dict[str, Any]:
    """A body of another form."""
    return {"messages": []}


def test_a_changed_form_says_that_it_has_another_version(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another version of a form the view alone is compared, and the audit says so."""
    session = store.create_session()
    session.user("Hello")
    work(session, RequestForm("openai-chat", server="mistral"), 2)
    changed = FORMS["openai-chat"]._replace(request=no_messages)
    monkeypatch.setitem(forms.FORMS, "openai-chat", changed)
    assert {step.verdict for step in audit(session)} == {"mismatch"}, "had it changed without a new version"
    monkeypatch.setitem(forms.FORMS, "openai-chat", changed._replace(number=2))
    steps = list(audit(session))
    assert {(step.verdict, step.body) for step in steps} == {("match", "other-version")}
    assert '{"name":"openai-chat/1","server":"mistral"}' in steps[0].reason
    assert "this program has openai-chat/2, openai-responses/1" in steps[0].reason
    session.user("And on")
    work(session, RequestForm("openai-chat", server="mistral"), 1)
    assert [step.body for step in audit(session)] == ["other-version", "other-version", "match"]


def test_one_changed_byte_is_seen_in_the_bodies_too() -> None:
    """After a changed byte every step whose body had it is a mismatch, view and body."""
    log = LastingLog()
    with Store(log) as store:
        session = store.create_session(id="a")
        session.user("Find the defect")
        work(session, "openai-responses", 3)
        versions = [step.view_version or 0 for step in audit(session)]
    commits: list[Commit] = list(log._sessions["a"])
    log._derived = {}
    tried = 0
    for version, forged in forgeries(commits):
        log._sessions["a"] = forged
        with Store(log) as store:
            found = [step.body for step in audit(store.session("a"))]
        assert found == ["mismatch" if sent >= version else "match" for sent in versions]
        tried += 1
    assert tried > 4


def test_a_redacted_step_compares_neither_view_nor_body(store: Store) -> None:
    """A view with a part that was redacted since is redacted, its body is not made again."""
    session = store.create_session()
    message = session.user("my secret")
    work(session, "anthropic", 1)
    (part,) = [
        span.item.part
        for span in session.reader.spans()
        if isinstance(span.item, ev.PartStarted) and span.item.message == message
    ]
    session.redact(part)
    (step,) = audit(session)
    assert (step.verdict, step.body) == ("redacted", "")


def test_the_record_of_a_form_is_json() -> None:
    """A form that is no JSON text is refused before anything is written."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        with session.assistant(MODEL) as reply, pytest.raises(CallError, match=r"StepStarted\.form is JSON text"):
            reply.step(form="anthropic/1", body_digest=bytes(32))
        assert not steps_of(session)
        own = msgspec.json.encode({"name": "mine/1"}).decode()
        session.user("Hello")
        work(session, None, 1)
        view = steps_of(session)[-1]
        with session.assistant(MODEL) as reply:
            reply.step(
                view_version=view.view_version,
                view_digest=view.view_digest,
                render=view.render,
                form=own,
                body_digest=b"x",
            )
            reply.finish()
        last = [*audit(session)][-1]
        assert (last.verdict, last.body, json.loads(last.form or "")) == ("match", "other-version", {"name": "mine/1"})


@pytest.mark.parametrize("policy", [ContextPolicy(), OPENCODE_POLICY], ids=["default", "opencode"])
@pytest.mark.parametrize("prefill", [None, True, False])
@pytest.mark.parametrize("ends", ["max-steps", "a text that promised calls"])
def test_a_request_of_a_loop_is_no_prefill(
    store: Store, ends: str, prefill: bool | None, policy: ContextPolicy
) -> None:
    """Newer models refuse one; OpenCode's preset keeps it, and an option of the form counts."""
    session = store.create_session()
    session.user("look")
    policy, request = msgspec.structs.replace(policy, loop=LoopPolicy(max_steps=2)), None
    with ContextWindow(session, policy, model=MODEL, limits=LIMITS) as window:
        for number in range(2):
            step = window.next_step()
            assert isinstance(step, CallModel)
            reply, request = window.begin(step, form=RequestForm("anthropic", prefill=prefill))
            if ends == "max-steps" and number == 0:
                reply.tool("read", call_id="c1").stream_input("{}")
                reply.end_step("tool-calls")
                step = window.next_step()
                assert isinstance(step, RunTools)
                window.run(step.calls[0], lambda _: "text")
                window.finish()
            else:
                reply.add_text("I look")
                reply.finish("tool-calls")
    assert request is not None
    assert request.messages[-1].role == "assistant"
    broken = anthropic.broken({"model": "claude-opus-4-6", "max_tokens": 9, **request.body})
    refused = prefill or (prefill is None and policy.preset == "opencode-1.18")
    assert broken == (["the model takes no prefill"] if refused else [])
    assert [(step.verdict, step.body) for step in audit(session)] == [("match", "match")] * 2
