"""Sessions of OpenAI Agents: its `SQLiteSession`, and `EverdeltaSession`.

`SQLiteSession` has a row of JSON for each item, in WAL mode at the default `synchronous=FULL`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import eventlog
from benchmarks.peers.base import Chat, Peer, imported
from benchmarks.workloads import Turn


class AgentsChat(Chat):
    """One session; its coroutines run in an event loop that stays open."""

    def __init__(self, session: Any, close: Callable[[], None]) -> None:
        self._runner = asyncio.Runner()
        self._session = session
        self._close = close
        self._numbers = count(1)

    def turn(self, turn: Turn) -> None:
        """Add the items of a turn in one call."""
        self._runner.run(self._session.add_items(_items(turn, next(self._numbers))))

    def load(self) -> int:
        """Call `get_items` without a limit."""
        return len(self._runner.run(self._session.get_items()))

    def close(self) -> None:
        """Close the store and the loop."""
        self._close()
        self._runner.close()


def _items(turn: Turn, number: int) -> list[dict[str, object]]:
    """Return a turn as items of the Responses interface, which this package stores."""
    text = {
        "type": "output_text",
        "text": "".join(turn.answer),
        "annotations": list[object](),
        "logprobs": list[object](),
    }
    call = {"call_id": f"call_{number}", "name": "bash", "arguments": json.dumps({"command": turn.command})}
    return [
        {"role": "user", "content": turn.question},
        {"type": "function_call", **call},
        {"type": "function_call_output", "call_id": f"call_{number}", "output": turn.output},
        {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text]},
    ]


def theirs(directory: Path) -> AgentsChat:
    """Open the framework's own store."""
    directory.mkdir(parents=True, exist_ok=True)
    session = imported("agents").SQLiteSession("s", directory / "chat.db")
    return AgentsChat(session, session.close)


def ours(directory: Path) -> AgentsChat:
    """Open a store of ours."""
    store = eventlog.open(directory)
    return AgentsChat(imported("eventlog.adapters.openai_agents").EverdeltaSession(store, "s"), store.close)


_INSTALL = "pip install 'openai-agents>=0.24,<1'"

PEERS = (
    Peer(
        "openai-agents-ours",
        "everdelta as OpenAI Agents' session",
        durable=True,
        package="agents",
        install=_INSTALL,
        chat=ours,
    ),
    Peer(
        "openai-agents",
        "OpenAI Agents SQLiteSession",
        durable=True,
        note="each call goes through an event loop to a worker thread; it keeps items of JSON and no deltas",
        package="agents",
        install=_INSTALL,
        chat=theirs,
    ),
)
