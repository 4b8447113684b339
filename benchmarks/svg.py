"""Line plots with logarithmic axes, as small SVG files.  Draws what it is given; knows no benchmark (`plots.py` does).

By hand, because all it needs is some lines, labels and a legend, and a plotting library is larger than the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import ceil, floor, log10

__all__ = ["Points", "plot"]

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 760, 400
_LEFT, _TOP, _RIGHT, _BOTTOM = 62, 40, 265, 46
_COLOURS = (
    "#1b6ca8", "#e07b39", "#3a9d5d", "#b4436c", "#7a5cc2", "#8a6d3b", "#2a9d9d", "#c2a32a",
    "#5f7d95", "#d1495b", "#6a994e", "#9c89b8", "#4d4d4d", "#b08968", "#0b3d2e",
    "#ff6f91", "#7fb800", "#a0522d",
)  # fmt: skip
_MARK = 3


class _Axis:
    """A logarithmic scale from values to pixels, over whole decades."""

    def __init__(self, values: Iterable[float], start: float, end: float) -> None:
        known = [log10(value) for value in values]
        self.low, self.high = floor(min(known) + 1e-9), ceil(max(known) - 1e-9)
        if self.low == self.high:
            self.high += 1
        self._start, self._scale = start, (end - start) / (self.high - self.low)

    def at(self, value: float) -> float:
        """The pixel of a value."""
        return self._start + (log10(value) - self.low) * self._scale

    def decades(self) -> list[float]:
        """The values that get a line and a label."""
        return [10.0**power for power in range(self.low, self.high + 1)]


def plot(title: str, x_label: str, y_label: str, lines: Mapping[str, Points], *, first: str = "") -> str:
    """The plot as an SVG document; the line named `first` is drawn over the others, and thicker.

    Points that are not greater than zero have no place on a logarithmic axis and are left out.
    """
    shown = {name: [(x, y) for x, y in points if x > 0 and y > 0] for name, points in lines.items()}
    shown = {name: points for name, points in shown.items() if points}
    every = [point for points in shown.values() for point in points]
    if not every:
        raise ValueError(f"{title}: nothing to draw")
    across = _Axis((x for x, _ in every), _LEFT, _WIDTH - _RIGHT)
    up = _Axis((y for _, y in every), _HEIGHT - _BOTTOM, _TOP)
    ranked = sorted(shown, key=lambda name: -shown[name][-1][1])  # the legend in the order of the lines' ends
    colours = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(shown)}
    drawn = [_grid(across, up), _labels(title, x_label, y_label)]
    drawn += [_line(shown[name], across, up, colours[name], thick=name == first) for name in shown if name != first]
    if first in shown:
        drawn.append(_line(shown[first], across, up, colours[first], thick=True))
    drawn.append(_legend(ranked, colours, first))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
        f' font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">\n'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def _grid(across: _Axis, up: _Axis) -> str:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    found: list[str] = []
    for value in across.decades():
        x = across.at(value)
        found.append(f'<path d="M{x:.1f} {_TOP}V{bottom}" stroke="#e4e4e4"/>')
        found.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" fill="#555">{_number(value)}</text>')
    for value in up.decades():
        y = up.at(value)
        found.append(f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="#e4e4e4"/>')
        found.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{_number(value)}</text>')
    return "\n".join(found)


def _labels(title: str, x_label: str, y_label: str) -> str:
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    height = (_TOP + _HEIGHT - _BOTTOM) / 2
    return (
        f'<text x="{_LEFT}" y="22" font-size="14" font-weight="bold" fill="#222">{escape(title)}</text>\n'
        f'<text x="{middle:.0f}" y="{_HEIGHT - 10}" text-anchor="middle" fill="#333">{escape(x_label)}</text>\n'
        f'<text transform="translate(14 {height:.0f}) rotate(-90)" text-anchor="middle" fill="#333">{escape(y_label)}</text>'
    )


def _line(points: Points, across: _Axis, up: _Axis, colour: str, *, thick: bool) -> str:
    places = [(across.at(x), up.at(y)) for x, y in sorted(points)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    radius = _MARK + 1 if thick else _MARK
    marks = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"/>' for x, y in places)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{3 if thick else 1.5}"/>{marks}'


def _legend(names: Sequence[str], colours: Mapping[str, str], first: str) -> str:
    x = _WIDTH - _RIGHT + 16
    found: list[str] = []
    for number, name in enumerate(names):
        y = _TOP + 8 + number * 19
        weight = ' font-weight="bold"' if name == first else ""
        found.append(f'<path d="M{x} {y}h18" stroke="{colours[name]}" stroke-width="{4 if name == first else 2}"/>')
        found.append(f'<text x="{x + 24}" y="{y + 4}" fill="#222"{weight}>{escape(name)}</text>')
    return "\n".join(found)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
