"""A durable turn: question, answer in deltas, a tool and its result.

Measured as the README writes it, which takes and releases the lease, and with the lease held; with
its waits, and with one wait at its end. Beside it SQLite in steady state, which stores as much or
less, in as many transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import eventlog
from benchmarks.alone import alone, tracer
from benchmarks.engine import WAITS, opened, take_turn, with_history
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import Samples, Timing, in_turn, spent
from benchmarks.turn_sides import SIDES, Side
from benchmarks.workloads import Turn, turns

__all__ = ["CASES"]

WARM_UP = 20
SHORT_HISTORY = 10
TABLE = "a durable turn"


def _beside(setting: Setting) -> dict[str, Measurement]:
    """Measure one turn of each side after the other, so that noise meets all sides alike.

    Background work is measured afterwards, each side alone.
    """
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
        side_samples, cost = samples[name], costs[name]
        cells = {
            **side_samples.columns(),
            "CPU in all": cost.cpu * 1e3,
            "syncs": cost.syncs,
            "KB written": cost.written / 1e3,
            "KB kept": cost.kept / 1e3,
        }
        setting.notes.row(TABLE, kind.title, cells, kind.note)
    setting.notes.remark("ms, CPU ms", "medians, the sides in turn in one process; CPU is that of all its threads")
    setting.notes.remark(
        "CPU in all, syncs, KB",
        f"the mean of {setting.sizes.counted:,} turns of a process that does nothing else, with folding and checkpoints; "
        + ("syncs as strace counts them" if tracer() else "syncs are not counted: there is no strace that may trace"),
    )
    return {
        "turn.facts": _ratio(samples, "readme", "facts"),
        "turn.rows": _ratio(samples, "readme", "rows"),
        "turn.deltas": _ratio(samples, "readme", "deltas"),
        "turn.waits": _ratio(samples, "readme.waits", "facts.waits"),
        "turn.held": _ratio(samples, "held", "facts"),
        "turn.held.waits": _ratio(samples, "held.waits", "facts.waits"),
        "turn.raw": _ratio(samples, "held", "raw"),
        "turn.raw.bare": _ratio(samples, "bare", "raw"),
        "turn.cpu": _cpu(samples, "readme", "facts"),
        "turn.cpu.waits": _cpu(samples, "readme.waits", "facts.waits"),
        "turn.cpu.all": Measurement(costs["readme"].cpu * 1e3, costs["facts"].cpu * 1e3),
        "turn.written": Measurement(costs["readme"].written / 1e3, costs["facts"].written / 1e3),
    } | {
        f"turn.syncs{waits}": Measurement(syncs, durable)
        for waits, durable in (("", 1), (".waits", WAITS))
        if (syncs := costs[f"readme{waits}"].syncs) is not None
    }


def _taking(side: Side, work: Iterator[Turn]) -> Callable[[], list[Timing]]:
    def one() -> list[Timing]:
        return [spent(partial(side.turn, next(work)))]

    return one


def _ratio(samples: dict[str, Samples], name: str, against: str) -> Measurement:
    return Measurement(samples[name].median * 1e3, samples[against].median * 1e3)


def _cpu(samples: dict[str, Samples], name: str, against: str) -> Measurement:
    return Measurement(samples[name].median_cpu * 1e3, samples[against].median_cpu * 1e3)


def _by_history(setting: Setting) -> dict[str, Measurement]:
    """Measure turns in a long and in a short session of one store."""
    count = setting.sizes.turns
    with opened(setting.directory, "history") as store:
        long = with_history(store, setting.sizes.history)
        work = [iter(turns(count + WARM_UP, seed=5 + side)) for side in range(2)]
        short = [with_history(store, SHORT_HISTORY)]
        with long.lease():

            def short_side() -> list[Timing]:
                if short[0].info.messages >= SHORT_HISTORY * 2:
                    short[0] = with_history(store, SHORT_HISTORY)
                with short[0].lease():
                    return _take(short[0], work[1])

            sides: dict[str, Callable[[], list[Timing]]] = {"long": lambda: _take(long, work[0]), "short": short_side}
            samples = in_turn(sides, count, warm_up=WARM_UP)
    return {"turn.history": _ratio(samples, "long", "short")}


def _take(session: eventlog.Session, work: Iterator[Turn]) -> list[Timing]:
    return [spent(partial(take_turn, session, next(work)))]


README = "turn as the README writes it"
FACTS = "SQLite FULL, same facts"
FACTS_WAITS = f"SQLite FULL, same facts, {WAITS} transactions"
RAW = "pwrite + fdatasync of the turn's bytes into a zero-filled file"
ONCE = Target("<=", 1.1)
"""A tenth is for background work, and for opening and closing the store once."""

_SYNCS = (
    Figure("turn.syncs", f"syncs of a {README}, pipelined", "", "its durable wait", ONCE),
    Figure("turn.syncs.waits", f"syncs of a {README}", "", f"its {WAITS} durable waits", ONCE),
)

CASES = (
    Case(
        "turn",
        (
            Figure("turn.facts", f"{README}, pipelined", "ms", FACTS, Target("<=", 1)),
            Figure("turn.rows", f"{README}, pipelined", "ms", "SQLite FULL, two rows", Target("<=", 1.6)),
            Figure("turn.deltas", f"{README}, pipelined", "ms", "SQLite FULL, same facts, a row per delta"),
            Figure("turn.waits", f"{README}, its {WAITS} waits", "ms", FACTS_WAITS, Target("<=", 1.1)),
            Figure("turn.held", "durable turn, lease held, pipelined", "ms", FACTS),
            Figure("turn.held.waits", f"durable turn, lease held, its {WAITS} waits", "ms", FACTS_WAITS),
            Figure("turn.raw", "durable turn, lease held, pipelined", "ms", RAW, Target("<=", 1.5)),
            Figure("turn.raw.bare", "its events made, encoded and handed to a thread that writes them", "ms", RAW),
            Figure("turn.cpu", f"CPU of a {README}, pipelined", "ms", FACTS, before=Target("<=", 0.5)),
            Figure("turn.cpu.waits", f"CPU of a {README}", "ms", FACTS_WAITS, before=Target("<=", 0.5)),
            Figure("turn.cpu.all", f"CPU of a {README}, pipelined, background work included", "ms", FACTS),
            Figure("turn.written", f"written for a {README}, pipelined, background work included", "KB", FACTS),
            *(_SYNCS if tracer() else ()),
        ),
        _beside,
    ),
    Case(
        "turn.history",
        (
            Figure(
                "turn.history", "durable turn, long session", "ms", f"at {SHORT_HISTORY} messages", Target("<=", 1.2)
            ),
        ),
        _by_history,
    ),
)
