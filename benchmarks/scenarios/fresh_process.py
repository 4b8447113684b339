"""In a new process each time: import the engine, open a store, append a durable message.

Measured at two lengths of the history.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import eventlog
from benchmarks.children import child
from benchmarks.figures import Case, Measurement, Setting
from benchmarks.history import begun, small_turns
from benchmarks.measure import Samples, Timing, in_turn
from benchmarks.scenarios.latency import add_rows, beside, figures_of
from benchmarks.scenarios.sqlite_sessions import SQLITE, SqliteSessions

__all__ = ["CASES"]

TIMES = 8
"""Messages of the long history for each of the short one."""
_MARKS = """
import sys
from time import perf_counter, process_time
marks = []
def mark():
    marks.append((perf_counter(), process_time()))
mark()
"""
_TOLD = """
print(*(f"[[{end[0] - start[0]},{end[1] - start[1]}]" if place == 0 else f",[{end[0] - start[0]},{end[1] - start[1]}]"
      for place, (start, end) in enumerate([*zip(marks, marks[1:]), (marks[0], marks[-1])])), "]")
"""
_ENGINE = (
    _MARKS
    + """
import eventlog
mark()
store = eventlog.open(sys.argv[1])
mark()
session = store.session(next(iter(store.sessions())).id)
session.user("Go on")
mark()
store.close()
"""
    + _TOLD
)
_SQLITE = (
    _MARKS
    + """
import json, sqlite3
mark()
connection = sqlite3.connect(sys.argv[1] + "/chat.db", isolation_level=None)
connection.execute("PRAGMA journal_mode=WAL")
connection.execute("PRAGMA synchronous=FULL")
connection.execute("SELECT max(id) FROM message WHERE session = 's'").fetchone()
mark()
data = json.dumps({"role": "user", "parts": [{"type": "text", "text": "Go on"}]})
connection.execute("BEGIN IMMEDIATE")
connection.execute("INSERT INTO message (session, role, data) VALUES ('s', 'user', ?)", (data,))
connection.execute("COMMIT")
mark()
connection.close()
"""
    + _TOLD
)
STEPS = ("import", "open", "append", "all")
"""A child's measurements, in their order."""


def _starts(setting: Setting) -> dict[str, Measurement]:
    sizes = setting.sizes
    lengths = {"short": max(sizes.history // TIMES, 2), "long": sizes.history}
    sides: dict[str, Callable[[], list[Timing]]] = {}
    for name, length in lengths.items():
        ours, theirs = setting.directory / f"engine-{name}", setting.directory / f"sqlite-{name}"
        with eventlog.open(ours) as store:
            begun(store, small_turns(length // 2))
        with SqliteSessions(theirs) as sqlite:
            sqlite.turns(small_turns(length // 2), "s")
        sides[f"engine-{name}"] = _side(_ENGINE, ours)
        sides[f"sqlite-{name}"] = _side(_SQLITE, theirs)
    samples = in_turn(sides, sizes.rounds * 4)
    step = {(side, name): _step(all_, place) for side, all_ in samples.items() for place, name in enumerate(STEPS)}
    sides_now = {"everdelta": "engine", SQLITE: "sqlite"}
    for name in STEPS:
        rows = {title: step[f"{side}-long", name] for title, side in sides_now.items()}
        add_rows(setting.notes, f"fresh process: {name}", rows)
    both = {name: beside(f"fresh.{name}", step["engine-long", name], step["sqlite-long", name]) for name in STEPS}
    flat = {name: beside(f"fresh.{name}.flat", step["engine-long", name], step["engine-short", name]) for name in STEPS}
    return both["open"] | both["append"] | both["all"] | flat["open"] | flat["append"]


def _side(code: str, path: Path) -> Callable[[], list[Timing]]:
    return lambda: [Timing(*pair) for pair in child(code, str(path))]


def _step(samples: Samples, place: int) -> Samples:
    """Return one step of the children's measurements."""
    step = Samples()
    step.add(map(Timing, samples.times[place :: len(STEPS)], samples.cpu[place :: len(STEPS)]))
    return step


SHORTER = f"with a history of an {TIMES}th"

CASES = (
    Case(
        "fresh",
        (
            *figures_of("fresh.open", "opening in a fresh process", SQLITE),
            *figures_of("fresh.append", "first durable user message in a fresh process", SQLITE),
            *figures_of("fresh.all", "import, open, first durable user message", SQLITE),
            *figures_of("fresh.open.flat", "opening in a fresh process", SHORTER),
            *figures_of("fresh.append.flat", "first durable user message in a fresh process", SHORTER),
        ),
        _starts,
    ),
)
