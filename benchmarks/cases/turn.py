"""A durable turn by the calls of the pages, beside SQLite with as many waits for the disk.

SQLite is in steady state and stores as much or less. Latencies are of turns in one process, the
sides in turn; syncs and bytes of a process that does nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

from benchmarks.alone import alone, tracer
from benchmarks.engine import WAITS
from benchmarks.figures import Case, Figure, Measurement, Missing, Setting, Target
from benchmarks.measure import Samples, Timing, in_turn, spent
from benchmarks.turn_sides import SIDES, Side
from benchmarks.workloads import Turn, turns

WARM_UP = 20
TABLE = "a durable turn"


def _taking(side: Side, work: Iterator[Turn]) -> Callable[[], list[Timing]]:
    return lambda: [spent(partial(side.turn, next(work)))]


def _turns(setting: Setting) -> dict[str, Measurement | None]:
    folder = setting.directory / "turns"
    count = setting.sizes.turns
    with ExitStack() as stack:
        sides: dict[str, Callable[[], list[Timing]]] = {}
        for name, kind in SIDES.items():
            place = folder / name
            place.mkdir(parents=True)
            side = kind.make(place)
            stack.callback(side.close)
            sides[name] = _taking(side, iter(turns(count + WARM_UP)))
        samples = in_turn(sides, count, warm_up=WARM_UP)
    costs = {name: alone(name, folder / f"{name}-alone", setting.sizes.counted) for name in SIDES}
    for name, kind in SIDES.items():
        cost = costs[name]
        cells = {
            **samples[name].columns(),
            "CPU in all": cost.cpu * 1e3,
            "syncs": cost.syncs,
            "KB written": cost.written / 1e3,
            "KB kept": cost.kept / 1e3,
        }
        setting.notes.row(TABLE, kind.title, cells, kind.note)
    setting.notes.remark("ms, CPU ms", "medians, the sides in turn in one process; CPU is that of all its threads")
    if not tracer():
        setting.notes.miss(Missing("syncs", "apt-get install strace", "no strace that may trace a process"))
    setting.notes.remark(
        "CPU in all, syncs, KB",
        f"the mean of {setting.sizes.counted:,} turns of a process that does nothing else, with folding and checkpoints; syncs as strace counts them",
    )

    def median(name: str, against: str) -> Measurement:
        return Measurement(samples[name].median * 1e3, samples[against].median * 1e3)

    def syncs(name: str, waits: int) -> Measurement | None:
        counted = costs[name].syncs
        return None if counted is None else Measurement(counted, waits)

    def slow(of: Samples) -> float:
        return of.percentile(0.99) * 1e3

    cpu = Measurement(samples["turn"].median_cpu * 1e3, samples["facts.waits"].median_cpu * 1e3)
    return {
        "turn.session": median("turn", "facts.waits"),
        "turn.session.p99": Measurement(slow(samples["turn"]), slow(samples["facts.waits"])),
        "turn.session.cpu": cpu,
        "turn.quickstart": median("waits", "facts.waits"),
        "turn.piped": median("piped", "facts"),
        "turn.piped.rows": median("piped", "rows"),
        "turn.held": median("held", "facts"),
        "turn.held.raw": median("held", "raw"),
        "turn.written": Measurement(costs["turn"].written / 1e3, costs["facts.waits"].written / 1e3),
        "turn.syncs": syncs("turn", WAITS),
        "turn.syncs.piped": syncs("piped", 1),
    }


FACTS, FACTS_WAITS = "SQLite FULL, same facts", f"SQLite FULL, same facts, {WAITS} transactions"

CASE = Case(
    "turn",
    (
        Figure("turn.session", f"turn by session.turn, {WAITS} waits", "ms", FACTS_WAITS, Target("<=", 1.1)),
        Figure("turn.session.p99", "turn by session.turn, 99 of 100 below", "ms", FACTS_WAITS, Target("<=", 1.5)),
        Figure("turn.session.cpu", "turn by session.turn, processor time", "ms", FACTS_WAITS),
        Figure("turn.quickstart", f"turn by user and reply, {WAITS} waits", "ms", FACTS_WAITS, Target("<=", 1.1)),
        Figure("turn.piped", "turn in a pipeline, its lease included", "ms", FACTS, Target("<=", 1.0)),
        Figure(
            "turn.piped.rows",
            "turn in a pipeline, its lease included",
            "ms",
            "SQLite FULL, two rows",
            Target("<=", 1.6),
        ),
        Figure("turn.held", "turn in a pipeline, lease held", "ms", FACTS),
        Figure("turn.held.raw", "turn in a pipeline, lease held", "ms", "one pwrite and fdatasync", Target("<=", 1.5)),
        Figure("turn.written", "bytes written by session.turn, folding included", "KB", FACTS_WAITS),
        Figure("turn.syncs", "syncs of session.turn", "", f"its {WAITS} waits", Target("<=", 1.1)),
        Figure("turn.syncs.piped", "syncs of a pipeline", "", "its wait", Target("<=", 1.1)),
    ),
    _turns,
)
