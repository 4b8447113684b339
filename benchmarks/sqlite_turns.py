"""Durable turns in plain SQLite, in WAL mode at `synchronous=FULL`.

One side stores as little as possible of a turn, the other all that the engine stores.

A new database is quicker or slower than one in use: its WAL's file still grows, and a growing file
has more to sync than its data. So every side is first written to until the WAL is used again from
its start. No side has a hash tree, a checksum, a lease, or an order between sessions.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.workloads import Turn, turns
from eventlog import events as ev
from eventlog.codec.batch import Item
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.large_texts import to_content
from eventlog.values import Model, Text, Tool

BEGAN = 1_767_225_600_000
"""2026-01-01, in UTC milliseconds."""
TURN_TAKES = 20_000
"""Milliseconds from one turn to the next."""
DELTA_TAKES = 20
_MODEL = Model("bench", "mark")

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
        self._decode = msgspec.json.Decoder().decode

    def turn(self, turn: Turn) -> None:
        """Add two rows in one transaction."""
        answer = {"type": "text", "text": "".join(turn.answer)}
        call = {"type": "tool", "call": "call_1", "name": "bash", "input": {"command": turn.command}}
        question = self.row("user", [{"type": "text", "text": turn.question}])
        self.add([question, self.row("assistant", [answer, {**call, "output": turn.output}])])

    def row(self, role: str, parts: Sequence[object]) -> MessageRow:
        """Return a message's row."""
        return "s", role, self._encode({"role": role, "parts": parts})

    def add(self, rows: Iterable[MessageRow]) -> None:
        """Add rows in one transaction."""
        execute = self.connection.execute
        execute("BEGIN IMMEDIATE")
        for row in rows:
            execute("INSERT INTO message (session, role, data) VALUES (?, ?, ?)", row)
        execute("COMMIT")

    def load(self) -> list[Any]:
        """Read and decode every row."""
        rows = self.connection.execute("SELECT data FROM message WHERE session = 's' ORDER BY id")
        return [self._decode(data) for (data,) in rows]


class FourRows(TwoRows):
    """A row of JSON for question, call, result and answer, each in a transaction of its own."""

    def turn(self, turn: Turn) -> None:
        """Add four rows in four transactions."""
        self.ask(turn)
        self.run(turn)
        self.answer(turn)

    def ask(self, turn: Turn) -> None:
        """Add the question."""
        self.add([self.row("user", [{"type": "text", "text": turn.question}])])

    def run(self, turn: Turn) -> None:
        """Add the call, then its result."""
        call = {"type": "tool", "call": "call_1", "name": "bash", "input": {"command": turn.command}}
        self.add([self.row("assistant", [call])])
        self.add([self.row("tool", [{"call": "call_1", "output": turn.output}])])

    def answer(self, turn: Turn) -> None:
        """Add the answer."""
        self.add([self.row("assistant", [{"type": "text", "text": "".join(turn.answer)}])])


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

    def __init__(self, path: Path, *, each_wait: bool = False) -> None:
        super().__init__(path, _FACTS)
        self._encode = msgspec.msgpack.Encoder().encode
        self._each_wait = each_wait
        self._version = 0

    def turn(self, turn: Turn) -> None:
        """Add all facts in one transaction, or in one for each wait of the engine's turn.

        The waits are for question, call, result and end.
        """
        self._number += 1
        bodies: dict[bytes, bytes] = {}
        items = items_of(self._number, turn, BEGAN + self._number * TURN_TAKES, bodies)
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


def items_of(number: int, turn: Turn, time: int, bodies: dict[bytes, bytes]) -> list[Item]:
    """Return the events that the engine keeps of a turn, its deltas as one run.

    Large texts go into `bodies`.
    """
    user, assistant = f"msg_{number:020d}u", f"msg_{number:020d}v"
    question, answer, tool = (f"prt_{number:020d}{letter}" for letter in "uvw")
    at = time + len(turn.answer) * DELTA_TAKES
    flat: list[object] = []
    for place, text in enumerate(turn.answer, 1):
        flat += ((answer, "text"), text, time + place * DELTA_TAKES)
    command = f'{{"command":"{turn.command}"}}'
    return [
        (time, ev.UserMessageAdded(user)),
        (time, ev.PartStarted(user, question, Text(turn.question))),
        (time, ev.AssistantMessageStarted(assistant, user, model=_MODEL)),
        (time, ev.PartStarted(assistant, answer, Text(""))),
        DeltaRun.from_flat(flat, time),
        (at, ev.PartEnded(answer)),
        (at, ev.PartStarted(assistant, tool, Tool("call_1", "bash"))),
        (at, ev.ToolRunning(tool, command)),
        (at, ev.ToolCompleted(tool, to_content(turn.output, bodies))),
        (at, ev.MessageFinished(assistant, "tool-calls")),
    ]
