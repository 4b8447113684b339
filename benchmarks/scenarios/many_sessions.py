"""One durable turn in each of many sessions, round and round, against turns in one.

A server either keeps the handle and the lease of every session, or begins anew for each request: both are measured, each with
sessions of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import cycle
from typing import TypeVar

import eventlog
from benchmarks.engine import take_turn
from benchmarks.figures import Case, Measured, Setting
from benchmarks.history import small_turns
from benchmarks.scenarios.engine_sessions import begun_session, season
from benchmarks.scenarios.spread import Taken, figures_of, measured, spreads, taken
from benchmarks.scenarios.sqlite_sessions import SQLITE, SqliteSessions
from benchmarks.workloads import Turn, turns

__all__ = ["CASES"]

HISTORY = 4
"""Turns of each session before."""
SHARE = 10
"""One session for so many of those that are listed elsewhere."""
WARM_UP = 3
T = TypeVar("T")
SIDES = {"kept": "everdelta, leases kept", "anew": "everdelta, a lease for each turn", "sqlite": "plain SQLite FULL"}


def _in_ring(ring: Sequence[T], count: int, take: Callable[[T, Turn], object]) -> Callable[[], list[Taken]]:
    """A turn in the next session each time."""
    works = zip(cycle(ring), turns(count, seed=12), strict=False)

    def side() -> list[Taken]:
        one, turn = next(works)
        return [taken(lambda: take(one, turn))]

    return side


def _round_and_round(setting: Setting) -> dict[str, Measured]:
    most = max(setting.sizes.sessions // SHARE, 4)
    counts = (1, *sorted({most // 20, most // 5} - {0, 1}), most)
    path = setting.directory / "store"
    season(path, setting.sizes.turns)
    history = list(small_turns(HISTORY))
    with eventlog.open(path) as store, SqliteSessions(setting.directory / "sqlite") as sqlite:
        sqlite.season()
        kept, anew = ([begun_session(store, history).id for _ in range(most)] for _ in range(2))
        for name in kept:
            sqlite.turns(name, history)

        def take_anew(name: str, turn: Turn) -> None:
            handle = store.session(name)
            with handle.lease():
                take_turn(handle, turn)

        with ExitStack() as leases:
            handles = [store.session(name) for name in kept]
            for handle in handles:
                leases.enter_context(handle.lease())
            sides: dict[str, Callable[[], list[Taken]]] = {}
            for count in counts:
                sides[f"kept {count}"] = _in_ring(handles[:count], most + WARM_UP, take_turn)
                sides[f"anew {count}"] = _in_ring(anew[:count], most + WARM_UP, take_anew)
                sides[f"sqlite {count}"] = _in_ring(kept[:count], most + WARM_UP, sqlite.turn)
            found = spreads(sides, most, warm_up=WARM_UP)
    for name, title in SIDES.items():
        setting.notes.curve("sessions", title, {count: found[f"{name} {count}"].median * 1e3 for count in counts})
    return {
        **measured("many.kept", found[f"kept {most}"], found[f"sqlite {most}"]),
        **measured("many.anew", found[f"anew {most}"], found[f"sqlite {most}"]),
        **measured("many.kept.flat", found[f"kept {most}"], found["kept 1"]),
        **measured("many.anew.flat", found[f"anew {most}"], found["anew 1"]),
    }


MANY = "(1,000 with --full)"
KEPT = f"durable turn, 200 sessions in turn {MANY}, leases kept"
ANEW = f"durable turn, 200 sessions in turn {MANY}, handle and lease anew"

CASES = (
    Case(
        "many",
        (
            *figures_of("many.kept", KEPT, SQLITE),
            *figures_of("many.anew", ANEW, SQLITE),
            *figures_of("many.kept.flat", KEPT, "in one session"),
            *figures_of("many.anew.flat", ANEW, "in one session"),
        ),
        _round_and_round,
    ),
)
