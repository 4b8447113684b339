"""Event JSONL: what importing a file costs, new and again, beside decoding its lines."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import msgspec

import eventlog
from benchmarks.engine import opened
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.history import BEGAN, begun, small_turns
from benchmarks.measure import in_turn, timed
from eventlog import events as ev
from eventlog.importers import import_file
from eventlog.values import Text
from projections.exports.jsonl import jsonl_lines

__all__ = ["CASES"]

TURNS = 400
"""Turns of the session of streams."""
AT_ONCE = 500
"""Messages of one append of the session of messages."""


def _messages(store: eventlog.Store, number: int) -> eventlog.Session:
    """Create a session of user messages, many in each append."""
    session = store.create_session(title="messages")
    for start in range(0, number, AT_ONCE):
        items: list[tuple[int, ev.Event]] = []
        for at in range(start, min(start + AT_ONCE, number)):
            message, text = f"msg_{at:08d}", Text(f"What do we do now, after step {at} of the plan?")
            items += [
                (BEGAN + at, ev.UserMessageAdded(message)),
                (BEGAN + at, ev.PartStarted(message, f"prt_{at:08d}", text)),
            ]
        session.append(items)
    return session


def _sides(setting: Setting, name: str, path: Path) -> dict[str, float]:
    """Return milliseconds: imported new, imported again, and decoded line by line."""
    lines = path.read_bytes().splitlines()
    decode = msgspec.json.decode
    numbers = count()

    def new() -> list[float]:
        with opened(setting.directory, f"{name}-{next(numbers)}") as store:
            return [timed(lambda: import_file(store, path))]

    with opened(setting.directory, f"{name}-again") as store:
        import_file(store, path)
        sides: dict[str, Callable[[], list[float]]] = {
            "new": new,
            "again": lambda: [timed(lambda: import_file(store, path))],
            "bare": lambda: [timed(lambda: [decode(line) for line in lines])],
        }
        samples = in_turn(sides, setting.sizes.rounds)
    return {side: found.median * 1e3 for side, found in samples.items()}


def _imports(setting: Setting) -> dict[str, Measurement]:
    files = {"messages": setting.directory / "messages.jsonl", "streams": setting.directory / "streams.jsonl"}
    with opened(setting.directory, "exported") as store:
        sessions = {
            "messages": _messages(store, setting.sizes.history),
            "streams": store.session(begun(store, small_turns(min(TURNS, setting.sizes.turns)))),
        }
        for name, session in sessions.items():
            files[name].write_bytes(b"".join(jsonl_lines(session)))
    found: dict[str, Measurement] = {}
    for name, path in files.items():
        milli = _sides(setting, name, path)
        found[f"import.events.{name}"] = Measurement(milli["new"], milli["bare"])
        found[f"import.events.{name}.again"] = Measurement(milli["again"], milli["bare"])
    return found


BARE = "bare msgspec JSON decoding of its lines"

CASES = (
    Case(
        "import.events",
        (
            Figure("import.events.messages", "event JSONL of messages, imported", "ms", BARE, Target("<=", 4)),
            Figure(
                "import.events.messages.again", "event JSONL of messages, imported again", "ms", BARE, Target("<=", 1.5)
            ),
            Figure("import.events.streams", "event JSONL of streams, imported", "ms", BARE, Target("<=", 4)),
            Figure(
                "import.events.streams.again", "event JSONL of streams, imported again", "ms", BARE, Target("<=", 1.5)
            ),
        ),
        _imports,
    ),
)
