"""Waits for a person in other frameworks: kept by the store, answered in their own way."""

from __future__ import annotations

import asyncio
from textwrap import dedent
from typing import Any

import pytest

pytest.importorskip("langgraph")
pytest.importorskip("agents")

from agents import Agent, Model, ModelResponse, RunConfig, Runner, RunState, Usage, function_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from openai.types.responses.response_usage import InputTokensDetails

from eventlog.adapters.langgraph import EverdeltaSaver
from eventlog.adapters.openai_agents import EverdeltaSession
from projections.reports.usage import session_usage, total
from tests.support.engines import ENGINES, Engine, places
from tests.support.pages import PAGES

engine = places(*ENGINES)

USED = Usage(
    requests=1,
    input_tokens=100,
    input_tokens_details=InputTokensDetails(cached_tokens=40, cache_write_tokens=0),
    output_tokens=5,
    total_tokens=105,
)
REQUEST = {"action_requests": [{"name": "drop", "args": {"table": "old"}, "description": "no undo"}]}


def graph(saver: EverdeltaSaver, value: Any) -> Any:
    """A graph with one node, which waits for a person."""

    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [("ai", f"{len(state['messages'])}: {interrupt(value)}")]}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize(
    ("value", "listed"),
    [(REQUEST, ("drop", '{"table": "old"}', "no undo")), ("really?", ("interrupt", '"really?"', ""))],
)
def test_open_interrupts_are_listed_as_asked(engine: Engine, value: Any, listed: tuple[str, str, str]) -> None:
    """An interrupt of LangGraph is listed in any process until `Command(resume=…)` answers."""
    config: Any = {"configurable": {"thread_id": "1"}}
    with engine.open() as store:
        saver = EverdeltaSaver(store)
        assert saver.asked_calls("1") == []
        graph(saver, value).invoke({"messages": [("user", "hi")]}, config)
    with engine.open() as store:
        saver = EverdeltaSaver(store)
        (asked,) = saver.asked_calls("1")
        assert (asked.tool, asked.arguments, asked.reason) == listed
        assert asyncio.run(saver.aasked_calls("1")) == [asked]
        graph(saver, value).invoke(Command(resume={asked.call: "yes"}), config)
        assert saver.asked_calls("1") == []


class Scripted(Model):
    """A model that calls the tool once, and then answers."""

    async def get_response(self, *given: Any, **named: Any) -> ModelResponse:
        """Return a call, or the answer once there is a result."""
        items: list[Any] = given[1] if len(given) > 1 else named["input"]
        if any("function_call_output" in str(item) for item in items):
            text = ResponseOutputText(annotations=[], text="dropped", type="output_text")
            output: Any = ResponseOutputMessage(
                id="m", content=[text], role="assistant", status="completed", type="message"
            )
        else:
            output = ResponseFunctionToolCall(
                arguments='{"name":"old"}', call_id="c1", name="drop_table", type="function_call"
            )
        return ModelResponse(output=[output], usage=USED, response_id=None)

    def stream_response(self, *given: Any, **named: Any) -> Any:
        """Not used here."""
        raise NotImplementedError


def test_a_run_state_is_a_value_of_the_session(engine: Engine) -> None:
    """A run that waits is a value, goes on in another process once, and its cost is told."""
    dropped: list[str] = []

    @function_tool(needs_approval=True)
    def drop_table(name: str) -> str:
        """Drop a table."""
        dropped.append(name)
        return f"{name} dropped"

    agent = Agent(name="a", model=Scripted(), tools=[drop_table])
    quiet = RunConfig(tracing_disabled=True)

    async def ask() -> None:
        with engine.open() as store:
            session = EverdeltaSession(store, "s")
            result = await Runner.run(agent, "drop it", session=session, run_config=quiet)
            assert result.interruptions
            session.session.values.put("run state", result.to_state().to_string())

    async def go_on() -> str:
        with engine.open() as store:
            session = EverdeltaSession(store, "s")
            kept = session.session.values.get("run state")
            assert kept is not None
            assert isinstance(kept.value, str)
            state = await RunState.from_string(agent, kept.value)
            for item in state.get_interruptions():
                state.approve(item)
            session.session.values.drop("run state")
            result = await Runner.run(agent, state, session=session, run_config=quiet)
            spent(session.session, result, "openai/gpt-5")
            sums = total(session_usage(session.session).own)
            assert (sums.calls, sums.input, sums.cache_read, sums.output) == (2, 120, 80, 10)
            assert sums.cost > 0
            return str(result.final_output)

    names: dict[str, Any] = {}
    code = next(code for code in PAGES["eventlog/adapters/OPENAI_AGENTS.md"].split("```python") if "def spent" in code)
    exec(compile(dedent(code.partition("  ```")[0]), "OPENAI_AGENTS.md", "exec"), names)  # noqa: S102
    spent = names["spent"]
    asyncio.run(ask())
    assert dropped == []
    assert asyncio.run(go_on()) == "dropped"
    assert dropped == ["old"]
