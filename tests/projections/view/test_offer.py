"""Offers: a question's request has its tools and its output format."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest

import eventlog
from eventlog.errors import CallError
from eventlog.session.session import Session
from projections.loop import CallModel, ContextWindow, RunTools, task_tool
from projections.reports.audit import audit
from projections.requests.output_format import chat_format, responses_format
from projections.view.model_view import LiveView, ModelView, common_prefix


def chat_tool(name: str) -> dict[str, Any]:
    """A tool's schema in the form of Chat Completions."""
    return {"type": "function", "function": {"name": name, "parameters": {}}}


BASH, READ = chat_tool("bash"), chat_tool("read")
FORMS: dict[str, list[dict[str, Any]]] = {
    "chat": [BASH, READ],
    "responses": [{"type": "function", "name": "bash"}, {"type": "function", "name": "read"}],
    "anthropic": [{"name": "bash", "input_schema": {}}, {"name": "read", "input_schema": {}}],
    "gemini": [{"functionDeclarations": [{"name": "bash"}, {"name": "read"}]}],
    "server": [{"type": "web_search"}, {"type": "bash"}],
}
FORMAT = '{"type":"json_schema","schema":{"type":"object"}}'


def kept(ran: list[object], given: object) -> str:
    """The work of a tool."""
    ran.append(given)
    return "done"


def offered(session: Session) -> str | None:
    """The tools of the view; equal however the view is read."""
    tools = ModelView.of(session).tools
    assert tools == ModelView.of(session, at=session.version).tools == LiveView(session).view.tools
    return tools


def answered(session: Session, **request: Any) -> None:
    """Ask a question of the session and answer it through a window; its step is audited."""
    session.user("go on", **request)
    with ContextWindow(session, model="openai/gpt-5") as window:
        step = window.next_step()
        assert isinstance(step, CallModel)
        reply, sent = window.begin(step)
        assert (sent.tools, sent.format) == (ModelView.of(session).tools, request.get("format"))
        reply.add_text("yes")
        reply.finish()


@pytest.mark.parametrize("form", FORMS)
def test_a_tool_that_the_question_switches_off_is_not_offered(store: eventlog.Store, form: str) -> None:
    """A switched-off tool is left out in each provider's form; others stay."""
    tools = FORMS[form]
    session = store.create_session()
    session.set_tools(json.dumps(tools))
    for switches in (None, "{}", '{"bash":true,"other":false}', '["bash"]', "false", '{"bash":null}'):
        session.user("all of them", tools=switches)
        assert offered(session) == json.dumps(tools)
    session.user("run nothing", tools='{"bash": false}')
    others = {"gemini": [{"functionDeclarations": [{"name": "read"}]}], "server": tools[:1]}
    assert json.loads(offered(session) or "") == others.get(form, tools[1:])
    session.user("say it", tools='{"bash": false, "read": false, "web_search": false}')
    assert offered(session) is None
    session.user("go on")
    assert offered(session) == json.dumps(tools)


def test_the_newest_word_of_the_user_decides(store: eventlog.Store) -> None:
    """A program's message, a queued one and a late tool list change nothing; a removal does."""
    session = store.create_session()
    session.user("look, but run nothing", tools='{"bash": false}', format=FORMAT)
    session.set_tools(json.dumps([BASH, READ]))
    session.user("a note of the program", synthetic=True)
    queued = session.user("then run it", delivery="queue", tools='{"read": false}')
    assert offered(session) == '[{"type":"function","function":{"name":"read","parameters":{}}}]'
    assert ModelView.of(session).format == FORMAT
    session.context.promote(queued)
    assert json.loads(offered(session) or "") == [BASH]
    assert ModelView.of(session).format is None
    session.remove_message(queued)
    assert json.loads(offered(session) or "") == [READ]


