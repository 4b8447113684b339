"""Durable turns in plain SQLite, in WAL mode at `synchronous=FULL`.

One side stores as little as possible of a turn, the other all that the engine stores.

A new database is quicker or slower than one in use: its WAL's file still grows, and a growing file
has more to sync than its data. So every side is first written to until the WAL is used again from
its start. No side has a hash tree, a checksum, a lease, or an order between sessions.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from benchmarks.history import BEGAN, TURN_TAKES, items_of
from benchmarks.workloads import Turn, turns
from eventlog.codec.batch import Item
from eventlog.codec.deltas import DeltaRun

__all__ = ["SameFacts", "TwoRows", "Wal"]

STILL = 10
"""Consecutive turns that must not change the size of the WAL's file."""
ENOUGH = 1_000
"""Turns after which the file must have stopped growing.

SQLite moves pages into the database after each thousand.
"""


@cache
def _filling() -> Sequence[Turn]:
    return turns(ENOUGH, seed=9)


class Wal(ABC):
    """A database in WAL mode that has been in use."""

    def __init__(self, path: Path, schema: str) -> None:
        self._path = path
        self._number = 0
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.executescript(schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def turn(self, turn: Turn) -> None:
        """Add a turn; durable when it returns."""

    def fill(self) -> None:
        """Write turns until the WAL's file has stopped growing.

        A checkpoint has then moved pages into the database. Only the end waits for the disk.
        """
        new = self._path.stat().st_size
        size = still = 0
        self.connection.execute("PRAGMA synchronous=OFF")
        for turn in _filling():
            self.turn(turn)
            now = self.wal_bytes()
            still = still + 1 if now == size else 0
            size = now
            if still == STILL and self._path.stat().st_size > new:
                break
        else:
            raise RuntimeError(f"the WAL still grows after {ENOUGH:,} turns: {size:,} bytes")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.finish_work()

    def wal_bytes(self) -> int:
        """Return the size of the WAL's file."""
        return self._path.with_name(f"{self._path.name}-wal").stat().st_size

    def kept_bytes(self) -> int:
        """Return the bytes of the database on the disk, without its WAL."""
        return self._path.stat().st_blocks * 512

    def finish_work(self) -> None:
        """Move the WAL's pages into the database; its file stays."""
        self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Close the connection, which removes the WAL."""
        self.connection.close()


_MESSAGES = """
CREATE TABLE IF NOT EXISTS message (id INTEGER PRIMARY KEY, session TEXT NOT NULL, role TEXT NOT NULL, data BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS by_session ON message (session, id);
"""
MessageRow = tuple[str, str, bytes]
"""Session, role, and the message as JSON."""


class TwoRows(Wal):
    """A row of JSON for each message."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _MESSAGES)
        self._encode = msgspec.json.Encoder().encode

    def turn(self, turn: Turn, session: str = "s") -> None:
        """Add two rows in one transaction."""
        self.add(self.rows(turn, session))

    def rows(self, turn: Turn, session: str) -> Iterator[MessageRow]:
        """Return a turn's two rows."""
        self._number += 1
        call = {"type": "tool", "call": f"call_{self._number}", "name": "bash", "input": {"command": turn.command}}
        answer = {"type": "text", "text": "".join(turn.answer)}
        yield self.row(session, "user", [{"type": "text", "text": turn.question}])
        yield self.row(session, "assistant", [answer, {**call, "output": turn.output}])

    def row(self, session: str, role: str, parts: Sequence[object]) -> MessageRow:
        """Return a message's row."""
        return session, role, self._encode({"role": role, "parts": parts})

    def add(self, rows: Iterable[MessageRow]) -> None:
        """Add rows in one transaction."""
        execute = self.connection.execute
        execute("BEGIN IMMEDIATE")
        for row in rows:
            execute("INSERT INTO message (session, role, data) VALUES (?, ?, ?)", row)
        execute("COMMIT")


_FACTS = """
CREATE TABLE session (id TEXT PRIMARY KEY, version INTEGER NOT NULL, time INTEGER NOT NULL, messages INTEGER NOT NULL);
CREATE TABLE event (
    session TEXT NOT NULL, version INTEGER NOT NULL, time INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (session, version)
) WITHOUT ROWID;
CREATE TABLE body (hash BLOB PRIMARY KEY, data BLOB NOT NULL);
INSERT INTO session VALUES ('s', 0, 0, 0);
"""
_INSERT = "INSERT INTO event VALUES ('s', ?, ?, ?)"
_INSERT_BODY = "INSERT OR IGNORE INTO body VALUES (?, ?)"
_UPDATE = "UPDATE session SET version = ?, time = ?, messages = messages + ? WHERE id = 's'"


class SameFacts(Wal):
    """All that the engine stores of a turn, in three tables.

    That is its events, the run of deltas whole, its large text by content, and the session's head.
    The events are the engine's own structs, encoded in the same way, without the array around the
    events of one append.
    """

    def __init__(self, path: Path, *, each_delta: bool = False, each_wait: bool = False) -> None:
        super().__init__(path, _FACTS)
        self._encode = msgspec.msgpack.Encoder().encode
        self._each_delta = each_delta
        self._each_wait = each_wait
        self._version = 0

    def turn(self, turn: Turn) -> None:
        """Add all facts in one transaction, or in one for each wait of the engine's turn.

        The waits are for question, call, result and end.
        """
        self._number += 1
        bodies: dict[bytes, bytes] = {}
        items = items_of(self._number, turn, BEGAN + self._number * TURN_TAKES, bodies, each_delta=self._each_delta)
        if not self._each_wait:
            self._commit(items, bodies, 2)
            return
        question, call, result, end = items[:2], items[2:-2], items[-2:-1], items[-1:]
        self._commit(question, {}, 1)
        self._commit(call, {}, 1)
        self._commit(result, bodies, 0)
        self._commit(end, {}, 0)

    def _commit(self, items: Sequence[Item], bodies: dict[bytes, bytes], messages: int) -> None:
        version, time = self._version, 0
        rows: list[tuple[int, int, bytes]] = []
        for item in items:
            if isinstance(item, DeltaRun):
                rows.append((version + 1, time, self._encode(item)))
                version += item.count
            else:
                time, event = item
                version += 1
                rows.append((version, time, self._encode(event)))
        execute = self.connection.execute
        execute("BEGIN IMMEDIATE")
        self.connection.executemany(_INSERT, rows)
        for body in bodies.items():
            execute(_INSERT_BODY, body)
        execute(_UPDATE, (version, time, messages))
        execute("COMMIT")
        self._version = version
