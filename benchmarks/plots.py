"""Which plots there are, and drawing them from a run's curves.  How a plot is drawn is `svg.py`'s business."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures import Curve
from benchmarks.svg import plot

__all__ = ["PLOTS", "Plot", "write_plots"]


class Plot(NamedTuple):
    """A plot over the length of the history."""

    title: str
    x: str
    y: str
    first: str = "everdelta"
    """The line that stands out."""


PLOTS = {
    "turn": Plot("A turn kept in a conversation", "messages in it", "ms"),
    "load": Plot("Loading a whole conversation", "messages in it", "ms"),
    "kept": Plot("Bytes on the disk", "messages", "MB"),
    "length": Plot("A durable turn in a long session", "messages in it", "ms", "median"),
    "open": Plot("The view after a compaction, opened cold", "events in the history", "ms", "session and view"),
    "next": Plot("The next view, after one more message", "messages in the session", "µs"),
}
"""By the name that curves call them.  `stream` has one point for each side, so it is a table only (`markdown.py`)."""


def write_plots(directory: Path, curves: Sequence[Curve]) -> list[Path]:
    """Draw every plot that has a curve, as `NAME.svg`; returns the files."""
    directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, what in PLOTS.items():
        lines = {curve.side: curve.points for curve in curves if curve.plot == name and curve.points}
        if lines:
            path = directory / f"{name}.svg"
            path.write_text(plot(what.title, what.x, what.y, lines, first=what.first), encoding="utf-8")
            written.append(path)
    return written
