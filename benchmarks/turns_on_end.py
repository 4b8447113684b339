"""Consecutive turns: the slow ones, and the memory of the process that takes them.

Each side has a process of its own. The sides take blocks of turns alternately, so that all meet one
disk; folding and checkpoints happen between the turns.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TypedDict

from benchmarks.children import Worker
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import Samples, Timing, in_turn, of_process, spent
from benchmarks.turn_sides import SIDES
from benchmarks.workloads import turns

__all__ = ["CASES", "taking"]

BLOCK = 100
"""Turns of a side before the next side goes on.

Enough that most of its background work happens among them.
"""
MEASURED = ("readme", "facts", "rows")
SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
SLOWEST = (2, 10, 100, 1000)
"""Each point of the curve is exceeded by one turn in this many."""
POINTS = 8
"""Approximate number of points of a memory curve."""


class _WorkerAnswer(TypedDict):
    """Answer of a worker."""

    works: list[Timing]
    private: int
    """Bytes of memory that belong to the process alone."""
    resident: int
    """Bytes of all its memory, mapped files included."""


@contextmanager
def taking(name: str, directory: str) -> Generator[Callable[[int], _WorkerAnswer]]:
    """Take turns of one side in a worker, as many as each question says."""
    side = SIDES[name].make(Path(directory))
    done = 0

    def answer(count: int) -> _WorkerAnswer:
        nonlocal done
        work = turns(count, seed=1000 + done)
        done += count
        return {
            "works": [spent(partial(side.turn, turn)) for turn in work],
            "private": of_process("status", "RssAnon") << 10,
            "resident": of_process("status", "VmRSS") << 10,
        }

    try:
        yield answer
    finally:
        side.close()


class _SideWorker:
    """A side's worker, and its memory in MB after each block of turns."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._done = 0
        self.private: dict[int, float] = {}
        self.resident: dict[int, float] = {}
        self.more(0)

    def more(self, count: int) -> list[Timing]:
        """Let the worker take `count` turns."""
        answer: _WorkerAnswer = self._worker.ask(count)
        self._done += count
        self.private[self._done], self.resident[self._done] = answer["private"] / 1e6, answer["resident"] / 1e6
        return [Timing(*work) for work in answer["works"]]


def _on_end(setting: Setting) -> dict[str, Measurement]:
    """Measure blocks of turns of each side in turn."""
    count = setting.sizes.sustained
    block = min(BLOCK, count // 4)
    with ExitStack() as stack:
        sides: dict[str, _SideWorker] = {}
        for name in MEASURED:
            place = setting.directory / name
            place.mkdir()
            sides[name] = _SideWorker(stack.enter_context(Worker(taking, name, str(place))))
        samples = in_turn({name: partial(side.more, block) for name, side in sides.items()}, count // block)
    for name, side in sides.items():
        _add_rows(setting, name, samples[name], side)
    ours, theirs = sides["readme"], sides["facts"]
    marks = sorted(ours.private)
    first, half, last = marks[0], marks[len(marks) // 2], marks[-1]
    shares, against = _shares(samples["readme"]), _shares(samples["facts"])
    return {f"turn.sustained.{share}": Measurement(shares[share], against[share]) for share in shares} | {
        "turn.sustained.memory": Measurement(ours.private[last], theirs.private[last]),
        "turn.sustained.memory.first": Measurement(ours.private[first], theirs.private[first]),
        "turn.sustained.memory.growth": Measurement(ours.private[last], ours.private[half]),
        "turn.sustained.memory.mapped": Measurement(ours.resident[last], ours.resident[first]),
    }


def _shares(samples: Samples) -> dict[str, float]:
    """Return milliseconds that these shares of the turns do not exceed, and the slowest."""
    return {name: samples.percentile(part) * 1e3 for name, part in SHARES.items()} | {"max": max(samples.times) * 1e3}


def _add_rows(setting: Setting, name: str, samples: Samples, side: _SideWorker) -> None:
    """Add a side's row and its two curves."""
    kind, count = SIDES[name], len(samples.times)
    cells = {f"{share} ms": value for share, value in _shares(samples).items()}
    cells["CPU ms"] = sum(samples.cpu) / count * 1e3
    cells["MB at first"], cells["MB at last"] = side.private[0], side.private[max(side.private)]
    setting.notes.row(f"{setting.sizes.sustained:,} turns on end", kind.title, cells, kind.note)
    slowest = {one_in: samples.percentile(1 - 1 / one_in) * 1e3 for one_in in SLOWEST if one_in <= count}
    setting.notes.curve("sustained", kind.title, slowest)
    marks = sorted(side.private)
    shown = sorted({*marks[:: max(len(marks) // POINTS, 1)], marks[-1]})
    setting.notes.curve("memory", kind.title, {at: side.private[at] for at in shown})
    if name == "readme":
        setting.notes.curve("memory", f"{kind.title}, with mapped files", {at: side.resident[at] for at in shown})


README = "turns on end as the README writes them, pipelined"
FACTS = "SQLite FULL, same facts"
OWN = "memory of the process's own"
THEIR = f"a process with {FACTS}"

CASES = (
    Case(
        "turn.sustained",
        (
            Figure("turn.sustained.p50", f"{README}, median", "ms", FACTS),
            Figure("turn.sustained.p99", f"{README}, 99 of 100 below", "ms", FACTS, Target("<=", 1)),
            Figure("turn.sustained.p99.9", f"{README}, 999 of 1,000 below", "ms", FACTS),
            Figure("turn.sustained.max", f"{README}, the slowest", "ms", FACTS),
            Figure("turn.sustained.memory", f"{OWN}, after all turns", "MB", THEIR),
            Figure("turn.sustained.memory.first", f"{OWN}, before the first turn", "MB", THEIR),
            Figure("turn.sustained.memory.growth", f"{OWN}, after all turns", "MB", "after half of them"),
            Figure(
                "turn.sustained.memory.mapped",
                "resident memory with mapped files, after all turns",
                "MB",
                "before the first",
            ),
        ),
        _on_end,
    ),
)
