"""The plots, and drawing them from a run's curves with matplotlib.

matplotlib is loaded when something is drawn. Each plot is written as SVG, for `README.md`, and as
PNG.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.figures import Curve
from benchmarks.peers.base import imported

__all__ = ["INSTALL", "PLOTS", "Plot", "can_draw", "spread_out", "write_plots"]

INSTALL = "pip install 'matplotlib>=3.10,<4'"
"""Command that installs matplotlib."""

Points = Sequence[tuple[float, float]]


class Plot(NamedTuple):
    """A plot; its axes are logarithmic unless marked as linear."""

    title: str
    x: str
    y: str
    first: str = "everdelta"
    """Beginning of the names of lines that stand out."""
    linear_x: bool = False
    linear_y: bool = False


PLOTS = {
    "turn": Plot("A turn kept in a conversation", "messages in it", "ms"),
    "load": Plot("Loading a whole conversation", "messages in it", "ms"),
    "kept": Plot("Bytes on the disk", "messages", "MB"),
    "length": Plot("A durable turn in a long session", "messages in it", "ms", "median", linear_y=True),
    "open": Plot(
        "The view after a compaction, opened cold", "events in the history", "ms", "session and view", linear_y=True
    ),
    "next": Plot("The next view, after one more message", "messages in the session", "µs", linear_y=True),
    "sessions": Plot("A durable turn, many sessions in turn", "sessions", "ms, median", linear_y=True),
    "sustained": Plot("Durable turns on end: the slow ones", "one turn in so many takes longer", "ms"),
    "memory": Plot("Memory of a process that takes turns", "turns", "MB", linear_x=True, linear_y=True),
    "churn": Plot(
        "A store that is filled, erased and vacuumed", "cycle", "MB", "after vacuuming", linear_x=True, linear_y=True
    ),
}
"""By the name that curves use.

`stream` has one point for each side, so it is a table only (`markdown.py`).
"""

WIDTH, HEIGHT, DOTS = 8.0, 4.4, 160
"""Inches, a hundred pixels of the page each, and dots per inch of the PNG."""
LEFT, BOTTOM, TOP = 0.085, 0.125, 0.885
"""Borders of the axes, as shares of the picture; the names of lines are right of them."""
LETTER = 0.01
"""Width of a letter, as a share of the picture."""
SAMPLE, NAME = 1.07, 1.135
"""Where a line's sample and its name begin, as shares of the axes' width."""
FEW = 8
"""Points up to which each point is marked."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Okabe and Ito's colours, for colour-blind readers too; without yellow: too light."""
MARKS = "os^Dvp"
STYLES = ("-", "--", ":")
APART = 0.052
"""Least distance of names, as a share of the plot's height."""
SETTINGS = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "everdelta",
    "axes.edgecolor": "#888888",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
}


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def write_plots(directory: Path, curves: Sequence[Curve]) -> list[Path]:
    """Draw every plot that has a curve, as `NAME.svg` and `NAME.png`; return the former."""
    directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, what in PLOTS.items():
        lines = {curve.side: _shown(what, curve.points) for curve in curves if curve.plot == name}
        lines = {side: points for side, points in lines.items() if points}
        if lines:
            path = directory / f"{name}.svg"
            _draw(what, lines, path)
            written.append(path)
    return written


def _shown(what: Plot, points: Points) -> Points:
    """Return the points that an axis can show: a logarithmic one has no zero."""
    return [(x, y) for x, y in sorted(points) if (x > 0 or what.linear_x) and (y > 0 or what.linear_y)]


def _draw(what: Plot, lines: Mapping[str, Points], path: Path) -> None:
    with imported("matplotlib").rc_context(SETTINGS):
        figure: Any = imported("matplotlib.figure").Figure(figsize=(WIDTH, HEIGHT), facecolor="white")
        width = (0.99 - LEFT - LETTER * max(map(len, lines))) / NAME
        axes: Any = figure.add_axes((LEFT, BOTTOM, width, TOP - BOTTOM))
        figure.text(0.02, 0.935, what.title, fontsize=12, fontweight="bold", color="#222222")
        _scale(axes, what, lines)
        for number, (side, points) in enumerate(lines.items()):
            axes.plot(*zip(*points, strict=True), **_style(what, side, number, points))
        _name(axes, what, lines)
        figure.savefig(path, metadata={"Date": None})
        figure.savefig(path.with_suffix(".png"), dpi=DOTS)


