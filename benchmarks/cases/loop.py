"""The loop of the pages while the history grows: `session.turn`, views, forms, replies.

A turn has two model calls, of which the first calls a tool. SQLite stores question, call, result
and answer in a transaction each and reads all rows before either call. The first turn of each
length comes right after the store was opened; it has columns of its own.
"""

from __future__ import annotations

import gc
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

import eventlog
from benchmarks.engine import filled, loop_turn, take_turn
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import timed
from benchmarks.sqlite_turns import FourRows
from benchmarks.workloads import Turn, turns

OURS, THEIRS = "everdelta", "SQLite FULL, four rows, all read"


class _Took(NamedTuple):
    """Milliseconds of one turn: its two views, the requests' forms, and all of it."""

    views: float
    forms: float
    turn: float


def _ours(session: eventlog.Session, turn: Turn) -> _Took:
    start = perf_counter()
    took = loop_turn(session, turn)
    return _Took(took.views * 1e3, took.forms * 1e3, (perf_counter() - start) * 1e3)


def _theirs(rows: FourRows, turn: Turn) -> _Took:
    start = perf_counter()
    rows.ask(turn)
    reads = timed(rows.load)
    rows.run(turn)
    reads += timed(rows.load)
    rows.answer(turn)
    return _Took(reads * 1e3, 0.0, (perf_counter() - start) * 1e3)


def _continued(path: Path, name: str, rows: FourRows, grow: int, rounds: int) -> dict[str, list[_Took]]:
    """Let both histories grow, open the store anew, and take turns in both."""
    more = turns(grow, seed=grow)
    with eventlog.open(path) as store:
        session = store.session(name)
        with session.lease():
            for turn in more:
                take_turn(session, turn)
    for turn in more:
        rows.turn(turn)
    took: dict[str, list[_Took]] = {OURS: [], THEIRS: []}
    gc.collect()
    with eventlog.open(path) as store:
        session = store.session(name)
        for turn in turns(rounds, seed=grow + 1):
            took[OURS].append(_ours(session, turn))
            took[THEIRS].append(_theirs(rows, turn))
    return took


def _looping(setting: Setting) -> dict[str, Measurement]:
    lengths, rounds = setting.sizes.lengths, max(setting.sizes.turns // 4, 2)
    path, at = setting.directory / "loop", 0
    with eventlog.open(path) as store:
        name = filled(store, ()).id
    views: dict[str, dict[int, float]] = {OURS: {}, THEIRS: {}}
    whole: dict[str, dict[int, float]] = {OURS: {}, THEIRS: {}}
    opened: dict[str, float] = {}
    with closing(FourRows(setting.directory / "loop.db")) as rows:
        rows.fill()
        rows.connection.execute("DELETE FROM message")
        for length in lengths:
            took = _continued(path, name, rows, max(length - at, 2) // 2, rounds)
            at = length + 2 * rounds
            for side, times in took.items():
                later = times[1:]
                views[side][length] = median(each.views for each in later)
                whole[side][length] = median(each.turn for each in later)
                cells = {
                    "first views": times[0].views,
                    "views": views[side][length],
                    "forms": median(each.forms for each in later),
                    "first turn": times[0].turn,
                    "turn": whole[side][length],
                }
                opened[side] = times[0].views
                if length == lengths[-1]:
                    setting.notes.row(f"the loop at {length:,} messages, ms", side, cells)
    setting.notes.remark(
        "first views, first turn", "of a store that was just opened; a turn has two views, or reads of all rows"
    )
    first, last = lengths[0], lengths[-1]
    return {
        "loop.view": Measurement(views[OURS][last], views[THEIRS][last]),
        "loop.view.flat": Measurement(views[OURS][last], views[OURS][first]),
        "loop.turn": Measurement(whole[OURS][last], whole[THEIRS][last]),
        "loop.first": Measurement(opened[OURS], opened[THEIRS]),
    }


SHORT, READS = "at the shortest history", "SQLite reads all rows"

CASE = Case(
    "loop",
    (
        Figure(
            "loop.view",
            "ModelView.of before the two model calls of a turn, longest history",
            "ms",
            READS,
            Target("<=", 0.1),
        ),
        Figure(
            "loop.view.flat",
            "ModelView.of before the two model calls of a turn, longest history",
            "ms",
            SHORT,
            Target("<=", 3),
        ),
        Figure("loop.turn", "turn of the loop, longest history", "ms", THEIRS, Target("<=", 1)),
        Figure("loop.first", "the same, first turn of a store just opened", "ms", READS),
    ),
    _looping,
)
