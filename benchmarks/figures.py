"""Figures, their targets and results, and the sizes of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec


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


class Row(msgspec.Struct, frozen=True):
    """All numbers of one side, in the table `table`.

    A number for each heading; None for one that could not be measured.
    """

    table: str
    side: str
    cells: dict[str, float | None]


class Missing(msgspec.Struct, frozen=True):
    """A case or a peer that could not be measured: how to install its tool, and the reason."""

    what: str
    install: str
    reason: str


class Notes:
    """Rows, remarks and missing tools that cases report; each is stored once."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.remarks: dict[str, str] = {}
        """Explanations, by side, that are needed to read its figures."""
        self.missing: list[Missing] = []

    def row(self, table: str, side: str, cells: Mapping[str, float | None], remark: str = "") -> None:
        """Add a line to a table."""
        self.rows.append(Row(table, side, dict(cells)))
        self.remark(side, remark)

    def remark(self, side: str, remark: str) -> None:
        """Add an explanation of a side, unless it is empty."""
        if remark:
            self.remarks[side] = remark

    def miss(self, missing: Missing) -> None:
        """Report a tool that is not installed."""
        if missing.what not in {reported.what for reported in self.missing}:
            self.missing.append(missing)


class Sizes(NamedTuple):
    """How much work a run does."""

    rounds: int
    """Times each side is measured, in turn."""
    deltas: int
    """Deltas of one answer."""
    turns: int
    """Turns of each side."""
    counted: int
    """Turns of each side whose bytes and syncs are counted."""
    lengths: tuple[int, ...]
    """Messages of the conversations that are continued and read, the longest last."""
    peer_turns: int
    """Turns of each peer at each length."""
    callers: int
    """Threads, and asyncio tasks, that wait at the same time."""
    appends: int
    """Messages of each of them in one round."""
    generated: int
    """Turns of the generated session, if none is recorded."""
    text: int
    """Characters that are searched."""
    sessions: int
    """Sessions of the store that the command line reads."""


class Setting(NamedTuple):
    """Where and how much a case measures."""

    directory: Path
    """On the disk that is measured; each case makes its own folders in it."""
    sizes: Sizes
    recorded: Path | None
    """Folder of recorded sessions, None if there is none."""
    notes: Notes
    """Where cases report rows and missing tools."""


class Case(NamedTuple):
    """Figures that are measured together."""

    id: str
    figures: tuple[Figure, ...]
    run: Callable[[Setting], Mapping[str, Measurement | None]]
    install: str = ""
    """Command that installs what it needs besides the package; "" for nothing."""


def results_of(case: Case, measured: Mapping[str, Measurement | None]) -> list[Result]:
    """Return the results of a case in the order of its figures.

    Every figure must have been measured, and no other; None is one that this system cannot measure.
    """
    if set(measured) != {figure.id for figure in case.figures}:
        raise ValueError(f"case {case.id} measured {sorted(measured)}")
    results: list[Result] = []
    for figure in case.figures:
        found = measured[figure.id]
        if found is None:
            continue
        value, baseline = found
        ratio = value / baseline if baseline else None
        target = figure.target
        met = None if target is None or ratio is None else target.met(ratio)
        told = None if target is None else str(target)
        results.append(Result(figure.id, value, figure.unit, baseline, ratio, told, met))
    return results
