"""One durable turn in each of many sessions, round and round, beside turns in one.

A server either holds the handle and lease of every session, or begins anew for each request. Both
are measured, each with sessions of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import cycle
from typing import TypeVar

import eventlog
from benchmarks.engine import take_turn
from benchmarks.figures import Case, Measurement, Setting
from benchmarks.history import begun, seasoned, small_turns
from benchmarks.measure import Timing, in_turn, spent
from benchmarks.scenarios.latency import add_rows, beside, figures_of
from benchmarks.scenarios.sqlite_sessions import SQLITE, SqliteSessions
from benchmarks.workloads import Turn, turns

__all__ = ["CASES"]

HISTORY = 4
"""Turns of each session beforehand."""
SHARE = 10
"""Sessions listed elsewhere for each session here."""
WARM_UP = 3
T = TypeVar("T")
SIDES = {"kept": "everdelta, leases kept", "anew": "everdelta, a lease for each turn", "sqlite": "plain SQLite FULL"}


def _in_ring(ring: Sequence[T], count: int, work_on: Callable[[T, Turn], object]) -> Callable[[], list[Timing]]:
    """Return work that takes a turn in the next session each time."""
    works = zip(cycle(ring), turns(count, seed=12), strict=False)

    def side() -> list[Timing]:
        one, turn = next(works)
        return [spent(lambda: work_on(one, turn))]

    return side


def _round_and_round(setting: Setting) -> dict[str, Measurement]:
    most = max(setting.sizes.sessions // SHARE, 4)
    counts = (1, *sorted({most // 20, most // 5} - {0, 1}), most)
    path = seasoned(setting.directory / "store")
    history = list(small_turns(HISTORY))
    with eventlog.open(path) as store, SqliteSessions(setting.directory / "sqlite") as sqlite:
        sqlite.fill()
        held, anew = ([begun(store, history) for _ in range(most)] for _ in range(2))
        for name in held:
            sqlite.turns(history, name)

        def take_anew(name: str, turn: Turn) -> None:
            handle = store.session(name)
            with handle.lease():
                take_turn(handle, turn)

        def take_row(name: str, turn: Turn) -> None:
            sqlite.turn(turn, name)

        with ExitStack() as leases:
            handles = [store.session(name) for name in held]
            for handle in handles:
                leases.enter_context(handle.lease())
            sides: dict[str, Callable[[], list[Timing]]] = {}
            for count in counts:
                sides[f"kept {count}"] = _in_ring(handles[:count], most + WARM_UP, take_turn)
                sides[f"anew {count}"] = _in_ring(anew[:count], most + WARM_UP, take_anew)
                sides[f"sqlite {count}"] = _in_ring(held[:count], most + WARM_UP, take_row)
            samples = in_turn(sides, most, warm_up=WARM_UP)
    for count in (1, most):
        rows = {title: samples[f"{name} {count}"] for name, title in SIDES.items()}
        add_rows(setting.notes, f"a turn, {count:,} sessions in turn", rows)
    for name, title in SIDES.items():
        setting.notes.curve("sessions", title, {count: samples[f"{name} {count}"].median * 1e3 for count in counts})
    return {
        **beside("many.kept", samples[f"kept {most}"], samples[f"sqlite {most}"]),
        **beside("many.anew", samples[f"anew {most}"], samples[f"sqlite {most}"]),
        **beside("many.kept.flat", samples[f"kept {most}"], samples["kept 1"]),
        **beside("many.anew.flat", samples[f"anew {most}"], samples["anew 1"]),
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
