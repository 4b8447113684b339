"""Waits of a user in a new process: imports, a message, a command, a token count.

Importing is measured in processor time, which a busy machine stretches less. The rest is time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import eventlog
from benchmarks.children import child, run_time
from benchmarks.engine import filled
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import in_turn
from benchmarks.peers.plain_sqlite import SqliteChat
from benchmarks.workloads import small_turns

HELP, PATIENCE, COUNT = 200.0, 300.0, 250.0
"""Milliseconds that `--help`, another command, and the first token count may take."""
TURNS = 20
"""Turns of each session of the store."""

_IMPORTING = """
from time import process_time
start = process_time()
import {names}
print((process_time() - start) * 1e3)
"""
_COUNTING = """
from time import perf_counter
from projections.tokens.counter import TokenCounter
start = perf_counter()
TokenCounter().count("How many tokens is this?")
print((perf_counter() - start) * 1e3)
"""
_FIRST = """
import sys
from time import perf_counter
start = perf_counter()
import eventlog
store = eventlog.open(sys.argv[1])
store.session(next(iter(store.sessions())).id).user("Go on")
print((perf_counter() - start) * 1e3)
"""
_SQLITE = """
import sys
from time import perf_counter
start = perf_counter()
import json, sqlite3
connection = sqlite3.connect(sys.argv[1] + "/chat.db", isolation_level=None)
connection.execute("PRAGMA synchronous=FULL")
data = json.dumps({"role": "user", "parts": [{"type": "text", "text": "Go on"}]})
connection.execute("INSERT INTO message (session, role, data) VALUES ('s', 'user', ?)", (data,))
print((perf_counter() - start) * 1e3)
"""
COMMANDS = {"sessions": "sessions", "show": "show SESSION", "view": "view SESSION", "stats": "stats"}
"""The calls that are measured."""


def _starts(setting: Setting) -> dict[str, Measurement]:
    path, rival = setting.directory / "store", setting.directory / "sqlite"
    with eventlog.open(path) as store:
        session = [filled(store, small_turns(TURNS)).id for _ in range(setting.sizes.sessions)][-1]
    chat = SqliteChat(rival, "FULL")
    chat.seed(list(small_turns(TURNS)))
    chat.close()

    def importing(names: str) -> Callable[[], list[float]]:
        return lambda: [child(_IMPORTING.format(names=names))]

    def first(code: str, place: Path) -> Callable[[], list[float]]:
        return lambda: [child(code, str(place))]

    def command(*words: str) -> Callable[[], list[float]]:
        return lambda: [run_time("-m", "projections", *words) * 1e3]

    sides = {
        "import": importing("eventlog, projections"),
        "libraries": importing("lmdb, msgspec, zstandard"),
        "first": first(_FIRST, path),
        "sqlite": first(_SQLITE, rival),
        "help": command("--help"),
        "count": lambda: [child(_COUNTING)],
    }
    for name, call in COMMANDS.items():
        sides[name] = command("--store", str(path), *call.replace("SESSION", session).split())
    found = {name: samples.median for name, samples in in_turn(sides, setting.sizes.rounds).items()}
    return {
        "starting.import": Measurement(found["import"], found["libraries"]),
        "starting.first": Measurement(found["first"], found["sqlite"]),
        "starting.help": Measurement(found["help"], HELP),
        "starting.count": Measurement(found["count"], COUNT),
        **{f"starting.{name}": Measurement(found[name], PATIENCE) for name in COMMANDS},
    }


CASE = Case(
    "starting",
    (
        Figure(
            "starting.import",
            "importing eventlog and projections (processor time)",
            "ms",
            "importing lmdb, msgspec and zstandard",
            Target("<=", 2),
        ),
        Figure("starting.first", "import, open, first durable user message", "ms", "sqlite3, its first durable row"),
        Figure("starting.help", "eventlog --help, from nothing", "ms", f"{HELP:.0f} ms", Target("<=", 1)),
        Figure("starting.count", "the first token count of a process", "ms", f"{COUNT:.0f} ms", Target("<=", 1)),
        *(
            Figure(f"starting.{name}", f"eventlog {name}, from nothing", "ms", f"{PATIENCE:.0f} ms", Target("<=", 1))
            for name in COMMANDS
        ),
    ),
    _starts,
)
