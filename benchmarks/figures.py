"""What a benchmark says: figures with their targets, and results.

Measures nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

__all__ = [
    "Case",
    "Curve",
    "Figure",
    "Measured",
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
    before: Target | None = None
    """What the ratio has to be of that in an earlier run, when there is one."""


class Measured(NamedTuple):
    """A figure's value and its baseline, both in the figure's unit."""

    value: float
    baseline: float | None = None


class Result(msgspec.Struct, frozen=True):
    """A figure as it is written out.

    `ratio` is `value / baseline`; null where there is no baseline or target.
    """

    id: str
    value: float
    unit: str
    baseline: float | None
    ratio: float | None
    target: str | None
    met: bool | None


class Curve(msgspec.Struct, frozen=True):
    """A line of a plot: how one side does over the length of the history.

    `plots.py` knows the plots.
    """

    plot: str
    side: str
    points: list[tuple[float, float]]


class Row(msgspec.Struct, frozen=True):
    """All that was measured of one side, in the table `table`.

    A number for each heading, None for what could not be measured.
    """

    table: str
    side: str
    cells: dict[str, float | None]


class Missing(msgspec.Struct, frozen=True):
    """A peer that could not be measured here: how to install it, and what went wrong."""

    peer: str
    install: str
    reason: str


class Notes:
    """What cases have to say besides their figures.  Each thing is kept once."""

    def __init__(self) -> None:
        self.curves: list[Curve] = []
        self.rows: list[Row] = []
        self.remarks: dict[str, str] = {}
        """What has to be known of a side to read its figures."""
        self.missing: list[Missing] = []

    def curve(self, plot: str, side: str, points: Mapping[int, float]) -> None:
        """Add a line to a plot."""
        self.curves.append(Curve(plot, side, [(float(length), value) for length, value in sorted(points.items())]))

    def row(self, table: str, side: str, cells: Mapping[str, float | None], remark: str = "") -> None:
        """Add a line to a table."""
        self.rows.append(Row(table, side, dict(cells)))
        self.remark(side, remark)

    def remark(self, side: str, remark: str) -> None:
        """Say what has to be known of a side; nothing if there is nothing."""
        if remark:
            self.remarks[side] = remark

    def miss(self, missing: Missing) -> None:
        """Report a peer that is not here."""
        if missing.peer not in {known.peer for known in self.missing}:
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

    They are several rounds of its background work.
    """
    sustained: int
    """Turns of each side on end."""
    history: int
    """Messages of the long session."""
    callers: int
    """Threads, and asyncio tasks, that wait at the same time."""
    appends: int
    """Appends of each of them in one round."""
    pending: int
    """Commands that one task has pending at once; a tenth is the baseline."""
    flushes: int
    """Flushes whose bytes are counted."""
    generated: int
    """Records of the session that is generated where there is no recorded one."""
    sessions: int
    """Sessions that are listed."""
    lengths: tuple[int, ...]
    """Messages of the sessions in which the engine's turns are compared.

    The last is the long one.
    """
    peer_lengths: tuple[int, ...]
    """The same for the peers; the last is where they are compared with the engine."""
    patient: bool
    """Whether a peer is also measured at lengths at which it takes minutes."""
    peer_turns: int
    """Turns of each peer at each length."""
    events: tuple[int, ...]
    """Events of the histories that are opened, the short one first, the long one last."""
    hurry: int
    """How many times faster than a model paced streams are, deltas and flushes alike."""
    day: float
    """Share of a day's streaming that is simulated."""
    import_bytes: int
    """Size of the file that is imported in bounded memory."""


class Setting(NamedTuple):
    """Where and how much: what every case is given."""

    directory: Path
    """On the disk that is measured; each case makes its own folders in it."""
    sizes: Sizes
    recorded: Path | None
    """The folder of recorded sessions, None where there is none."""
    notes: Notes
    """Where curves and missing peers are put down."""


class Case(NamedTuple):
    """Figures that are measured together."""

    id: str
    figures: tuple[Figure, ...]
    run: Callable[[Setting], Mapping[str, Measured]]


def results_of(case: Case, measured: Mapping[str, Measured]) -> list[Result]:
    """The case's results in the order of its figures.

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
