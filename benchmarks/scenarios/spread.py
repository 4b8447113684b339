"""How long equal pieces of work took: median, percentiles, processor time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

from benchmarks.figures import Figure, Measured, Target
from benchmarks.measure import in_turn

__all__ = ["Spread", "Taken", "figures_of", "measured", "spreads", "taken"]


class Taken(NamedTuple):
    """What one piece of work took, in seconds."""

    seconds: float
    cpu: float
    """Processor time of the whole process, its other threads included."""


class Spread(NamedTuple):
    """What equal pieces of work took, one entry each."""

    seconds: Sequence[float]
    cpu: Sequence[float]

    @classmethod
    def of(cls, works: Iterable[Sequence[float]]) -> Spread:
        """Gather what single pieces took: pairs of seconds and processor seconds."""
        found = list(works)
        return cls([seconds for seconds, _ in found], [cpu for _, cpu in found])

    @property
    def median(self) -> float:
        """Half of the works were quicker."""
        return median(self.seconds)

    def percentile(self, share: float) -> float:
        """The time that `share` of the works do not exceed."""
        return sorted(self.seconds)[min(int(len(self.seconds) * share), len(self.seconds) - 1)]


def taken(work: Callable[[], object]) -> Taken:
    """Do a piece of work once, and tell what it took."""
    cpu = process_time()
    start = perf_counter()
    work()
    seconds = perf_counter() - start
    return Taken(seconds, process_time() - cpu)


def spreads(
    sides: Mapping[str, Callable[[], Iterable[Sequence[float]]]], rounds: int, *, warm_up: int = 1
) -> dict[str, Spread]:
    """Run the sides in turn; each returns seconds and processor seconds, a pair a piece."""

    def flat(side: Callable[[], Iterable[Sequence[float]]]) -> Callable[[], list[float]]:
        return lambda: [number for work in side() for number in work]

    found = in_turn({name: flat(side) for name, side in sides.items()}, rounds, warm_up=warm_up)
    return {name: Spread(samples.times[::2], samples.times[1::2]) for name, samples in found.items()}


def figures_of(id: str, title: str, against: str, *, slow: Target | None = None) -> tuple[Figure, ...]:
    """The figures of a latency: median, two percentiles, and processor time.

    `slow` is the target of the upper percentile.
    """
    return (
        Figure(id, f"{title}, median", "ms", against),
        Figure(f"{id}.p10", f"{title}, 10 of 100 below", "ms", against),
        Figure(f"{id}.p99", f"{title}, 99 of 100 below", "ms", against, slow),
        Figure(f"{id}.cpu", f"{title}, processor time of the process", "ms", against),
    )


def measured(id: str, ours: Spread, theirs: Spread) -> dict[str, Measured]:
    """What the figures of `figures_of` say, in milliseconds; processor time is the mean."""
    pairs = {
        id: (ours.median, theirs.median),
        f"{id}.p10": (ours.percentile(0.1), theirs.percentile(0.1)),
        f"{id}.p99": (ours.percentile(0.99), theirs.percentile(0.99)),
        f"{id}.cpu": (sum(ours.cpu) / len(ours.cpu), sum(theirs.cpu) / len(theirs.cpu)),
    }
    return {name: Measured(value * 1e3, baseline * 1e3) for name, (value, baseline) in pairs.items()}
