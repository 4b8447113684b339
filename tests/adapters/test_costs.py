"""Costs of the calls that frameworks tell: as they were reported, or priced by the store."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("langgraph")
pytest.importorskip("pydantic_ai")

from claude_agent_sdk import SessionKey
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.usage import RequestUsage

import eventlog
from eventlog import Model, Price, Tokens
from eventlog.adapters.claude_agent import EverdeltaSessionStore
from eventlog.adapters.langgraph import EverdeltaSaver
from eventlog.adapters.pydantic_ai import EverdeltaConversationStore
from projections.reports.usage import session_usage

MILLION = Decimal(1_000_000)


def prices(model: Model | None, tokens: Tokens) -> Price:
    """A price of a dollar for a million tokens."""
    assert model is not None
    return Price((tokens.input + tokens.output) / MILLION, catalogue="mine")


def answer_of_langgraph(store: eventlog.Store, about: dict[str, Any]) -> eventlog.Session:
    """The session of a thread whose one answer took 1,050 tokens."""

    def model(state: MessagesState) -> dict[str, Any]:
        del state
        usage: Any = {"input_tokens": 1_000, "output_tokens": 50, "total_tokens": 1_050}
        return {"messages": [AIMessage("hi", usage_metadata=usage, response_metadata={"model_name": "one"} | about)]}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_edge(START, "model")
    saver = EverdeltaSaver(store)
    builder.compile(checkpointer=saver).invoke({"messages": [("user", "x")]}, {"configurable": {"thread_id": "t"}})
    return saver.session("t")


@pytest.mark.parametrize(
    ("about", "cost", "catalogues"),
    [({}, "0.00105", ("mine",)), ({"token_usage": {"cost": 0.25}}, "0.25", ())],
)
def test_a_call_that_a_framework_tells_is_priced(about: dict[str, Any], cost: str, catalogues: tuple[str, ...]) -> None:
    """LangGraph's answers have the store's price, unless the provider told one."""
    with eventlog.open("memory:", prices=prices) as store:
        session = answer_of_langgraph(store, about)
        assert (session.info.cost, session.info.unpriced) == (Decimal(cost), 0)
        assert session_usage(session).own[0].catalogues == catalogues


@pytest.mark.parametrize("step", [1, 3])
def test_an_answer_that_claude_tells_in_pieces_is_priced_once(step: int) -> None:
    """Records that repeat and correct an answer's usage cost what the last says."""
    key = SessionKey(project_key="-w", session_id="s")
    entries: list[Any] = [
        {
            "type": "assistant",
            "uuid": f"u{place}",
            "parentUuid": f"u{place - 1}" if place else None,
            "message": {
                "id": "m",
                "role": "assistant",
                "model": "one",
                "content": [{"type": "text", "text": f"piece {place}"}],
                "usage": {"input_tokens": 100, "output_tokens": output},
            },
        }
        for place, output in enumerate((1, 1, 40))
    ]
    with eventlog.open("memory:", prices=prices) as store:
        sessions = EverdeltaSessionStore(store)
        for start in range(0, 3, step):
            asyncio.run(sessions.append(key, entries[start : start + step]))
        info = sessions.session(key).info
        assert (info.calls, info.tokens, info.cost) == (1, 140, Decimal("0.00014"))


def test_a_cost_that_pydantic_ai_reports_stays() -> None:
    """A response's cost is the call's; tokens of the cache are not counted twice."""
    usage = RequestUsage(
        input_tokens=130,
        cache_read_tokens=100,
        cache_write_tokens=20,
        output_tokens=5,
        output_reasoning_tokens=3,
        cost=Decimal("0.000385"),
    )
    said = [ModelResponse([TextPart("hi")], usage=usage, model_name="one", provider_name="acme")]
    with eventlog.open("memory:", prices=prices) as store:
        conversations = EverdeltaConversationStore(store)
        asyncio.run(conversations.save(Conversation(conversation_id="c", messages=[*said])))
        (sums,) = session_usage(conversations.session("c")).own
        assert (sums.cost, sums.unpriced, sums.total) == (Decimal("0.000385"), 0, 135)
        assert (sums.input, sums.cache_read, sums.cache_write, sums.output, sums.reasoning) == (10, 100, 20, 5, 3)
