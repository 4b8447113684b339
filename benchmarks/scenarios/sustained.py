"""Turns on end in one session: how long the slow ones take, and the process's memory.

The engine and SQLite each have a process of their own and take blocks of turns alternately, so that both meet one disk.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypedDict

import eventlog
from benchmarks.children import Worker
from benchmarks.engine import take_turn
from benchmarks.figures import Case, Figure, Measured, Setting
from benchmarks.scenarios.engine_sessions import season
from benchmarks.scenarios.spread import Spread, Taken, figures_of, measured, taken
from benchmarks.scenarios.sqlite_sessions import SQLITE, SqliteSessions
from benchmarks.workloads import Turn, turns

__all__ = ["CASES", "turning", "turning_in_sqlite"]

TIMES = 2
"""Turns on end: of those that other cases take, so many times."""
BLOCK = 10
"""Turns of one side before it is the other's turn."""
SLOWEST = (2, 10, 100, 1000)
"""One turn in so many is slower than the curve's point."""
SIDES = {"engine": "everdelta", "sqlite": "plain SQLite FULL"}


class _Told(TypedDict):
    """What a worker answers."""

    works: list[Taken]
    private: int
    """Bytes of memory that belong to the process alone."""
    resident: int
    """All of its memory, files that are mapped included."""


def _memory(name: str) -> int:
    """Bytes of this process's memory, as the system names them; 0 where it does not."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:")), 0)


def _answering(take: Callable[[Turn], object]) -> Callable[[int], _Told]:
    """Take so many turns, and tell."""
    at = 0

    def answer(count: int) -> _Told:
        nonlocal at
        work = turns(count, seed=1000 + at)
        at += count
        return {
            "works": [taken(partial(take, turn)) for turn in work],
            "private": _memory("RssAnon"),
            "resident": _memory("VmRSS"),
        }

    return answer


@contextmanager
def turning(path: str) -> Generator[Callable[[int], _Told]]:
    """In a worker: turns in one session, whose lease is kept."""
    with eventlog.open(path) as store:
        session = store.create_session(title="sustained")
        with session.lease():
            yield _answering(lambda turn: take_turn(session, turn))


@contextmanager
def turning_in_sqlite(path: str) -> Generator[Callable[[int], _Told]]:
    """In a worker: turns of two rows."""
    with SqliteSessions(Path(path)) as sqlite:
        yield _answering(lambda turn: sqlite.turn("s", turn))


def _on_end(setting: Setting) -> dict[str, Measured]:
    most = max(setting.sizes.turns * TIMES, 4)
    marks = sorted({0, most // 4, most // 2, *(most * step // 16 for step in range(1, 17)), most})
    works: dict[str, list[Taken]] = {name: [] for name in SIDES}
    private: dict[str, dict[int, float]] = {name: {} for name in SIDES}
    resident: dict[str, dict[int, float]] = {name: {} for name in SIDES}
    season(setting.directory / "engine", setting.sizes.turns)
    with (
        SqliteSessions(setting.directory / "sqlite") as sqlite,  # while it is open, the WAL stays
        Worker(turning, str(setting.directory / "engine")) as ours,
        Worker(turning_in_sqlite, str(setting.directory / "sqlite")) as theirs,
    ):
        sqlite.season()
        workers = {"engine": ours, "sqlite": theirs}
        done = 0
        for mark in marks:
            told: dict[str, _Told] = {}
            while True:
                count = min(BLOCK, mark - done)
                for name, worker in workers.items():
                    told[name] = worker.ask(count)
                    works[name] += told[name]["works"]
                done += count
                if done == mark:
                    break
            for name, it in told.items():
                private[name][mark], resident[name][mark] = it["private"] / 1e6, it["resident"] / 1e6
    for name, title in SIDES.items():
        spread = Spread.of(works[name])
        slowest = {one_in: spread.percentile(1 - 1 / one_in) * 1e3 for one_in in SLOWEST if one_in <= most}
        setting.notes.curve("sustained", title, slowest)
        setting.notes.curve("memory", title, private[name])
    setting.notes.curve("memory", "everdelta, with mapped files", resident["engine"])
    ours_at, theirs_at = private["engine"], private["sqlite"]
    return {
        **measured("sustained.turn", Spread.of(works["engine"]), Spread.of(works["sqlite"])),
        "sustained.memory.start": Measured(ours_at[0], theirs_at[0]),
        "sustained.memory.quarter": Measured(ours_at[most // 4], theirs_at[most // 4]),
        "sustained.memory.half": Measured(ours_at[most // 2], theirs_at[most // 2]),
        "sustained.memory.end": Measured(ours_at[most], theirs_at[most]),
        "sustained.memory.growth": Measured(ours_at[most], ours_at[most // 2]),
        "sustained.memory.mapped": Measured(resident["engine"][most], resident["engine"][0]),
    }


OWN = "memory of the process's own"
SQLITE_MEMORY = "a process with SQLite FULL"

CASES = (
    Case(
        "sustained",
        (
            *figures_of("sustained.turn", "durable turn of 400 on end (4,000 with --full)", SQLITE),
            Figure("sustained.memory.start", f"{OWN}, before the first turn", "MB", SQLITE_MEMORY),
            Figure("sustained.memory.quarter", f"{OWN}, after a quarter of the turns", "MB", SQLITE_MEMORY),
            Figure("sustained.memory.half", f"{OWN}, after half of the turns", "MB", SQLITE_MEMORY),
            Figure("sustained.memory.end", f"{OWN}, after all turns", "MB", SQLITE_MEMORY),
            Figure("sustained.memory.growth", f"{OWN}, after all turns", "MB", "after half of them"),
            Figure(
                "sustained.memory.mapped",
                "resident memory with mapped files, after all turns",
                "MB",
                "before the first",
            ),
        ),
        _on_end,
    ),
)
