"""Stores of rows of JSON, as the Claude Agent SDK and pydantic-ai want one."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.base import imported


class Rows:
    """Rows of JSON, each flushed by itself; a session store of Claude."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.connection = sqlite3.connect(directory / "chat.db", isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute("CREATE TABLE IF NOT EXISTS item (id INTEGER PRIMARY KEY, data TEXT NOT NULL)")

    def add(self, data: Sequence[str | bytes]) -> None:
        """Store items."""
        for one in data:
            self.connection.execute("INSERT INTO item (data) VALUES (?)", (one,))

    def read(self, order: str = "ORDER BY id") -> list[Any]:
        """Return items."""
        return [row[0] for row in self.connection.execute(f"SELECT data FROM item {order}")]

    async def append(self, _key: object, entries: Sequence[Any]) -> None:
        """Store entries."""
        await asyncio.to_thread(lambda: self.add([json.dumps(entry) for entry in entries]))

    async def load(self, _key: object) -> list[Any]:
        """Return all entries."""
        return await asyncio.to_thread(lambda: [json.loads(data) for data in self.read()])


def message_rows(rows: Rows) -> Any:
    """Return a store of pydantic-ai that has a row for each message, and for each record."""
    base, adapt = imported("pydantic_ai.conversation_store"), imported("pydantic").TypeAdapter
    entry, record = adapt(base.ConversationEntry), adapt(base.ConversationRecord)

    async def write_record(_store: Any, new: Any, *, new_entries: Any = (), **_: Any) -> None:
        await asyncio.to_thread(lambda: rows.add([*map(entry.dump_json, new_entries), record.dump_json(new)]))

    async def read_record(_store: Any, _id: str) -> Any:
        found = await asyncio.to_thread(rows.read, "ORDER BY id DESC LIMIT 1")
        return record.validate_json(found[0]) if found else None

    async def read_history(_store: Any, _head: Any, **_: Any) -> list[Any]:
        found = await asyncio.to_thread(rows.read)
        return [entry.validate_json(data) for data in found if data.startswith(b'{"id"')]

    methods = {"write_record": write_record, "read_record": read_record, "read_history": read_history}
    made: Any = type("RowStore", (base.ConversationStore,), methods)
    made.__abstractmethods__ = frozenset()
    return made()
