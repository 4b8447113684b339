"""LangGraph's `SqliteSaver`, with its default channel and with the beta's `DeltaChannel`.

A turn is one run of a graph of two nodes, the model's answer and the tool's result, which
checkpoints before the first, between them and after the last. `durability="async"` is the default,
"sync" waits for each checkpoint; the database is in WAL mode at SQLite's default,
`synchronous=FULL`. Seeding is one update of the state with all messages, which favours this peer:
after real runs each checkpoint would, by default, hold all messages before it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from benchmarks.peers.base import Peer, imported
from benchmarks.workloads import Turn

__all__ = ["INSTALL", "PEERS", "GraphChat"]

_CONFIG = {"configurable": {"thread_id": "s"}}


class GraphChat:
    """One thread of a graph, on any checkpointer."""

    def __init__(self, saver: Any, channel: Any, durability: Literal["async", "sync"]) -> None:
        self._durability = durability
        self._messages: Any = imported("langchain_core.messages")
        self._saver = saver
        self._graph: Any = self._compiled(channel)
        self._turn: Turn | None = None

    def seed(self, work: Sequence[Turn]) -> None:
        """Add all messages in one update of the state."""
        self._graph.update_state(
            _CONFIG, {"messages": [message for turn in work for message in self._all(turn)]}, "tools"
        )

    def turn(self, turn: Turn) -> None:
        """Run the graph once."""
        self._turn = turn
        message = self._messages.HumanMessage(turn.question)
        self._graph.invoke({"messages": [message]}, _CONFIG, durability=self._durability)

    def load(self) -> int:
        """Load the state of the thread."""
        return len(self._graph.get_state(_CONFIG).values["messages"])

    def close(self) -> None:
        """Close what the saver has open: nothing that is known here."""

    def _compiled(self, channel: Any) -> Any:
        module = imported("langgraph.graph")
        state = TypedDict("state", {"messages": Annotated[list, channel]})  # type: ignore[type-arg]  # noqa: UP013 - known at run time only
        graph = module.StateGraph(state)
        graph.add_node("model", self._run_model)
        graph.add_node("tools", self._run_tool)
        graph.add_edge(module.START, "model")
        graph.add_edge("model", "tools")
        graph.add_edge("tools", module.END)
        return graph.compile(checkpointer=self._saver)

    def _run_model(self, state: dict[str, Any]) -> dict[str, Any]:
        del state
        assert self._turn is not None
        return {"messages": [self._answer(self._turn)]}

    def _run_tool(self, state: dict[str, Any]) -> dict[str, Any]:
        del state
        assert self._turn is not None
        return {"messages": [self._result(self._turn)]}

    def _all(self, turn: Turn) -> list[Any]:
        return [self._messages.HumanMessage(turn.question), self._answer(turn), self._result(turn)]

    def _answer(self, turn: Turn) -> Any:
        call = {"id": "call_1", "name": "bash", "args": {"command": turn.command}}
        return self._messages.AIMessage("".join(turn.answer), tool_calls=[call])

    def _result(self, turn: Turn) -> Any:
        return self._messages.ToolMessage(turn.output, tool_call_id="call_1")


class LangGraphChat(GraphChat):
    """One thread of a graph, in a database."""

    def __init__(self, directory: Path, channel: Any, durability: Literal["async", "sync"]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(directory / "chat.db", check_same_thread=False)
        super().__init__(imported("langgraph.checkpoint.sqlite").SqliteSaver(self._connection), channel, durability)

    def close(self) -> None:
        """Close the saver's connection."""
        self._connection.close()


def _added(directory: Path, durability: Literal["async", "sync"]) -> LangGraphChat:
    return LangGraphChat(directory, imported("langgraph.graph.message").add_messages, durability)


def _joined(state: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    return [*state, *chain.from_iterable(writes)]


def _delta(directory: Path, durability: Literal["async", "sync"]) -> LangGraphChat:
    return LangGraphChat(directory, imported("langgraph.channels").DeltaChannel(_joined), durability)


INSTALL = "pip install 'langgraph>=1.2,<2' 'langgraph-checkpoint-sqlite>=3.1,<4'"
_PACKAGE = "langgraph.checkpoint.sqlite"

_DURABILITIES: tuple[tuple[str, str, Literal["async", "sync"]], ...] = (("", "", "async"), ("-sync", ", sync", "sync"))

PEERS = tuple(
    Peer(
        f"langgraph{name}{suffix}",
        f"LangGraph {title}{label}",
        durable=durability == "sync",
        package=_PACKAGE,
        install=INSTALL,
        note="a turn runs a graph of two nodes, which checkpoints its state at each step: running is measured with keeping",
        chat=partial(kind, durability=durability),
        quick=1_000,
    )
    for name, title, kind in (("", "SqliteSaver", _added), ("-delta", "DeltaChannel", _delta))
    for suffix, label, durability in _DURABILITIES
)