def test_every_request_of_the_question_has_its_offer_and_can_be_audited(store: eventlog.Store) -> None:
    """The offer is in each request, in its digest, and is rebuilt from the events."""
    session = store.create_session()
    session.set_tools(json.dumps([BASH, READ]))
    answered(session)
    before = ModelView.of(session)
    answered(session, tools='{"bash": false}')
    answered(session, format=FORMAT)
    answered(session, tools='{"bash": false}', format=FORMAT)
    answered(session)
    assert [step.verdict for step in audit(session)] == ["match"] * 5
    found = [step.rebuilt for step in audit(session)]
    assert len({*found}) == 5
    assert common_prefix(before, ModelView.of(session)).system
    session.user("another", format=FORMAT)
    after = ModelView.of(session)
    assert not common_prefix(before, after).system
    assert after.tokens > ModelView.of(session, at=session.version - 2).tokens


@pytest.mark.parametrize("tool", ["bash", "task"])
def test_a_call_of_a_tool_that_is_switched_off_is_not_run(store: eventlog.Store, tool: str) -> None:
    """A model that calls it all the same is told so, and nothing runs."""
    ran: list[object] = []
    session = store.create_session()
    with session.turn("run nothing", "1", tools=json.dumps({tool: False})) as turn:
        assert turn.mine
        with ContextWindow(session, model="openai/gpt-5", tools=[BASH, task_tool()]) as window:
            step = window.next_step()
            assert isinstance(step, CallModel)
            reply, request = window.begin(step)
            assert tool not in str(request.tools)
            reply.tool(tool, call_id="c", input={"description": "d", "prompt": "p"})
            reply.end_step("tool-calls")
            step = window.next_step()
            assert isinstance(step, RunTools)
            if tool == "task":
                window.run_task(step.calls[0], lambda child: kept(ran, child))
            else:
                window.run(step.calls[0], lambda given: kept(ran, given))
            window.finish()
            assert not ran
            assert f"the tool {tool} is switched off for this question" in repr([*ModelView.of(session).messages])


@pytest.mark.parametrize("tool", ["bash", "task"])
@pytest.mark.parametrize(("first", "later", "runs"), [(None, False, True), (False, True, False), (False, None, False)])
@pytest.mark.parametrize("delivery", ["steer", "queue"])
def test_a_call_asks_the_question_that_its_reply_has_seen(
    tool: str, first: bool | None, later: bool | None, runs: bool, delivery: Literal["steer", "queue"]
) -> None:
    """A question that comes between a call and its start switches its tool neither off nor on."""
    ran: list[object] = []
    switches = [None if value is None else json.dumps({tool: value}) for value in (first, later)]
    with eventlog.open("memory:") as store:
        session = store.create_session()
        session.user("look", tools=switches[0])
        with ContextWindow(session, model="openai/gpt-5", tools=[BASH, task_tool()]) as window:
            step = window.next_step()
            assert isinstance(step, CallModel)
            reply, _ = window.begin(step)
            reply.tool(tool, call_id="c", input={"description": "d", "prompt": "p"})
            reply.end_step("tool-calls")
            session.user("by the way", tools=switches[1], delivery=delivery)
            step = window.next_step()
            assert isinstance(step, RunTools)
            if tool == "task":
                window.run_task(step.calls[0], lambda child: kept(ran, child))
            else:
                window.run(step.calls[0], lambda given: kept(ran, given))
            window.finish()
    assert bool(ran) is runs


def test_a_format_has_the_forms_of_openai() -> None:
    """A schema gets a name where there is none; OpenAI's own forms stay; else it is refused."""
    assert chat_format(None) is responses_format(None) is None
    schema = {"type": "object"}
    assert chat_format(FORMAT) == {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    assert responses_format(FORMAT) == {"type": "json_schema", "name": "answer", "schema": schema}
    named = json.dumps({"type": "json_schema", "schema": schema, "name": "n", "strict": True})
    assert chat_format(named) == {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}}
    assert responses_format(named) == json.loads(named)
    for own in ({"type": "text"}, {"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "x"}}):
        assert chat_format(json.dumps(own)) == own == responses_format(json.dumps(own))
    for wrong in ("[]", "1", "{}", "{"):
        with pytest.raises(CallError, match="an output format is a JSON object"):
            chat_format(wrong)
