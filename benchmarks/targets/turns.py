"""Target 2: a durable turn costs the same at every length of the history."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import eventlog
from benchmarks.engine import opened, take_turn
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.history import begun, small_turns
from benchmarks.measure import in_turn, timed
from benchmarks.workloads import turns

__all__ = ["CASES"]

WARM_UP = 3


def _by_length(setting: Setting) -> dict[str, Measurement]:
    """Measure turns in sessions of every length, one of each in turn.

    All are in one store that folds in the background.
    """
    count = setting.sizes.turns
    lengths = setting.sizes.lengths
    with opened(setting.directory, "lengths") as store:
        names = {length: begun(store, small_turns(length // 2)) for length in lengths}
    with opened(setting.directory, "lengths") as store, ExitStack() as stack:
        sides: dict[str, Callable[[], list[float]]] = {}
        for length, name in names.items():
            session = store.session(name)
            stack.enter_context(session.lease())
            sides[str(length)] = _taking(session, count + WARM_UP, length)
        samples = in_turn(sides, count, warm_up=WARM_UP)
    median = {int(name): side_samples.median * 1e3 for name, side_samples in samples.items()}
    p99 = {int(name): side_samples.percentile(0.99) * 1e3 for name, side_samples in samples.items()}
    setting.notes.curve("length", "median", median)
    setting.notes.curve("length", "99 of 100 below", p99)
    short, long = lengths[0], lengths[-1]
    return {
        "target.2.flat": Measurement(median[long], median[short]),
        "target.2.flat.p99": Measurement(p99[long], p99[short]),
    }


def _taking(session: eventlog.Session, count: int, seed: int) -> Callable[[], list[float]]:
    work = iter(turns(count, seed=seed))

    def one() -> list[float]:
        turn = next(work)
        return [timed(lambda: take_turn(session, turn))]

    return one


CASES = (
    Case(
        "target.2.flat",
        (
            Figure(
                "target.2.flat",
                "durable turn in the longest session, median (100,000 messages with --full)",
                "ms",
                "in one of 100 messages",
                Target("<=", 1.15),
            ),
            Figure(
                "target.2.flat.p99",
                "durable turn in the longest session, 99 of 100 below",
                "ms",
                "in one of 100 messages",
                Target("<=", 3),
            ),
        ),
        _by_length,
    ),
)
