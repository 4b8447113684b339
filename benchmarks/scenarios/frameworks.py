"""Conversations of agent frameworks beside the frameworks' own stores, turn by turn.

A turn is a question, a call, its result and the answer: four messages. Where a framework has only a
store in memory, the other side is the JSON file that a program would write itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures import Case, Measurement, Missing, Setting
from benchmarks.measure import Samples, Timing, disk_bytes, in_turn, spent, written
from benchmarks.scenarios.framework_sides import SIDES, Framework, Talk
from benchmarks.workloads import turns

__all__ = ["CASES"]

LENGTHS = (1_000, 5_000)
"""Messages of a conversation."""
MEASURED = 50
"""Turns at the end of a conversation that are timed, and whose bytes are counted."""
TABLE = "a conversation of an agent framework"


class _Grown(NamedTuple):
    """Measurements at the end of a conversation that grew to a length."""

    turns: Samples
    written: float
    """Bytes that a turn wrote."""
    kept: int
    """Bytes in the directory of the closed store."""


def _grown(make: Callable[[Path], Talk], path: Path, length: int) -> _Grown:
    """Add turns; the last ones are measured."""
    path.mkdir(parents=True)
    talk, work = make(path), turns(length // 4, seed=18)
    measured = max(min(MEASURED, length // 8), 1)
    for turn in work[:-measured]:
        talk.turn(turn)
    before, samples = written(), Samples()
    samples.add([spent(partial(talk.turn, turn)) for turn in work[-measured:]])
    wrote = (written() - before) / measured
    talk.close()
    return _Grown(samples, wrote, disk_bytes(path))


def _framework(setting: Setting, framework: Framework) -> None:
    for number, most in enumerate(LENGTHS):
        length = min(most, max(setting.sizes.history, 8))
        paths = {side: setting.directory / f"{framework.name} {number} {side}" for side in framework.sides}
        grown = {side: _grown(make, paths[side], length) for side, make in framework.sides.items()}
        sides = {side: partial(_load, make, paths[side]) for side, make in framework.sides.items()}
        loads = in_turn(sides, max(setting.sizes.rounds, 1) * 3)
        cells = {
            side: {
                "KB kept": grown[side].kept / 1e3,
                "KB a turn writes": grown[side].written / 1e3,
                "turn ms": grown[side].turns.median * 1e3,
                "turn CPU ms": grown[side].turns.median_cpu * 1e3,
                "load ms": loads[side].median * 1e3,
                "load CPU ms": loads[side].median_cpu * 1e3,
            }
            for side in framework.sides
        }
        ours, *others = framework.sides
        for side, values in cells.items():
            setting.notes.row(TABLE, f"{framework.name}, {length:,} messages: {side}", dict(values))
        for side in others:
            ratios = {name: value / cells[side][name] for name, value in cells[ours].items() if cells[side][name]}
            setting.notes.row(TABLE, f"{framework.name}, {length:,} messages: ratio to {side}", dict(ratios))


def _load(make: Callable[[Path], Talk], path: Path) -> list[Timing]:
    """Open a conversation and read all of it, as a new process does; the store is open."""
    talk = make(path)
    took = spent(talk.load)
    talk.close()
    return [took]


def _run(setting: Setting) -> dict[str, Measurement]:
    for name, find in SIDES.items():
        try:
            framework = find()
        except ImportError as error:
            setting.notes.miss(Missing(name, "pip install 'everdelta[frameworks]'", str(error)))
            continue
        _framework(setting, framework)
    return {}


CASES = (Case("frameworks", (), _run),)
