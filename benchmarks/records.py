"""Read a framework's list of messages cold, beside a table of JSON texts in SQLite."""

from __future__ import annotations

import json
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.engine import opened
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import in_turn, timed
from eventlog import Feed, OpenAIChatMapping, Store

__all__ = ["CASES"]

TARGETS = {1_500: 1.5, 5_000: 1}
"""Records, and how many times as long as the table they may take."""
TABLE = "the same messages from a SQLite table in their order, each decoded with json.loads"


def messages(count: int) -> list[dict[str, Any]]:
    """Questions, calls, results and answers, as an agent's list has them."""
    told: list[dict[str, Any]] = []
    for number in range(count // 4):
        call = {"name": "read_file", "arguments": json.dumps({"path": f"/src/module_{number}.py"})}
        calls = [{"id": f"call_{number}", "type": "function", "function": call}]
        told += [
            {"role": "user", "content": f"Question {number}: " + "please look at the file and say what it does " * 4},
            {"role": "assistant", "content": f"Looking at {number}. " + "One moment please. " * 5, "tool_calls": calls},
            {
                "role": "tool",
                "tool_call_id": f"call_{number}",
                "content": f"line {number}\n" + "def add(one): ...\n" * 30,
            },
            {"role": "assistant", "content": f"Answer {number}: " + "it defines functions that add one to it. " * 6},
        ]
    return told


def _reading(setting: Setting) -> dict[str, Measurement]:
    """Read all records with a handle of a session made for it, and all rows with a connection."""
    found: dict[str, Measurement] = {}
    for place, most in enumerate(TARGETS):
        told = messages(min(most, setting.sizes.history))
        name = f"records {place}"
        with opened(setting.directory, name) as store:
            feed = Feed(store.create_session(id="s"), OpenAIChatMapping())
            for start in range(0, len(told), 2):
                feed.add(told[start : start + 2])
        table = setting.directory / f"{name}.sqlite"
        _fill(table, told)
        with opened(setting.directory, name) as store:
            assert _read(store) == _rows(table) == told
            sides = {
                "feed": lambda store=store: [timed(partial(_read, store))],
                "rows": lambda table=table: [timed(partial(_rows, table))],
            }
            samples = in_turn(sides, max(setting.sizes.rounds, 1) * 3)
        found[f"records.{most}"] = Measurement(samples["feed"].median * 1000, samples["rows"].median * 1000)
    return found


def _read(store: Store) -> list[Any]:
    feed = Feed(store.session("s"), OpenAIChatMapping())
    return feed.read(feed.path())


def _fill(path: Path, told: list[dict[str, Any]]) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(
            "CREATE TABLE messages (session TEXT, number INTEGER, value TEXT, PRIMARY KEY (session, number))"
        )
        rows = [("s", number, json.dumps(value)) for number, value in enumerate(told)]
        connection.executemany("INSERT INTO messages VALUES (?, ?, ?)", rows)
    connection.close()


def _rows(path: Path) -> list[Any]:
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT value FROM messages WHERE session = 's' ORDER BY number")
    values = [json.loads(value) for (value,) in found]
    connection.close()
    return values


CASES = (
    Case(
        "records",
        tuple(
            Figure(f"records.{count}", f"path and values of {count:,} records, cold", "ms", TABLE, Target("<=", most))
            for count, most in TARGETS.items()
        ),
        _reading,
    ),
)
