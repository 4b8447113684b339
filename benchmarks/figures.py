"""Figures, their targets and results, and the sizes of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

__all__ = [
    "Case",
    "Curve",
    "Figure",
    "Measurement",
    "Missing",
    "Notes",
    "Result",
    "Row",
    "Setting",
    "Sizes",
    "Target",
    "results_of",
]


class Target(NamedTuple):
    """Bound on a figure's ratio."""

    sign: Literal["<=", "<", ">="]
    bound: float

    def __str__(self) -> str:
        return f"{self.sign} {self.bound:g}"

    def met(self, ratio: float) -> bool:
        """Return whether a ratio meets the target."""
        if self.sign == ">=":
            return ratio >= self.bound
        return ratio < self.bound or (self.sign == "<=" and ratio == self.bound)


class Figure(NamedTuple):
    """One line of the report; `against` names the baseline, "" if there is none."""

    id: str
    title: str
    unit: str
    against: str = ""
    target: Target | None = None
    before: Target | None = None
    """Target for the ratio to an earlier run."""


class Measurement(NamedTuple):
    """A figure's value and its baseline, both in the figure's unit."""

    value: float
    baseline: float | None = None


class Result(msgspec.Struct, frozen=True):
    """A measured figure in the form it is written out.

    `ratio` is `value / baseline`; null without a baseline or target.
    """

    id: str
    value: float
    unit: str
    baseline: float | None
    ratio: float | None
    target: str | None
    met: bool | None


class Curve(msgspec.Struct, frozen=True):
    """A line of a plot: one side over the length of the history.

    `plots.py` defines the plots.
    """

    plot: str
    side: str
    points: list[tuple[float, float]]


class Row(msgspec.Struct, frozen=True):
    """All numbers of one side, in the table `table`.

    A number for each heading; None for one that could not be measured.
    """

    table: str
    side: str
    cells: dict[str, float | None]


class Missing(msgspec.Struct, frozen=True):
    """A peer that could not be measured: how to install it, and the reason."""

    peer: str
    install: str
    reason: str


class Notes:
    """Rows, curves, remarks and missing peers that cases report; each is stored once."""

    def __init__(self) -> None:
        self.curves: list[Curve] = []
        self.rows: list[Row] = []
        self.remarks: dict[str, str] = {}
        """Explanations, by side, that are needed to read its figures."""
        self.missing: list[Missing] = []

    def curve(self, plot: str, side: str, points: Mapping[int, float]) -> None:
        """Add a line to a plot."""
        self.curves.append(Curve(plot, side, [(float(length), value) for length, value in sorted(points.items())]))

    def row(self, table: str, side: str, cells: Mapping[str, float | None], remark: str = "") -> None:
        """Add a line to a table."""
        self.rows.append(Row(table, side, dict(cells)))
        self.remark(side, remark)

    def remark(self, side: str, remark: str) -> None:
        """Add an explanation of a side, unless it is empty."""
        if remark:
            self.remarks[side] = remark

    def miss(self, missing: Missing) -> None:
        """Report a peer that is not installed."""
        if missing.peer not in {reported.peer for reported in self.missing}:
            self.missing.append(missing)


class Sizes(NamedTuple):
    """How much work a run does."""

    rounds: int
    """Times each side is measured, in turn."""
    deltas: int
    """Deltas of one round."""
    turns: int
    """Turns of each side."""
    counted: int
    """Turns of each side whose bytes and syncs are counted.

    Enough for several rounds of background work.
    """
    sustained: int
    """Consecutive turns of each side."""
    history: int
    """Messages of the long session."""
    callers: int
    """Threads, and asyncio tasks, that wait at the same time."""
    appends: int
    """Appends of each of them in one round."""
    pending: int
    """Commands pending at once in one task; a tenth of them is the baseline."""
    flushes: int
    """Flushes whose bytes are counted."""
    generated: int
    """Records of the generated session, if none is recorded."""
    sessions: int
    """Sessions that are listed."""
    lengths: tuple[int, ...]
    """Messages of the sessions for the engine's turns; the last is the long one."""
    peer_lengths: tuple[int, ...]
    """Messages at which peers are compared; at the last one with the engine, too."""
    patient: bool
    """Whether peers are also measured at lengths that take them minutes."""
    peer_turns: int
    """Turns of each peer at each length."""
    events: tuple[int, ...]
    """Events of the histories that are opened, the short one first, the long one last."""
    hurry: int
    """Factor by which paced streams, deltas and flushes, are quicker than a model."""
    day: float
    """Share of a day's streaming that is simulated."""
    import_bytes: int
    """Size of the file for the import in bounded memory."""


class Setting(NamedTuple):
    """Where and how much a case measures."""

    directory: Path
    """On the disk that is measured; each case makes its own folders in it."""
    sizes: Sizes
    recorded: Path | None
    """Folder of recorded sessions, None if there is none."""
    notes: Notes
    """Where cases report rows, curves and missing peers."""


class Case(NamedTuple):
    """Figures that are measured together."""

    id: str
    figures: tuple[Figure, ...]
    run: Callable[[Setting], Mapping[str, Measurement]]


def results_of(case: Case, measured: Mapping[str, Measurement]) -> list[Result]:
    """Return the results of a case in the order of its figures.

    Every figure must have been measured, and no other.
    """
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
