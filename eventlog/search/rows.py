"""Rows of the index in a transaction: looked up once, written together at its end."""

from __future__ import annotations

import sqlite3
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec.structs import astuple

from eventlog.events import UsageRecorded
from eventlog.logger import logger
from eventlog.search.file import SLOTS
from eventlog.search.spacing import spaced
from eventlog.values import Model, Tokens, Usage

_LAST_SECOND = 1 << 40
DAMAGED = "damaged:"
"""Begins the facts of an index that name the sessions of which it lacks something."""
_LARGEST = 1 << 40
"""Tokens of a call, at most."""


def name_of(kind: str, id: str) -> int:
    """Return the number that stands for the id of a message or part."""
    digest = blake2b(f"{kind} {id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def second_of(time: int) -> int:
    """Return the second of a time in milliseconds, within the bounds of row numbers."""
    return min(max(time // 1000, 0), _LAST_SECOND)


class Named(msgspec.Struct):
    """A message or part: how it began, its newest rows, and the text of it that is open."""

    stream: int
    name: int
    begun: int
    """Version of the event that began it."""
    kind: int
    """Who says its text; of a call it is the result."""
    tool: int = 0
    """Label of the tool's name; of an answer its model's."""
    said: int | None = None
    """The newest row of its text."""
    called: int | None = None
    """The newest row of a call's arguments."""
    field: str | None = None
    """The field whose deltas are open; None if none are."""
    first: int = 0
    """Version of the delta with which the open text begins."""
    start: int = 0
    """Characters of it that are in the index already."""
    chars: int = 0
    """Characters of it, those included."""
    mark: int = 0
    """Version of a later delta, from which a next piece may be read."""
    before: int = 0
    """Characters of the open text before that delta."""
    time: int = 0
    """Time of the first delta in UTC milliseconds."""


_COLUMNS = ", ".join(Named.__struct_fields__)
_PUT = f"REPLACE INTO names ({_COLUMNS}) VALUES ({', '.join('?' * len(Named.__struct_fields__))})"  # noqa: S608 - no caller's text
_GET = f"SELECT {_COLUMNS} FROM names WHERE stream = ? AND name = ?"  # noqa: S608


class Rows:
    """Additions of a transaction to the index; `flush` writes them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.characters: int = 0
        """Characters of the texts that are added."""
        self.rollbacks: list[tuple[int, int, int]] = []
        """Stream, version and target of each."""
        self.removals: list[tuple[int, int, int]] = []
        """Stream, name and version of each."""
        self.spent: list[tuple[int | str | None, ...]] = []
        """Rows of replies, errors and model calls."""
        self._names: dict[tuple[int, int], Named] = {}
        self._streams: dict[str, tuple[int, int] | None] = {}
        self._labels: dict[str, int] = {}
        self._free: dict[int, int] = {}
        """Where a free number is looked for, by second."""
        self._taken: set[int] = set()
        self._words: list[tuple[int, str, str]] = []
        self._texts: list[tuple[int, int, int, int, int, int, int, int | None]] = []
        found = self._one("SELECT value FROM facts WHERE name = 'late'")
        self._late = self._was_late = 0 if found is None else int(found[0])

    def _one(self, question: str, *values: Any) -> Any:
        return self.connection.execute(question, values).fetchone()

    # -- streams, labels, names ------------------------------------------------------------------

    def note_damage(self, session: str | None) -> None:
        """Note a session of which the index lacks something, or warn of an unknown one."""
        if session is not None:
            self.connection.execute("REPLACE INTO facts VALUES (?, 1)", (f"{DAMAGED}{session}",))
        else:
            logger().warning("damaged events are not searched; `eventlog verify` names them")

    def stream(self, session: str) -> tuple[int, int] | None:
        """Return the number of a session's stream and the label of its scope, if it is known."""
        if session not in self._streams:
            self._streams[session] = self._one("SELECT id, scope FROM streams WHERE name = ?", session)
        return self._streams[session]

    def add_stream(self, session: str, scope: str, fork_of: str | None) -> tuple[int, int]:
        """Add the stream of a session, unless an event before has begun it."""
        if (known := self.stream(session)) is not None:
            return known
        label = self.label(scope)
        question = "INSERT INTO streams (name, fork_of, scope) VALUES (?, ?, ?)"
        id = self.connection.execute(question, (session, fork_of, label)).lastrowid
        assert id is not None
        self._streams[session] = id, label
        return id, label

    def label(self, name: str) -> int:
        """Return the number of a scope or tool."""
        if name not in self._labels:
            stored = name.encode("utf-8", "surrogatepass")
            found = self._one("SELECT id FROM labels WHERE name = ?", stored)
            if found is None:
                self.connection.execute("INSERT INTO labels (name) VALUES (?)", (stored,))
                found = self._one("SELECT last_insert_rowid()")
            self._labels[name] = int(found[0])
        return self._labels[name]

    def model(self, model: Model | None) -> int:
        """Return the number of a model."""
        return self.label("" if model is None else str(model))

    def label_name(self, label: int) -> str:
        """Return the name of a scope or tool."""
        found = self._one("SELECT name FROM labels WHERE id = ?", label)
        return "" if found is None else bytes(found[0]).decode("utf-8", "surrogatepass")

    def named(self, stream: int, name: int) -> Named | None:
        """Return a message or part of a stream, if it is known."""
        known = self._names.get((stream, name))
        if known is None:
            found = self._one(_GET, stream, name)
            if found is None:
                return None
            known = self._names[stream, name] = Named(*found)
        return known

    def put(self, named: Named) -> Named:
        """Add a message or part; later changes of it are written, too."""
        self._names[named.stream, named.name] = named
        return named

    # -- usage ---------------------------------------------------------------------------------

    def spend(
        self,
        stream: int,
        version: int,
        time: int,
        model: int,
        *,
        reply: int = 0,
        error: int = 0,
        call: UsageRecorded | None = None,
    ) -> None:
        """Count a reply that begins, an error, or a model call on the day of its event."""
        usage = Usage(Tokens()) if call is None else call.usage
        counts = (min(max(count, -_LARGEST), _LARGEST) for count in astuple(usage.tokens)[:5])
        cost = None if usage.cost is None else str(usage.cost)
        one = None if call is None or call.more else call
        flags = reply, error, one is not None, one is not None and one.failed
        self.spent.append((second_of(time) // 86_400, stream, version, model, *flags, *counts, cost))

    def telling(self, name: int, stream: int, version: int) -> int:
        """Return 1 if this event is the first of a name, else -1; notes the event."""
        self.connection.execute("INSERT OR IGNORE INTO told VALUES (?, ?, ?)", (name, stream, version))
        if self._one("SELECT stream, version FROM told WHERE name = ?", name) == (stream, version):
            return 1
        self.connection.execute("INSERT OR IGNORE INTO retold VALUES (?, ?, ?)", (name, stream, version))
        return -1

    # -- texts ---------------------------------------------------------------------------------

    def add(self, named: Named, kind: int, tags: str, text: str, *, time: int, first: int, start: int) -> None:
        """Add a text of a part, or a piece that begins at `start`."""
        row = self._place(time)
        earlier = named.said if kind == named.kind else named.called
        if kind == named.kind:
            named.said = row
        else:
            named.called = row
        self._texts.append((row, named.stream, kind, named.begun, first, start, len(text), earlier))
        self._words.append((row, spaced(text), tags))
        self.characters += len(text)

    def _place(self, time: int) -> int:
        """Return a free row number of a second, or the next free one after it."""
        second = second_of(time)
        row = self._free[second] if second in self._free else self._crowded(second)
        while row in self._taken or self._one("SELECT 1 FROM texts WHERE id = ?", row) is not None:
            row = row + 1 if row // SLOTS == second else self._behind_crowd(row)
        self._taken.add(row)
        self._free[second] = row + 1
        if row // SLOTS != second:
            self.connection.execute("REPLACE INTO crowded VALUES (?, ?)", (second, row + 1))
            self._late = max(self._late, row // SLOTS - second)
        return row

    def _crowded(self, second: int) -> int:
        """Return where a free number of a second is looked for."""
        crowded = self._one("SELECT next FROM crowded WHERE second = ?", second)
        return int(crowded[0]) if crowded else second * SLOTS

    def _behind_crowd(self, row: int) -> int:
        """Return a number behind a taken one: that behind all texts of the second that took it.

        A second that has too many texts takes each number from its first one on.
        """
        question = "SELECT next FROM crowded WHERE second <= ? AND next > ? ORDER BY second DESC LIMIT 1"
        found = self._one(question, row // SLOTS, row)
        return row + 1 if found is None else int(found[0])

    def flush(self) -> None:
        """Write everything into the open transaction."""
        write = self.connection.executemany
        self._words.sort()
        write("INSERT INTO words (rowid, text, tags) VALUES (?, ?, ?)", self._words)
        self._texts.sort()
        write("INSERT INTO texts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self._texts)
        write(_PUT, map(astuple, self._names.values()))
        write("REPLACE INTO rollbacks VALUES (?, ?, ?)", self.rollbacks)
        write("REPLACE INTO removals VALUES (?, ?, ?)", self.removals)
        write("REPLACE INTO spent VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", self.spent)
        if self._late != self._was_late:
            self.connection.execute("REPLACE INTO facts VALUES ('late', ?)", (self._late,))