def _style(what: Plot, side: str, number: int, points: Points) -> dict[str, object]:
    """Return the style of a line, different for each line of a plot."""
    first = side.startswith(what.first)
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": STYLES[number // len(COLOURS) % len(STYLES)],
        "marker": MARKS[number % len(MARKS)] if len(points) <= FEW else None,
        "markersize": 6.5 if first else 4.5,
        "linewidth": 2.8 if first else 1.3,
        "zorder": 4 if first else 3,
    }


def _scale(axes: Any, what: Plot, lines: Mapping[str, Points]) -> None:
    ticker: Any = imported("matplotlib.ticker")
    sides = (
        (axes.xaxis, axes.set_xscale, axes.set_xlim, what.linear_x),
        (axes.yaxis, axes.set_yscale, axes.set_ylim, what.linear_y),
    )
    for place, (axis, set_scale, set_limits, linear) in enumerate(sides):
        values = sorted({point[place] for points in lines.values() for point in points})
        low, high = values[0], values[-1]
        if linear:
            set_limits(*((low - high * 0.02, high * 1.02) if place == 0 else (0, high * 1.1)))
        else:
            set_scale("log")
            set_limits(low / 1.3, high * 1.3)
            narrow = high < low * 50
            axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if narrow else (1,)))
            axis.set_minor_formatter(ticker.NullFormatter())
        if place == 0 and len(values) <= FEW:
            axis.set_major_locator(ticker.FixedLocator(values))
            axis.set_minor_locator(ticker.NullLocator())
        axis.set_major_formatter(ticker.FuncFormatter(_number))
    axes.set_xlabel(what.x)
    axes.set_ylabel(what.y)
    axes.tick_params(which="both", length=0)
    axes.grid(visible=True, which="major", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)


def _name(axes: Any, what: Plot, lines: Mapping[str, Points]) -> None:
    """Write the name of each line beside its end, with a sample, none over another."""
    to_share = axes.transData + axes.transAxes.inverted()
    ends = [tuple(to_share.transform(points[-1])) for points in lines.values()]
    heights = spread_out([height for _, height in ends])
    right = max(across for across, _ in ends)
    for number, (side, points) in enumerate(lines.items()):
        first = side.startswith(what.first)
        style = _style(what, side, number, points)
        (across, up), height = ends[number], heights[number]
        within = {"transform": axes.transAxes, "clip_on": False}
        if across == right:
            axes.plot(
                (across, SAMPLE), (up, height), color=style["color"], linewidth=0.6, alpha=0.55, zorder=1, **within
            )
        axes.plot((SAMPLE, SAMPLE + 0.025, SAMPLE + 0.05), [height] * 3, **style, markevery=[1], **within)
        axes.text(
            NAME,
            height,
            side,
            transform=axes.transAxes,
            verticalalignment="center_baseline",
            fontsize=9,
            fontweight="bold" if first else "normal",
            color="#222222",
        )


def spread_out(heights: Sequence[float]) -> list[float]:
    """Return heights from 0 to 1, close to those wanted and apart from each other."""
    apart = min(APART, 1 / max(len(heights) - 1, 1))
    groups: list[list[int]] = []
    for number in sorted(range(len(heights)), key=heights.__getitem__):
        groups.append([number])
        while (
            len(groups) > 1 and _place(groups[-1], heights, apart)[0] < _place(groups[-2], heights, apart)[-1] + apart
        ):
            last = groups.pop()
            groups[-1] += last
    placed = dict(pair for group in groups for pair in zip(group, _place(group, heights, apart), strict=True))
    return [placed[number] for number in range(len(heights))]


def _place(group: Sequence[int], heights: Sequence[float], apart: float) -> list[float]:
    """Return the heights of adjacent members of a group, lowest first."""
    high = (len(group) - 1) * apart
    low = fmean(heights[number] for number in group) - high / 2
    low = min(max(low, 0.0), max(1.0 - high, 0.0))
    return [low + place * apart for place in range(len(group))]


def _number(value: float, _place: object) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"
