"""Moving in: threads of LangGraph are copied; ids and settings of other stores are taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from agents import SQLiteSession
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import TTLConfig
from langgraph.types import Command, interrupt
from pydantic_ai import DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import InMemoryConversationStore
from pydantic_ai.messages import ModelRequest, ToolCallPart, UserPromptPart
from pydantic_ai.usage import RunUsage

import eventlog
from eventlog import ArgumentTypeError, ArgumentValueError, NotFoundError
from eventlog.adapters.langgraph import EverdeltaSaver, EverdeltaStore
from eventlog.adapters.openai_agents import EverdeltaSession
from eventlog.adapters.pydantic_ai import EverdeltaConversationStore
from eventlog.store import Store
from projections import ModelView
from tests.support.pages import example

CONFIG: Any = {"configurable": {"thread_id": "t"}}
IDS = ["", "x" * 2000, "a\0b", "a/b%2F"]


def graph_of(saver: Any) -> Any:
    """Return a graph with a subgraph that asks."""

    def greet(state: Any) -> Any:
        del state
        return {"messages": [AIMessage("hi")]}

    def ask(state: Any) -> Any:
        del state
        return {"messages": [AIMessage(f"got {interrupt('more?')}")]}

    inner: Any = StateGraph(MessagesState)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    outer: Any = StateGraph(MessagesState)
    outer.add_sequence([("model", greet), ("inner", inner.compile())])
    outer.add_edge(START, "model")
    return outer.compile(checkpointer=saver)


def filled(saver: Any) -> Any:
    """Return a saver after two turns, of which the second waits for an answer."""
    graph = graph_of(saver)
    for number in range(2):
        graph.invoke({"messages": [HumanMessage(f"q{number}")]}, CONFIG)
        if not number:
            graph.invoke(Command(resume="one"), CONFIG)
    return saver


def history(saver: Any) -> list[Any]:
    """Return the states of the thread."""
    return [
        ([one.content for one in state.values.get("messages", [])], state.next, state.config, state.parent_config)
        for state in graph_of(saver).get_state_history(CONFIG)
    ]


def test_copied_threads_have_their_history(store: Store) -> None:
    """A copy has every checkpoint, goes on where the thread waits, and may be repeated."""
    source, saver = filled(InMemorySaver()), EverdeltaSaver(store)
    for _ in range(2):
        assert saver.copy_from(source) == ("t",)
        assert history(saver) == history(source)
    graph_of(saver).invoke(Command(resume="two"), CONFIG)
    texts = [part.text for one in ModelView.of(saver.session("t")).messages for part in one.parts]  # type: ignore[union-attr]
    assert texts == ["q0", "hi", "got one", "q1", "hi", "got two"]


async def test_threads_are_copied_under_asyncio(store: Store) -> None:
    """A source that is for asyncio alone is copied; other threads than those named are not."""
    source, saver = await asyncio.to_thread(filled, InMemorySaver()), EverdeltaSaver(store)
    assert await saver.acopy_from(source, ["t", "t"]) == ("t",)
    assert await asyncio.to_thread(history, saver) == await asyncio.to_thread(history, source)


def _newest(found: list[Any]) -> list[Any]:
    return found[:1]


def _backwards(found: list[Any]) -> list[Any]:
    return found[::-1]


@pytest.mark.parametrize("order", [_newest, _backwards])
def test_copies_take_checkpoints_in_any_order(store: Store, order: Callable[[list[Any]], list[Any]]) -> None:
    """A source may list in another order, and may have lost the parents of what it has."""
    source = InMemorySaver()
    root: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    for one in order([*filled(InMemorySaver()).list(root)]):
        config = one.parent_config or root
        source.put(config, one.checkpoint, one.metadata, one.checkpoint["channel_versions"])
        for task, writes in groupby(one.pending_writes or (), key=lambda write: write[0]):
            source.put_writes(one.config, [write[1:] for write in writes], task)
    saver = EverdeltaSaver(store)
    saver.copy_from(source)
    assert history(saver) == history(source)


def test_a_loop_in_the_wrong_order_is_refused_and_told_of_the_copy(store: Store) -> None:
    """A checkpoint put before its parent is refused, with what to do; the copy goes on."""
    source, saver = filled(InMemorySaver()), EverdeltaSaver(store)
    newest = next(source.list(CONFIG))
    with pytest.raises(NotFoundError) as refused:
        saver.put(newest.parent_config, newest.checkpoint, newest.metadata, newest.checkpoint["channel_versions"])
    assert any("copy_from" in note for note in refused.value.__notes__)
    saver.copy_from(source)
    assert history(saver) == history(source)


def test_a_copy_of_one_thread_is_given_a_list(store: Store) -> None:
    """One id instead of a list of ids is refused before anything is copied."""
    saver = EverdeltaSaver(store)
    with pytest.raises(ArgumentTypeError):
        saver.copy_from(filled(InMemorySaver()), "t")
    assert list(store.sessions()) == []


@pytest.mark.parametrize("id", IDS)
async def test_ids_that_other_stores_take_are_taken(store: Store, id: str) -> None:
    """Empty and long ids name a session, a thread and a conversation, each its own."""
    item: Any = {"role": "user", "content": "hi"}
    for other in (id, f"{id}2"):
        for session in (SQLiteSession(other), EverdeltaSession(store, other)):
            await session.add_items([item])
            assert await session.get_items() == [item]
    saver = EverdeltaSaver(store)
    config: Any = {"configurable": {"thread_id": id}}
    await asyncio.to_thread(graph_of(saver).invoke, {"messages": [HumanMessage("hi")]}, config)
    assert saver.session(id) is not None
    listed = next(saver.list(None)).config
    assert saver.get_tuple(listed) is not None
    conversations = EverdeltaConversationStore(store)
    await conversations.save(Conversation(conversation_id=id, messages=[ModelRequest([UserPromptPart("hi")])]))
    assert [one.conversation_id for one in await conversations.list_conversations()] == [id]


async def test_the_newest_conversations_are_listed_first(store: Store) -> None:
    """A limit lists the conversations that were saved last, however many there are."""
    conversations = EverdeltaConversationStore(store)
    for number in range(5):
        message = ModelRequest([UserPromptPart("hi")])
        await conversations.save(Conversation(conversation_id=f"c{number}", messages=[message]), scope=f"s{number % 2}")
        await asyncio.sleep(0.002)  # times of records differ
    assert [one.conversation_id for one in await conversations.list_conversations(limit=2)] == ["c4", "c3"]
    scoped = await conversations.list_conversations(scope="s0", limit=2)
    assert [one.conversation_id for one in scoped] == ["c4", "c2"]


@pytest.mark.parametrize("times", [1, 2])
def test_a_conversation_moves_with_what_it_waits_for(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's program takes usage, deferred calls and scope of a conversation, once."""
    monkeypatch.chdir(tmp_path)
    given = Conversation(
        conversation_id="user-17",
        messages=[ModelRequest([UserPromptPart("Hi")])],
        usage=RunUsage(requests=3, cost=Decimal("0.5")),
        deferred_tool_requests=DeferredToolRequests(approvals=[ToolCallPart("pay", {"amount": 5}, "c1")]),
    )
    old, making = InMemoryConversationStore(), "old = InMemoryConversationStore()"
    asyncio.run(old.save(given, scope="alice"))
    head, _, tail = example(making).code.partition(making)
    program = head + tail[tail.index("with eventlog") :]
    for _ in range(times):
        exec(compile(program, "MOVING.md", "exec"), {"old": old})  # noqa: S102
    with eventlog.open("chats") as store:
        conversations = EverdeltaConversationStore(store)
        moved = asyncio.run(conversations.load("user-17", scope="alice"))
        assert moved is not None
        assert moved.usage == given.usage
        assert moved.deferred_tool_requests == given.deferred_tool_requests
        assert conversations.session("user-17").info.scope == "alice"


