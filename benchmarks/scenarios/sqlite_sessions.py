"""Many conversations in one SQLite file, in WAL mode and FULL: a row for each message.

The rows are those of `peers/plain_sqlite.py`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from benchmarks.workloads import Turn

__all__ = ["SQLITE", "SqliteSessions"]

SQLITE = "SQLite FULL, a row for each message"
"""What figures call this side."""
SEASON = 6 << 20
"""Bytes written at once, so that the WAL has its full size and is used again: it begins anew at 4 MB."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS message (id INTEGER PRIMARY KEY, session TEXT NOT NULL, role TEXT NOT NULL, data BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS by_session ON message (session, id);
"""


class SqliteSessions:
    """Conversations by their names; every method is one durable transaction."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(directory / "chat.db", isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.executescript(_SCHEMA)
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder().decode

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def season(self) -> None:
        """Bring the WAL to the size that it has after a while, and begin it again."""
        self._write([("", "season", os.urandom(SEASON))])
        self.erase("")
        self._connection.execute("VACUUM")
        self._connection.execute("PRAGMA wal_checkpoint(RESTART)")

    def user(self, session: str, text: str) -> None:
        """Say something: one row."""
        self._write([(session, "user", self._message("user", [{"type": "text", "text": text}]))])

    def turn(self, session: str, turn: Turn) -> None:
        """Add a turn: two rows."""
        self.turns(session, (turn,))

    def turns(self, session: str, work: Iterable[Turn]) -> None:
        """Add turns, all in one transaction."""
        self._write([row for turn in work for row in self._rows(session, turn)])

    def load(self, session: str) -> int:
        """Read and decode a whole conversation."""
        rows = self._connection.execute("SELECT data FROM message WHERE session = ? ORDER BY id", (session,))
        return len([self._decode(data) for (data,) in rows])

    def page(self, session: str, size: int) -> int:
        """Read and decode the newest messages."""
        rows = self._connection.execute(
            "SELECT data FROM message WHERE session = ? ORDER BY id DESC LIMIT ?", (session, size)
        )
        return len([self._decode(data) for (data,) in rows])

    def newest(self, session: str) -> int:
        """The number of the newest message."""
        found = self._connection.execute("SELECT max(id) FROM message WHERE session = ?", (session,)).fetchone()
        return int(found[0])

    def erase(self, session: str) -> None:
        """Delete a conversation."""
        self._connection.execute("DELETE FROM message WHERE session = ?", (session,))

    def vacuum(self) -> None:
        """Give the space of deleted rows back."""
        self._connection.execute("VACUUM")
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _rows(self, session: str, turn: Turn) -> Iterable[tuple[str, str, bytes]]:
        call = {"type": "tool", "call": "call_1", "name": "bash", "input": {"command": turn.command}}
        yield session, "user", self._message("user", [{"type": "text", "text": turn.question}])
        said = [{"type": "text", "text": "".join(turn.answer)}, {**call, "output": turn.output}]
        yield session, "assistant", self._message("assistant", said)

    def _message(self, role: str, parts: Sequence[object]) -> bytes:
        return self._encode({"role": role, "parts": parts})

    def _write(self, rows: Iterable[tuple[str, str, bytes]]) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for row in rows:
            execute("INSERT INTO message (session, role, data) VALUES (?, ?, ?)", row)
        execute("COMMIT")
