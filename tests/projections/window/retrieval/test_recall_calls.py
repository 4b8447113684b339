"""The tool `recall` for models: offered, named in previews, called and answered."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import eventlog
from eventlog.errors import CallError
from eventlog.values import Limits
from projections.loop import AsyncContextWindow, CallModel, ContextWindow, ModelRequest, RunTools, Stop
from projections.reports.audit import audit
from projections.view.model_view import ModelView
from projections.window import ContextPolicy, TruncationPolicy, policy_named, recall_tool
from projections.window.retrieval.recall_calls import answer_recall, offers_recall, with_recall
from projections.window.retrieval.tool_schemas import ToolForm
from projections.window.retrieval.truncation import Bounds
from tests.support.window_loop import MODEL, Loop, Reply, results

LOG = "".join(f"line {number} of the log\n" for number in range(1, 10_001))
HINT = re.compile(r"Read them with: recall (\S+) lines (\d+)-(\d+)")
FORMS: tuple[ToolForm, ...] = ("chat", "responses", "anthropic", "gemini")


def curious(request: ModelRequest) -> Reply:
    """A model that reads a log, recalls an omitted range, and reports it."""
    shown = [result.output for result in results(request.messages)]
    if not shown:
        return Reply(calls=[("read_log", "{}")], tokens=100)
    found = HINT.search(shown[0])
    if len(shown) > 1 or found is None:
        return Reply("That is all.", tokens=100)
    return Reply(calls=[("recall", json.dumps({"part": found[1], "lines": "5000-5002"}))], tokens=100)


def loop(session: eventlog.Session, policy: ContextPolicy | str | None = None, **options: Any) -> Loop:
    """A loop with the log-reading tool only."""
    return Loop(session, curious, {"read_log": lambda _: LOG}, policy, options=options)


def test_a_model_recalls_what_was_truncated(store: eventlog.Store) -> None:
    """With `recall=True` the tool is offered and named, and the window answers its calls."""
    session = store.create_session()
    session.set_tools(json.dumps([{"type": "function", "function": {"name": "read_log", "parameters": {}}}]))
    session.user("What is in the log?")
    ran = loop(session, recall=True)
    assert ran.run() == Stop("finished")
    assert len(ran.requests) == 3
    offered = json.loads(ran.requests[0].tools or "")
    assert [tool["function"]["name"] for tool in offered] == ["read_log", "recall"]
    preview, recalled = [result.output for result in results(ModelView.of(session).messages)]
    assert "line 5000 of" not in preview
    assert recalled.splitlines()[1:] == [f"line {number} of the log" for number in (5_000, 5_001, 5_002)]
    assert results(ran.requests[2].messages)[1].output == recalled
    assert {step.verdict for step in audit(session)} == {"match"}
    version = session.version
    loop(session, recall=True).run()
    assert session.version == version  # nothing is offered twice


def test_another_process_goes_on_with_what_is_offered(store: eventlog.Store) -> None:
    """The offer is recorded with the session: a later window answers without `recall=True`."""
    session = store.create_session()
    session.user("What is in the log?")
    with ContextWindow(session, model=MODEL, limits=Limits(), recall=True, environment={}):
        pass
    loop(session).run()
    assert "line 5001 of the log" in results(ModelView.of(session).messages)[1].output


@pytest.mark.parametrize("policy", ["default", "opencode-1.18"])
def test_without_the_tool_nothing_names_it(store: eventlog.Store, policy: str) -> None:
    """A preview says what is left out, and names no tool that the model does not have."""
    session = store.create_session()
    session.user("What is in the log?")
    ran = loop(session, policy_named(policy))
    assert ran.run() == Stop("finished")
    (preview,) = [result.output for result in results(ModelView.of(session).messages)]
    assert "left out here" in preview
    assert "recall" not in preview
    assert [request.tools for request in ran.requests] == [None, None]


def test_what_was_truncated_before_stays_as_it_was(store: eventlog.Store) -> None:
    """Preview words are recorded with the result: a later offer changes no past view."""
    session = store.create_session()
    session.user("What is in the log?")
    loop(session).run()
    version, digest = session.version, ModelView.of(session).digest
    session.user("And now?")
    loop(session, recall=True).run()
    assert ModelView.of(session, version).digest == digest
    assert {step.verdict for step in audit(session)} == {"match"}


@pytest.mark.parametrize("form", FORMS)
def test_the_schema_has_the_form_of_the_others(form: ToolForm) -> None:
    """The schema is added behind the session's tools, in their form, and found again."""
    other = json.loads(json.dumps(recall_tool(form)).replace("recall", "other"))
    tools = with_recall(json.dumps([other]))
    assert json.loads(tools) == [other, recall_tool(form)]
    assert offers_recall(tools)
    assert not offers_recall(json.dumps([other]))
    assert not offers_recall(None)
    assert json.loads(with_recall(None)) == [recall_tool()]


@pytest.mark.parametrize("group", ["functionDeclarations", "function_declarations"])
def test_a_declaration_joins_those_of_gemini(group: str) -> None:
    """Gemini takes one list of functions, beside tools of Google's own: the schema joins it."""
    other: dict[str, Any] = {"name": "read", "parameters": {}}
    search: dict[str, Any] = {"googleSearch": {}}
    declared = [search, {group: [other]}]
    assert json.loads(with_recall(json.dumps(declared))) == [search, {group: [other, recall_tool("gemini")]}]
    assert json.loads(with_recall(json.dumps([search]))) == [search, {"functionDeclarations": [recall_tool("gemini")]}]
    assert offers_recall(with_recall(json.dumps(declared)))
    with pytest.raises(CallError, match="another tool named 'recall'"):
        with_recall(json.dumps([{group: [{**other, "name": "recall"}]}]))


