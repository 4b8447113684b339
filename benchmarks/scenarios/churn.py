"""Sessions that are filled, erased, vacuumed and made again.

Measured are what is left on the disk, and what a turn costs after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import eventlog
from benchmarks.engine import take_turn
from benchmarks.figures import Case, Figure, Measured, Setting, Target
from benchmarks.measure import kept
from benchmarks.scenarios.spread import Spread, Taken, figures_of, measured, taken
from benchmarks.scenarios.sqlite_sessions import SQLITE, SqliteSessions
from benchmarks.targets.space import free_pages
from benchmarks.workloads import Turn, turns

__all__ = ["CASES"]

CYCLES = 5
TURNS = 50
"""Turns of a session."""


def _cycle(path: Path, sessions: int, work: Sequence[Turn]) -> tuple[list[Taken], int]:
    """Fill sessions, erase them, vacuum; returns the turns, and the bytes before erasing."""
    works: list[Taken] = []
    with eventlog.open(path) as store:
        names: list[str] = []
        for _ in range(sessions):
            session = store.create_session(title="churn")
            names.append(session.id)
            with session.lease():
                works += [taken(partial(take_turn, session, turn)) for turn in work]
        full = kept(path)
        for name in names:
            store.erase(name)
        store.vacuum()
    return works, full


def _sqlite_cycle(sqlite: SqliteSessions, sessions: int, work: Sequence[Turn]) -> list[Taken]:
    works: list[Taken] = []
    names = [f"session {number}" for number in range(sessions)]
    for name in names:
        works += [taken(partial(sqlite.turn, name, turn)) for turn in work]
    for name in names:
        sqlite.erase(name)
    sqlite.vacuum()
    return works


def _cycles(setting: Setting) -> dict[str, Measured]:
    sessions = max(setting.sizes.history // TURNS // CYCLES, 1)
    path, work = setting.directory / "engine", turns(TURNS, seed=14)
    ours: list[Spread] = []
    theirs: list[Spread] = []
    full: dict[int, float] = {}
    left: dict[int, float] = {}
    pages = [(0, 0)]
    with SqliteSessions(setting.directory / "sqlite") as sqlite:
        sqlite.season()
        for number in range(1, CYCLES + 1):
            works, size = _cycle(path, sessions, work)
            ours.append(Spread.of(works))
            theirs.append(Spread.of(_sqlite_cycle(sqlite, sessions, work)))
            full[number], left[number] = size / 1e6, kept(path) / 1e6
            pages.append(free_pages(path))
    setting.notes.curve("churn", "before erasing", full)
    setting.notes.curve("churn", "after vacuuming", left)
    free, every = pages[-1]
    return {
        **measured("churn.turn", ours[-1], ours[0]),
        **measured("churn.turn.sqlite", ours[-1], theirs[-1]),
        "churn.full": Measured(full[CYCLES], full[1]),
        "churn.left": Measured(left[CYCLES], left[1]),
        "churn.erased": Measured(max(left[CYCLES] - left[1], 0.0) * 1e6 / (sessions * (CYCLES - 1))),
        "churn.free": Measured(max(free, 0), every),
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
