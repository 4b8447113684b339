"""Cost of the adapters' operations in conversations of two sizes, a factor of eight apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, UserPromptPart

import eventlog
from eventlog import Store
from eventlog.adapters.claude_agent import EverdeltaSessionStore
from eventlog.adapters.langgraph import EverdeltaSaver
from eventlog.adapters.openai_agents import EverdeltaSession
from eventlog.adapters.pydantic_ai import EverdeltaConversationStore
from tests.adapters.claude_entries import KEY, said
from tests.growth.judging import take_as_long

SIZES = (400, 3_200)
TOGETHER = 100
THREADS = (100, 800)
"""Threads of LangGraph, and messages of one of them."""
FRESH = count(10**6)
"""Numbers of entries that are told while it is measured."""


def item(number: int) -> dict[str, Any]:
    """Return an item of the OpenAI Agents SDK."""
    return {"role": "user", "content": f"what the user said, number {number}"}


def entry(number: int) -> dict[str, Any]:
    """Return an entry of Claude Code, behind the one before."""
    return said(number, "user", f"what the user said, number {number}", said(number - 1, "user", "")["uuid"])


def request(number: int) -> Any:
    """Return a message of pydantic-ai."""
    return ModelRequest([UserPromptPart(f"what the user said, number {number}")])


async def fill(store: Store, size: int) -> None:
    """Tell a conversation of each framework."""
    session, transcripts = EverdeltaSession(store, "chat"), EverdeltaSessionStore(store)
    conversations, conversation = EverdeltaConversationStore(store), Conversation(conversation_id="chat")
    for start in range(0, size, TOGETHER):
        numbers = range(start, start + TOGETHER)
        await session.add_items([item(number) for number in numbers])
        await transcripts.append(KEY, [entry(number) for number in numbers])
        conversation.messages += [request(number) for number in numbers]
        await conversations.save(conversation)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Generator[list[Store]]:
    """Give stores with conversations of both sizes."""
    stores: list[Store] = []
    for size in SIZES:
        path: Path = tmp_path_factory.mktemp("growth") / str(size)
        with eventlog.open(path) as store:
            asyncio.run(fill(store, size))
            asyncio.run(EverdeltaSessionStore(store).append(KEY, [entry(size)]))  # makes rows of the index
        stores.append(eventlog.open(path))
    yield stores
    for store in stores:
        store.close()


class Open:
    """Adapters of a store that have been used."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.session = EverdeltaSession(store, "chat")
        self.transcripts = EverdeltaSessionStore(store)
        self.conversations = EverdeltaConversationStore(store)

    def save(self) -> None:
        """Save a message more, as a program that has loaded the end of the conversation."""

        async def play() -> None:
            conversation = await self.conversations.load("chat", limit=2)
            assert conversation is not None
            conversation.messages.append(request(next(FRESH)))
            await self.conversations.save(conversation)

        asyncio.run(play())

    def append(self) -> None:
        """Append an entry of a transcript."""
        asyncio.run(self.transcripts.append(KEY, [said(next(FRESH), "user", "more", "unknown")]))

    def cold_append(self) -> None:
        """Append an entry by an object that has seen nothing yet."""
        self.transcripts = EverdeltaSessionStore(self.store)
        self.append()


OPERATIONS: dict[str, Callable[[Open], Any]] = {
    "add_items": lambda at: asyncio.run(at.session.add_items([item(next(FRESH))])),
    "get_items, the newest": lambda at: asyncio.run(at.session.get_items(10)),
    "pop_item": lambda at: asyncio.run(at.session.pop_item()),
    "snapshot": lambda at: asyncio.run(at.session._get_compaction_snapshot(10)),
    "save": Open.save,
    "append": Open.append,
    "append, cold": Open.cold_append,
    "list_session_summaries": lambda at: asyncio.run(at.transcripts.list_session_summaries(KEY["project_key"])),
}


@pytest.mark.promise(8)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_costs_the_same_in_a_long_conversation(name: str, places: list[Store]) -> None:
    """Changing and reading the end costs the same in a conversation eight times as long."""
    small, large = (Open(store) for store in places)
    flat, little, much = take_as_long(OPERATIONS[name], small, large)
    assert flat, f"{little * 1000:.2f} ms at {SIZES[0]} entries, {much * 1000:.2f} ms at {SIZES[1]}"


def put(saver: EverdeltaSaver, thread: str, messages: list[Any], parent: Any = None) -> Any:
    """Put a checkpoint, whose list of messages is a new one."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": messages}
    checkpoint["channel_versions"] = {"messages": len(messages)}
    where: Any = parent or {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    return saver.put(where, checkpoint, {"source": "loop", "run_id": thread}, {"messages": len(messages)})


class Threads:
    """A store with many threads, of which one is long."""

    def __init__(self, saver: EverdeltaSaver, size: int) -> None:
        self.saver = saver
        for number in range(size):
            put(saver, f"t{number}", [HumanMessage(f"what the user said, number {number}")])
        self.messages = [
            HumanMessage(f"what the user said, number {number}", id=f"h{number}") for number in range(size)
        ]
        self.config = put(saver, "long", self.messages)

    def begin(self) -> str:
        """Begin a thread."""
        thread = f"new {next(FRESH)}"
        put(self.saver, thread, [HumanMessage("hello")])
        return thread

    def delete(self) -> None:
        """Begin a thread and delete it."""
        self.saver.delete_thread(self.begin())

    def copy(self) -> None:
        """Copy a thread, and delete what both are, the copy last."""
        thread = self.begin()
        self.saver.copy_thread(thread, f"copy of {thread}")
        self.saver.delete_thread(thread)
        self.saver.delete_thread(f"copy of {thread}")

    def prune(self) -> None:
        """Begin a thread, and prune its first checkpoint."""
        thread = self.begin()
        put(self.saver, thread, [HumanMessage("hello again")])
        self.saver.prune([thread])

    def write(self) -> None:
        """Store what a task wrote to the newest checkpoint of the long thread."""
        self.saver.put_writes(self.config, [("messages", HumanMessage(f"{next(FRESH)}"))], "task")


ON_THREADS: dict[str, Callable[[Threads], Any]] = {
    "delete_thread": Threads.delete,
    "copy_thread": Threads.copy,
    "prune": Threads.prune,
    "put_writes": Threads.write,
}


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> Generator[list[Threads]]:
    """Give stores with few and many threads."""
    with ExitStack() as opened:
        path = tmp_path_factory.mktemp("threads")
        stores = [opened.enter_context(eventlog.open(path / str(size))) for size in THREADS]
        yield [Threads(EverdeltaSaver(store), size) for store, size in zip(stores, THREADS, strict=True)]


@pytest.mark.promise(8)
@pytest.mark.parametrize("name", ON_THREADS)
def test_an_operation_costs_what_its_thread_has(name: str, threads: list[Threads]) -> None:
    """Beginning, copying and deleting a thread cost the same among eight times as many."""
    flat, little, much = take_as_long(ON_THREADS[name], *threads)
    assert flat, f"{little * 1000:.2f} ms at {THREADS[0]} threads, {much * 1000:.2f} ms at {THREADS[1]}"
