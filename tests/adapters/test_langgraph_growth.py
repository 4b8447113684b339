"""Cost of LangGraph's threads among many, and of long ones."""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import count
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

import eventlog
from eventlog.adapters.langgraph import EverdeltaSaver
from tests.growth.judging import take_as_long

SIZES = (100, 800)
"""Threads of a store, and messages of one of them."""
FRESH = count()


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


OPERATIONS: dict[str, Callable[[Threads], Any]] = {
    "delete_thread": Threads.delete,
    "copy_thread": Threads.copy,
    "prune": Threads.prune,
    "put_writes": Threads.write,
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Generator[list[Threads]]:
    """Give stores of both sizes."""
    stores = [eventlog.open(tmp_path_factory.mktemp("growth") / str(size)) for size in SIZES]
    yield [Threads(EverdeltaSaver(store), size) for store, size in zip(stores, SIZES, strict=True)]
    for store in stores:
        store.close()


@pytest.mark.promise(8)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_costs_what_its_thread_has(name: str, places: list[Threads]) -> None:
    """Beginning, copying and deleting a thread cost the same among eight times as many."""
    small, large = places
    flat, little, much = take_as_long(OPERATIONS[name], small, large)
    assert flat, f"{little * 1000:.2f} ms at {SIZES[0]} threads, {much * 1000:.2f} ms at {SIZES[1]}"