def test_another_tool_of_that_name_is_refused(store: eventlog.Store) -> None:
    """A session with a `recall` tool of its own is refused before anything is recorded."""
    session = store.create_session()
    session.set_tools('[{"name": "recall", "input_schema": {"properties": {"memory": {}}}}]')
    version = session.version
    with pytest.raises(CallError, match="another tool named 'recall'"), loop(session, recall=True).window():
        pass
    assert session.version == version
    session.user("What is in the log?")
    assert loop(session).run() == Stop("finished")  # and without recall=True nothing is made of it
    assert "recall" not in results(ModelView.of(session).messages)[0].output


texts = st.lists(st.sampled_from(["", "ab", "中é𝄞", "x" * 700, "y" * 90]), max_size=30).map("\n".join)


def said(session: eventlog.Session, output: str) -> str:
    """A call with this output; return its part."""
    session.user("Look")
    with session.assistant("p/m") as reply:
        call = reply.tool("bash", call_id="c1", input={})
        call.succeed(output)
        reply.finish("tool-calls")
    return call.id


@given(texts.filter(bool), st.booleans())
@example("x" * 5_000 + "\nend", True)
def test_going_on_reads_all_of_it(text: str, by_lines: bool) -> None:
    """Each answer is within the bounds and names the range to go on with, until the end."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        part = said(session, text)
        asked: dict[str, str] = {"part": part} | ({} if by_lines else {"bytes": "0-100000"})
        whole = ""
        for _ in range(200):
            found = answer_recall(session, asked, Bounds(6, 1_024))
            assert len(found.encode()) <= 1_024
            _, _, rest = found.partition("\n")
            more = re.search(r"\n?\[go on with (lines|bytes) (\d+-\d+)\]$", rest)
            if more is None:
                whole += rest
                break
            whole += rest[: more.start() + (more[1] == "lines")]
            asked = {"part": part, more[1]: more[2]}
        assert whole == text


def test_a_search_shows_the_lines(store: eventlog.Store) -> None:
    """A search answers with matching lines and their numbers, and says if there are more."""
    session = store.create_session()
    part = said(session, LOG)
    found = answer_recall(session, {"part": part, "search": "99 of"}, Bounds(10, 2_000))
    assert found.splitlines()[:2] == ["[8 matching lines of 10000, and more]", "99: line 99 of the log"]
    assert answer_recall(session, {"part": part, "search": "nowhere"}, Bounds(10, 2_000)).startswith("[0 matching")


@pytest.mark.parametrize(
    "given_wrongly",
    [{}, {"part": 3}, {"part": "prt_unknown"}, {"lines": "a"}, {"lines": "0-2"}, {"lines": "1", "search": "x"}],
)
def test_what_cannot_be_answered_is_the_call_s_failure(given_wrongly: dict[str, Any]) -> None:
    """An unknown part, an empty range, or two kinds at once fail the call; the loop goes on."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        part = said(session, LOG)
        asked = given_wrongly if not given_wrongly or "part" in given_wrongly else {"part": part, **given_wrongly}

        def model(request: ModelRequest) -> Reply:
            found = results(request.messages)
            return Reply("so be it") if len(found) > 1 else Reply(calls=[("recall", json.dumps(asked))])

        session.user("go")
        assert Loop(session, model, options={"recall": True}).run() == Stop("finished")
        failed = results(ModelView.of(session).messages)[-1]
        assert failed.error
        assert re.match(r"(CallError|NotFoundError): .", failed.output)


def test_asyncio_answers_too(store: eventlog.Store) -> None:
    """`AsyncContextWindow` answers `recall` without the program's tool."""

    async def never(_: dict[str, Any]) -> str:
        raise AssertionError

    async def talk(session: eventlog.Session, part: str) -> None:
        async with AsyncContextWindow(
            ContextWindow(session, model=MODEL, limits=Limits(), recall=True, environment={})
        ) as window:
            step = await window.next_step()
            assert isinstance(step, CallModel)
            reply, _ = await window.begin(step)
            await asyncio.to_thread(lambda: reply.tool("recall", call_id="c").stream_input(json.dumps({"part": part})))
            await asyncio.to_thread(reply.end_step, "tool-calls")
            step = await window.next_step()
            assert isinstance(step, RunTools)
            await window.run(step.calls[0], never)
            await window.finish()

    session = store.create_session()
    part = said(session, LOG)
    session.user("go")
    asyncio.run(talk(session, part))
    assert "line 1 of the log" in results(ModelView.of(session).messages)[-1].output


def test_a_recalled_range_is_not_truncated_again(store: eventlog.Store) -> None:
    """A recall answer is within the bounds of truncation, so it is never truncated again."""
    policy = ContextPolicy(truncation=TruncationPolicy(max_lines=50, max_bytes=2_000))

    def model(request: ModelRequest) -> Reply:
        shown = results(request.messages)
        if not shown:
            return Reply(calls=[("read_log", "{}")])
        found = HINT.search(shown[0].output)
        assert found is not None
        asked = {"part": found[1], "lines": f"{found[2]}-{found[3]}"}
        return Reply("done") if len(shown) > 1 else Reply(calls=[("recall", json.dumps(asked))])

    session = store.create_session()
    session.user("go")
    Loop(session, model, {"read_log": lambda _: LOG}, policy, options={"recall": True}).run()
    recalled = results(ModelView.of(session).messages)[1].output
    assert "left out here" not in recalled
    assert re.search(r"\[go on with lines \d+-\d+\]$", recalled)
