"""Many conversations in one SQLite file, in WAL mode and FULL: a row for each message."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from benchmarks.sqlite_turns import TwoRows
from benchmarks.workloads import Turn

__all__ = ["SQLITE", "SqliteSessions"]

SQLITE = "SQLite FULL, a row for each message"
"""Name of this side in figures."""


class SqliteSessions(TwoRows):
    """Conversations by name; every method is one durable transaction."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory / "chat.db")
        self._decode = msgspec.json.Decoder().decode

    def user(self, text: str, session: str) -> None:
        """Add a user message: one row."""
        self.add([self.row(session, "user", [{"type": "text", "text": text}])])

    def turns(self, work: Iterable[Turn], session: str) -> None:
        """Add turns, all in one transaction."""
        self.add(row for turn in work for row in self.rows(turn, session))

    def load(self, session: str) -> int:
        """Read and decode a whole conversation."""
        rows = self.connection.execute("SELECT data FROM message WHERE session = ? ORDER BY id", (session,))
        return len([self._decode(data) for (data,) in rows])

    def page(self, session: str, size: int) -> int:
        """Read and decode the newest messages."""
        rows = self.connection.execute(
            "SELECT data FROM message WHERE session = ? ORDER BY id DESC LIMIT ?", (session, size)
        )
        return len([self._decode(data) for (data,) in rows])

    def newest(self, session: str) -> int:
        """The number of the newest message."""
        row = self.connection.execute("SELECT max(id) FROM message WHERE session = ?", (session,)).fetchone()
        return int(row[0])

    def erase(self, session: str) -> None:
        """Delete a conversation."""
        self.connection.execute("DELETE FROM message WHERE session = ?", (session,))

    def vacuum(self) -> None:
        """Free the space of deleted rows."""
        self.connection.execute("VACUUM")
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
