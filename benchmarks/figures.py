"""What a benchmark says: figures with their targets, and the results that are written out.  Measures nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

__all__ = ["Case", "Figure", "Measured", "Result", "Setting", "Sizes", "Target", "results_of"]


class Target(NamedTuple):
    """What a figure's ratio has to be."""

    sign: Literal["<=", "<", ">="]
    bound: float

    def __str__(self) -> str:
        return f"{self.sign} {self.bound:g}"

    def met(self, ratio: float) -> bool:
        """Whether the ratio is as it has to be."""
        if self.sign == ">=":
            return ratio >= self.bound
        return ratio < self.bound or (self.sign == "<=" and ratio == self.bound)


class Figure(NamedTuple):
    """One line of the report.  `against` says what the baseline is, "" when there is none."""

    id: str
    title: str
    unit: str
    against: str = ""
    target: Target | None = None


class Measured(NamedTuple):
    """A figure's value and its baseline, both in the figure's unit."""

    value: float
    baseline: float | None = None


class Result(msgspec.Struct, frozen=True):
    """A figure as it is written out: `ratio` is `value / baseline`; null where there is no baseline or target."""

    id: str
    value: float
    unit: str
    baseline: float | None
    ratio: float | None
    target: str | None
    met: bool | None


class Sizes(NamedTuple):
    """How much work a run does."""

    rounds: int
    """Times each side is measured, in turn."""
    deltas: int
    """Deltas of one round."""
    turns: int
    """Turns of each side."""
    history: int
    """Messages of the long session."""
    callers: int
    """Threads, and asyncio tasks, that wait at the same time."""
    appends: int
    """Appends of each of them in one round."""
    flushes: int
    """Flushes whose bytes are counted."""
    generated: int
    """Records of the session that is generated where there is no recorded one."""
    sessions: int = 10_000
    """Sessions that are listed."""


class Setting(NamedTuple):
    """Where and how much: what every case is given."""

    directory: Path
    """On the disk that is measured; each case makes its own folders in it."""
    sizes: Sizes
    recorded: Path | None
    """The folder of recorded sessions, None where there is none."""


class Case(NamedTuple):
    """Figures that are measured together."""

    id: str
    figures: tuple[Figure, ...]
    run: Callable[[Setting], Mapping[str, Measured]]


def results_of(case: Case, measured: Mapping[str, Measured]) -> list[Result]:
    """The case's results in the order of its figures; every figure must have been measured, and no other."""
    if set(measured) != {figure.id for figure in case.figures}:
        raise ValueError(f"case {case.id} measured {sorted(measured)}")
    results: list[Result] = []
    for figure in case.figures:
        value, baseline = measured[figure.id]
        ratio = value / baseline if baseline else None
        target = figure.target
        met = None if target is None or ratio is None else target.met(ratio)
        results.append(
            Result(figure.id, value, figure.unit, baseline, ratio, None if target is None else str(target), met)
        )
    return results
