"""Plain SQLite in WAL mode, as a careful program uses it.

Messages are rows. Streams store their deltas in one of two ways:

* `states`: as OpenCode does: an event row with the whole part, and the row of the part rewritten,
  in one transaction.
* `deltas`: a row for each delta; nothing is rewritten.

A transaction at FULL survives power loss; at NORMAL once one at FULL follows, which ends a stream.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from benchmarks.peers.base import Peer
from benchmarks.workloads import Turn

Synchronous = Literal["FULL", "NORMAL"]
Way = Literal["states", "deltas"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS message (id INTEGER PRIMARY KEY, session TEXT NOT NULL, role TEXT NOT NULL, data BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS by_session ON message (session, id);
CREATE TABLE IF NOT EXISTS part (id TEXT PRIMARY KEY, data TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS event (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, data TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS delta (id INTEGER PRIMARY KEY, part TEXT NOT NULL, text TEXT NOT NULL);
"""


def _connected(directory: Path, synchronous: Synchronous) -> sqlite3.Connection:
    directory.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(directory / "chat.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.executescript(_SCHEMA)
    return connection


class SqliteChat:
    """A row for each message."""

    def __init__(self, directory: Path, synchronous: Synchronous) -> None:
        self._connection = _connected(directory, synchronous)
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder().decode

    def seed(self, work: Sequence[Turn]) -> None:
        """Add all turns in one transaction."""
        self._insert(work)

    def turn(self, turn: Turn) -> None:
        """Add two rows in one transaction."""
        self._insert((turn,))

    def load(self) -> int:
        """Read and decode every row."""
        rows = self._connection.execute("SELECT data FROM message WHERE session = 's' ORDER BY id")
        return len([self._decode(data) for (data,) in rows])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _insert(self, work: Sequence[Turn]) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for turn in work:
            call = {"type": "tool", "call": "call_1", "name": "bash", "input": {"command": turn.command}}
            parts: dict[str, list[object]] = {
                "user": [{"type": "text", "text": turn.question}],
                "assistant": [{"type": "text", "text": "".join(turn.answer)}, {**call, "output": turn.output}],
            }
            for role, content in parts.items():
                data = self._encode({"role": role, "parts": content})
                execute("INSERT INTO message (session, role, data) VALUES ('s', ?, ?)", (role, data))
        execute("COMMIT")


class SqliteStream:
    """One streamed part, a transaction for each delta."""

    def __init__(self, directory: Path, synchronous: Synchronous, way: Way) -> None:
        self._connection = _connected(directory, synchronous)
        self._way = way
        self._pieces: list[str] = []
        self._encode = msgspec.json.Encoder().encode
        self._connection.execute("INSERT INTO part VALUES ('prt_1', '')")

    def append(self, text: str) -> None:
        """Store the delta in the chosen way."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        if self._way == "deltas":
            execute("INSERT INTO delta (part, text) VALUES ('prt_1', ?)", (text,))
        else:
            self._pieces.append(text)
            whole = self._encode({"id": "prt_1", "type": "text", "text": "".join(self._pieces)}).decode()
            execute("INSERT INTO event (kind, data) VALUES ('message.part.updated', ?)", (whole,))
            execute("UPDATE part SET data = ? WHERE id = 'prt_1'", (whole,))
        execute("COMMIT")

    def finish(self) -> None:
        """End the part in a transaction that is durable, and all before it with it."""
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("UPDATE part SET data = data || ' ' WHERE id = 'prt_1'")
        self._connection.close()


PEERS = (
    Peer(
        "sqlite-full",
        "SQLite FULL",
        durable=True,
        note="two rows of JSON in one transaction; each transaction waits for the disk",
        chat=partial(SqliteChat, synchronous="FULL"),
        streamer=partial(SqliteStream, synchronous="FULL", way="deltas"),
    ),
    Peer(
        "sqlite-normal",
        "SQLite NORMAL",
        durable=False,
        note="waits for no disk; of a stream, the end does",
        chat=partial(SqliteChat, synchronous="NORMAL"),
        streamer=partial(SqliteStream, synchronous="NORMAL", way="deltas"),
    ),
    Peer(
        "sqlite-states",
        "SQLite NORMAL, full-state events (as OpenCode)",
        durable=False,
        note="the whole part so far in a new row at each delta; the end waits for the disk",
        streamer=partial(SqliteStream, synchronous="NORMAL", way="states"),
    ),
)
