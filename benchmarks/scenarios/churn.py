"""Fill sessions, erase them, vacuum, and fill again.

Measured are the bytes left on the disk, and a turn afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import eventlog
from benchmarks.engine import take_turn
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import Samples, Timing, disk_bytes, spent
from benchmarks.scenarios.latency import add_rows, beside, figures_of
from benchmarks.scenarios.sqlite_sessions import SQLITE, SqliteSessions
from benchmarks.targets.space import free_pages
from benchmarks.workloads import Turn, turns

__all__ = ["CASES"]

CYCLES = 5
TURNS = 50
"""Turns of a session."""


def _cycle(path: Path, sessions: int, work: Sequence[Turn]) -> tuple[list[Timing], int]:
    """Fill sessions, erase them, vacuum; return the turns, and the bytes before erasing."""
    works: list[Timing] = []
    with eventlog.open(path) as store:
        names: list[str] = []
        for _ in range(sessions):
            session = store.create_session(title="churn")
            names.append(session.id)
            with session.lease():
                works += [spent(partial(take_turn, session, turn)) for turn in work]
        full = disk_bytes(path)
        for name in names:
            store.erase(name)
        store.vacuum()
    return works, full


def _sqlite_cycle(sqlite: SqliteSessions, sessions: int, work: Sequence[Turn]) -> list[Timing]:
    works: list[Timing] = []
    names = [f"session {number}" for number in range(sessions)]
    for name in names:
        works += [spent(partial(sqlite.turn, turn, name)) for turn in work]
    for name in names:
        sqlite.erase(name)
    sqlite.vacuum()
    return works


def _cycles(setting: Setting) -> dict[str, Measurement]:
    sessions = max(setting.sizes.history // TURNS // CYCLES, 1)
    path, work = setting.directory / "engine", turns(TURNS, seed=14)
    ours, theirs = ([Samples() for _ in range(CYCLES + 1)] for _ in range(2))
    full: dict[int, float] = {}
    vacuumed: dict[int, float] = {}
    with SqliteSessions(setting.directory / "sqlite") as sqlite:
        sqlite.fill()
        for number in range(1, CYCLES + 1):
            works, size = _cycle(path, sessions, work)
            ours[number].add(works)
            theirs[number].add(_sqlite_cycle(sqlite, sessions, work))
            full[number], vacuumed[number] = size / 1e6, disk_bytes(path) / 1e6
    setting.notes.curve("churn", "before erasing", full)
    setting.notes.curve("churn", "after vacuuming", vacuumed)
    free, every = free_pages(path)
    sides = {"everdelta": ours, SQLITE: theirs}
    for number in (1, CYCLES):
        rows = {side: cycles[number] for side, cycles in sides.items()}
        add_rows(setting.notes, f"a turn in cycle {number} of fill, erase, vacuum", rows)
    return {
        **beside("churn.turn", ours[-1], ours[1]),
        **beside("churn.turn.sqlite", ours[-1], theirs[-1]),
        "churn.full": Measurement(full[CYCLES], full[1]),
        "churn.left": Measurement(vacuumed[CYCLES], vacuumed[1]),
        "churn.erased": Measurement(max(vacuumed[CYCLES] - vacuumed[1], 0.0) * 1e6 / (sessions * (CYCLES - 1))),
        "churn.free": Measurement(max(free, 0), every),
    }


CASES = (
    Case(
        "churn",
        (
            *figures_of(
                "churn.turn",
                f"durable turn in cycle {CYCLES} of fill, erase, vacuum",
                "in the first cycle",
                slow=Target("<=", 1.5),
            ),
            *figures_of("churn.turn.sqlite", f"durable turn in cycle {CYCLES} of fill, erase, vacuum", SQLITE),
            Figure(
                "churn.full", f"the store before erasing, in cycle {CYCLES}", "MB", "in the first", Target("<=", 1.1)
            ),
            Figure("churn.left", "the store after vacuuming", "MB", "in the first cycle"),
            Figure(
                "churn.erased", "what stays of an erased session: its head, and its id, which is not used again", "B"
            ),
            Figure("churn.free", "free pages after the last vacuum", "pages", "all pages"),
        ),
        _cycles,
    ),
)
