"""Latencies of scenarios: figures for the median and the slow end, a row for each side."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.figures import Figure, Measurement, Notes, Target
from benchmarks.measure import Samples

__all__ = ["add_rows", "beside", "figures_of"]

SLOW = 0.99
"""Share of the times below the slow end."""


def figures_of(id: str, title: str, against: str, *, slow: Target | None = None) -> tuple[Figure, ...]:
    """Return the two figures of a latency, its median and its slow end.

    `slow` is the target of the slow end.
    """
    return (
        Figure(id, f"{title}, median", "ms", against),
        Figure(f"{id}.p99", f"{title}, 99 of 100 below", "ms", against, slow),
    )


def beside(id: str, ours: Samples, theirs: Samples) -> dict[str, Measurement]:
    """Return the values for the figures of `figures_of`, in milliseconds."""
    return {
        id: Measurement(ours.median * 1e3, theirs.median * 1e3),
        f"{id}.p99": Measurement(ours.percentile(SLOW) * 1e3, theirs.percentile(SLOW) * 1e3),
    }


def add_rows(notes: Notes, table: str, sides: Mapping[str, Samples]) -> None:
    """Add a row for each side, by its title.

    Processor time is that of the process that did the work, all its threads included.
    """
    for title, samples in sides.items():
        notes.row(table, title, {**samples.columns(), "p99 ms": samples.percentile(SLOW) * 1e3})
