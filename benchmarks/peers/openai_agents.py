"""OpenAI Agents' `SQLiteSession`: a row of JSON for each item, in WAL mode.

It opens its connections itself and leaves SQLite's default, `synchronous=FULL`: every `add_items`
is durable, and there is no other choice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.base import Peer, imported
from benchmarks.workloads import Turn

__all__ = ["PEERS"]


class AgentsChat:
    """One session; its coroutines run in an event loop that stays open."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._runner = asyncio.Runner()
        self._session = imported("agents").SQLiteSession("s", directory / "chat.db")

    def seed(self, work: Sequence[Turn]) -> None:
        """Add all items in one call."""
        self._runner.run(self._session.add_items([item for turn in work for item in _items(turn)]))

    def turn(self, turn: Turn) -> None:
        """Add the items of a turn in one call."""
        self._runner.run(self._session.add_items(_items(turn)))

    def load(self) -> int:
        """Call `get_items` without a limit."""
        return len(self._runner.run(self._session.get_items()))

    def close(self) -> None:
        """Close the session and the loop."""
        self._session.close()
        self._runner.close()


def _items(turn: Turn) -> list[dict[str, object]]:
    """Return a turn as items of the Responses interface, which this package stores."""
    answer = {"type": "output_text", "text": "".join(turn.answer), "annotations": list[object]()}
    return [
        {"role": "user", "content": turn.question},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [answer]},
        {"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": turn.command, "id": "fc_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": turn.output},
    ]


PEERS = (
    Peer(
        "openai-agents",
        "OpenAI Agents SQLiteSession",
        durable=True,
        note="each call goes through an event loop to a worker thread; it keeps items of JSON and no deltas",
        package="agents",
        install="pip install 'openai-agents>=0.24,<1'",
        chat=AgentsChat,
    ),
)
