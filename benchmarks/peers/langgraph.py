"""LangGraph's `SqliteSaver`, and `EverdeltaSaver` in its place.

A turn is one `put` of a checkpoint that has all messages, with the writes that made it: no graph
runs around it. The database is in WAL mode at SQLite's default, `synchronous=FULL`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import eventlog
from benchmarks.peers.base import Peer, imported
from benchmarks.workloads import Turn

_CONFIG = {"configurable": {"thread_id": "s", "checkpoint_ns": ""}}
_TASK = "00000000-0000-4000-8000-000000000001"


class SaverChat:
    """One thread of a checkpointer."""

    def __init__(self, saver: Any, close: Callable[[], None]) -> None:
        self._saver = saver
        self.close = close
        self._messages: Any = imported("langchain_core.messages")
        self._empty: Any = imported("langgraph.checkpoint.base").empty_checkpoint
        self._config: Any = _CONFIG
        self._sent: list[Any] = []
        self.load()

    def seed(self, work: Sequence[Turn]) -> None:
        """Put a checkpoint for each turn."""
        for turn in work:
            self.turn(turn)

    def turn(self, turn: Turn) -> None:
        """Put one checkpoint and its writes."""
        step = len(self._sent)
        new = self._of(turn, step)
        self._sent += new
        checkpoint = self._empty()
        checkpoint["channel_values"] = {"messages": [*self._sent]}
        checkpoint["channel_versions"] = {"messages": str(step + 1).zfill(12)}
        metadata: dict[str, Any] = {"source": "loop", "step": step, "parents": {}}
        self._config = self._saver.put(self._config, checkpoint, metadata, checkpoint["channel_versions"])
        self._saver.put_writes(self._config, [("messages", new)], _TASK)

    def load(self) -> int:
        """Get the newest checkpoint of the thread, and continue it."""
        found = self._saver.get_tuple(_CONFIG)
        if found is not None:
            self._config = found.config
            self._sent = found.checkpoint["channel_values"]["messages"]
        return len(self._sent)

    def _of(self, turn: Turn, step: int) -> list[Any]:
        call = {"id": f"call_{step}", "name": "bash", "args": {"command": turn.command}}
        return [
            self._messages.HumanMessage(turn.question, id=f"{step}-question"),
            self._messages.AIMessage("".join(turn.answer), tool_calls=[call], id=f"{step}-answer"),
            self._messages.ToolMessage(turn.output, tool_call_id=f"call_{step}", id=f"{step}-result"),
        ]


def theirs(directory: Path) -> SaverChat:
    """Open the framework's own store."""
    directory.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(directory / "chat.db", check_same_thread=False)
    return SaverChat(imported("langgraph.checkpoint.sqlite").SqliteSaver(connection), connection.close)


def ours(directory: Path) -> SaverChat:
    """Open a store of ours."""
    store = eventlog.open(directory)
    return SaverChat(imported("eventlog.adapters.langgraph").EverdeltaSaver(store), store.close)


_peer = partial(
    Peer,
    durable=True,
    package="langgraph.checkpoint.sqlite",
    install="pip install 'langgraph>=1.2,<2' 'langgraph-checkpoint-sqlite>=3.1,<4'",
    note="a turn is one checkpoint with its writes; no graph runs around it",
    quick=1_000,
)
PEERS = (
    _peer("langgraph-ours", "everdelta as LangGraph's saver", chat=ours),
    _peer("langgraph", "LangGraph SqliteSaver", chat=theirs),
)
