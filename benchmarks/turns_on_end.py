"""Turns on end: what the slow ones take, when folding and checkpoints come between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice

from benchmarks.figures import Case, Figure, Measured, Setting, Target
from benchmarks.measure import Spent, in_turn, spent
from benchmarks.turn_sides import SIDES, Side
from benchmarks.workloads import Turn, turns

__all__ = ["CASES"]

BLOCK = 100
"""Turns of a side before the next side has its own: so many that most of its background work falls among them."""
MEASURED = ("readme", "facts", "rows")
SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


def _on_end(setting: Setting) -> dict[str, Measured]:
    """Blocks of turns of each side, in turn."""
    count = setting.sizes.sustained
    block = min(BLOCK, count)
    with ExitStack() as stack:
        sides: dict[str, Callable[[], list[Spent]]] = {}
        for name in MEASURED:
            place = setting.directory / name
            place.mkdir()
            side = SIDES[name].make(place)
            stack.callback(side.close)
            sides[name] = _taking(side, iter(turns(count + block)), block)
        samples = in_turn(sides, count // block)
    found = {
        name: {share: taken.percentile(part) * 1e3 for share, part in SHARES.items()} | {"max": max(taken.times) * 1e3}
        for name, taken in samples.items()
    }
    for name, taken in samples.items():
        cells = {f"{share} ms": value for share, value in found[name].items()}
        cells["CPU ms"] = sum(taken.cpu) / len(taken.cpu) * 1e3
        setting.notes.row(f"{count:,} turns on end", SIDES[name].title, cells, SIDES[name].note)
    return {
        f"turn.sustained.{share}": Measured(value, found["facts"][share]) for share, value in found["readme"].items()
    }


def _taking(side: Side, work: Iterator[Turn], block: int) -> Callable[[], list[Spent]]:
    def some() -> list[Spent]:
        return [spent(partial(side.turn, turn)) for turn in islice(work, block)]

    return some


README = "turns on end as the README writes them, pipelined"
FACTS = "SQLite FULL, same facts"

CASES = (
    Case(
        "turn.sustained",
        (
            Figure("turn.sustained.p50", f"{README}, median", "ms", FACTS),
            Figure("turn.sustained.p99", f"{README}, 99 of 100 below", "ms", FACTS, Target("<=", 1)),
            Figure("turn.sustained.p99.9", f"{README}, 999 of 1,000 below", "ms", FACTS),
            Figure("turn.sustained.max", f"{README}, the slowest", "ms", FACTS),
        ),
        _on_end,
    ),
)
