"""First reads in a fresh process: the view, the transcript, its newest page; then again.

Each read is of a store as its writer left it, made by the calls of the pages, in a process that
opens nothing else. SQLite and JSONL read and decode all messages.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

import eventlog
from benchmarks.children import child
from benchmarks.engine import compacted, filled, take_turn
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import Samples, in_turn
from benchmarks.peers.base import Chat
from benchmarks.peers.jsonl import JsonlChat
from benchmarks.peers.plain_sqlite import SqliteChat
from benchmarks.workloads import turns

TAIL = 4
"""Turns after the compaction: the view holds them and the summary."""

_MEASURED = """
import gc, json
gc.collect()
gc.freeze()
marks = [(perf_counter(), process_time())]
read = opened(sys.argv[1])
marks.append((perf_counter(), process_time()))
for _ in range(2):
    assert read()
    marks.append((perf_counter(), process_time()))
print(json.dumps([[end[0] - start[0], end[1] - start[1]] for start, end in zip(marks, marks[1:])]))
"""
_ENGINE = """
import sys
from time import perf_counter, process_time
import eventlog
from projections import ModelView
from projections.transcript.transcript import Transcript
def opened(path):
    store = eventlog.open(path)
    session = store.session(next(iter(store.sessions())).id)
    return lambda: {read}
"""
_SQLITE = """
import sqlite3, sys
from time import perf_counter, process_time
import msgspec
def opened(path):
    connection, decode = sqlite3.connect(path + "/chat.db"), msgspec.json.Decoder().decode
    query = "SELECT data FROM message WHERE session = 's' ORDER BY id"
    return lambda: [decode(data) for (data,) in connection.execute(query)]
"""
_JSONL = """
import sys
from time import perf_counter, process_time
import msgspec
def opened(path):
    decode = msgspec.json.Decoder().decode
    return lambda: [decode(line) for line in open(path + "/chat.jsonl", "rb")]
"""
_READS = {
    "everdelta, view": ("whole", "[*ModelView.of(session).messages]"),
    "everdelta, view of a compacted session": ("compacted", "[*ModelView.of(session).messages]"),
    "everdelta, transcript": ("whole", "Transcript(session).oldest_first()"),
    "everdelta, transcript read before": ("read", "Transcript(session).oldest_first()"),
    "everdelta, newest page": ("whole", "Transcript(session).page(20)"),
}
"""The reads of the engine: a store's kind, and the call."""
SQLITE, JSONL = "SQLite, all rows", "JSONL, all lines"


def _made(directory: Path, length: int) -> dict[str, Path]:
    """Make a store of each kind, and its rivals' files, with so many messages."""
    work = turns(length // 2, seed=4)
    places = {kind: directory / f"{kind}-{length}" for kind in ("whole", "compacted", "read", "sqlite", "jsonl")}
    with eventlog.open(places["whole"]) as store:
        filled(store, work)
    for kind in ("compacted", "read"):
        copytree(places["whole"], places[kind])
    with eventlog.open(places["compacted"]) as store:
        session = store.session(next(iter(store.sessions())).id)
        compacted(session)
        with session.lease():
            for turn in turns(TAIL, seed=7):
                take_turn(session, turn)
    child(_ENGINE.format(read=_READS["everdelta, transcript"][1]) + _MEASURED, str(places["read"]))
    rivals: tuple[Chat, ...] = (SqliteChat(places["sqlite"], "FULL"), JsonlChat(places["jsonl"], sync=False))
    for rival in rivals:
        rival.seed(work)
        rival.close()
    return places


def _side(code: str, place: Path, runs: list[list[list[float]]]) -> Callable[[], list[float]]:
    def fresh() -> list[float]:
        with TemporaryDirectory(dir=place.parent) as directory:
            copy = Path(directory) / "copy"
            copytree(place, copy)
            runs.append(child(code + _MEASURED, str(copy)))
        return [runs[-1][1][0]]

    return fresh


def _reading(setting: Setting) -> dict[str, Measurement]:
    first: dict[str, dict[int, float]] = {}
    for length in setting.sizes.lengths:
        places = _made(setting.directory, length)
        codes = {name: (_ENGINE.format(read=read), places[kind]) for name, (kind, read) in _READS.items()}
        codes |= {SQLITE: (_SQLITE, places["sqlite"]), JSONL: (_JSONL, places["jsonl"])}
        runs: dict[str, list[list[list[float]]]] = {name: [] for name in codes}
        sides = {name: _side(code, place, runs[name]) for name, (code, place) in codes.items()}
        in_turn(sides, setting.sizes.rounds, warm_up=0)
        for name, found in runs.items():
            cells: dict[str, float | None] = {}
            for place, step in enumerate(("open", "first", "again")):
                times, cpu = Samples(), Samples()
                times.add(run[place][0] for run in found)
                cpu.add(run[place][1] for run in found)
                cells[step] = times.median * 1e3
                if step == "first":
                    first.setdefault(name, {})[length] = times.median * 1e3
                    cells["CPU of the first"] = cpu.median * 1e3
            if length == setting.sizes.lengths[-1]:
                setting.notes.row(f"a read in a fresh process at {length:,} messages, ms", name, cells)
    last = setting.sizes.lengths[-1]
    view, whole, transcript, again, page = ([*first[name].values()] for name in (
        "everdelta, view of a compacted session", "everdelta, view", "everdelta, transcript",
        "everdelta, transcript read before", "everdelta, newest page",
    ))  # fmt: skip
    sqlite = first[SQLITE][last]
    return {
        "reading.view": Measurement(view[-1], sqlite),
        "reading.view.flat": Measurement(view[-1], view[0]),
        "reading.view.whole": Measurement(whole[-1], sqlite),
        "reading.transcript": Measurement(transcript[-1], sqlite),
        "reading.transcript.again": Measurement(again[-1], sqlite),
        "reading.page": Measurement(page[-1], sqlite),
    }


ALL, LONGEST = "SQLite reads all rows", "longest history, first read of a process"

CASE = Case(
    "reading",
    (
        Figure("reading.view", f"view of a compacted session, {LONGEST}", "ms", ALL, Target("<=", 0.3)),
        Figure("reading.view.flat", f"view of a compacted session, {LONGEST}", "ms", "the shortest", Target("<=", 1.5)),
        Figure("reading.view.whole", f"view of a session never compacted, {LONGEST}", "ms", ALL),
        Figure("reading.transcript", f"whole transcript, never read before, {LONGEST}", "ms", ALL, Target("<=", 0.9)),
        Figure(
            "reading.transcript.again",
            f"whole transcript, read by another process before, {LONGEST}",
            "ms",
            ALL,
            Target("<=", 0.9),
        ),
        Figure("reading.page", f"newest page of the transcript, {LONGEST}", "ms", ALL),
    ),
    _reading,
)