def test_what_items_cannot_do_is_refused(store: Store) -> None:
    """An index, a query and a misspelt setting are refused, and nothing is put."""
    items, misspelt = EverdeltaStore(store), {"default_tll": 5}
    index: Any = {"dims": 2, "embed": len}
    ttl: Any = misspelt
    with pytest.raises(ArgumentValueError, match="search by meaning"):
        EverdeltaStore(store, index=index)
    with pytest.raises(ArgumentTypeError, match="default_ttl"):
        EverdeltaStore(store, ttl=ttl)
    with pytest.raises(ArgumentValueError, match="search by meaning"):
        items.put(("a",), "k", {"n": 1}, index=["n"])
    with pytest.raises(ArgumentValueError, match="search by meaning"):
        items.search(("a",), query="what I like")
    assert items.search(()) == []
    items.put(("a",), "k", {"n": 1}, index=False)
    assert [one.key for one in items.search(("a",), filter={"n": 1})] == ["k"]
    assert EverdeltaStore(store, ttl=TTLConfig(default_ttl=5)).get(("a",), "k") is not None


def test_misspelt_settings_of_sessions_are_refused(store: Store) -> None:
    """A setting that the SDK does not have is an error of both."""
    settings: Any = {"limitt": 1}
    with pytest.raises(TypeError):
        SQLiteSession("s", session_settings=settings)
    with pytest.raises(ArgumentTypeError, match="limit"):
        EverdeltaSession(store, "s", session_settings=settings)
