"""A window as a picture: a bar with a stretch for each kind of its content, and a line with a small bar for each.

On a terminal only; what goes into a pipe is plain (`output.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Stretch", "draw"]

COLOURS = (
    "blue",
    "cyan",
    "green",
    "bright_green",
    "magenta",
    "yellow",
    "red",
    "bright_magenta",
    "bright_blue",
    "bright_cyan",
)
"""Told apart on dark and on light terminals; used one after the other."""
REST = "bright_black"
FULL, FREE = "█", "░"
SMALL = 24
"""Characters of a small bar."""
NARROWEST = 20
ENDLESS = 100_000
"""More columns than the legend has: to measure it as if the terminal had no edge."""


class Stretch(NamedTuple):
    """One kind: its name and its tokens.  `free`: nothing is there."""

    name: str
    tokens: int
    free: bool = False


def draw(stretches: Sequence[Stretch]) -> None:
    """Draw the bar and its legend.  Stretches of no tokens are left out; the bar is as wide as the terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    shown = [stretch for stretch in stretches if stretch.tokens > 0]
    total = sum(stretch.tokens for stretch in shown) or 1
    styles = [REST if stretch.free else COLOURS[place % len(COLOURS)] for place, stretch in enumerate(shown)]
    bar = Text(no_wrap=True)
    for stretch, style, width in zip(shown, styles, widths(shown, max(console.width, NARROWEST)), strict=True):
        bar.append((FREE if stretch.free else FULL) * width, style=style)
    console.print(bar, soft_wrap=True)
    legend = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    legend.add_column("kind", no_wrap=True)
    legend.add_column("tokens", justify="right", no_wrap=True)
    legend.add_column("share", justify="right", no_wrap=True)
    legend.add_column("", no_wrap=True)
    for stretch, style in zip(shown, styles, strict=True):
        small = (FREE if stretch.free else FULL) * max(1, round(SMALL * stretch.tokens / total))
        share = f"{100 * stretch.tokens / total:.1f} %"
        legend.add_row(stretch.name, str(stretch.tokens), share, Text(small, style=style))
    # A terminal that is too narrow breaks the lines: better than a number that lacks its end.
    least = console.measure(legend, options=console.options.update(max_width=ENDLESS)).maximum
    console.width = max(console.width, least)
    console.print(legend)


def widths(stretches: Sequence[Stretch], columns: int) -> list[int]:
    """Characters of each stretch, which sum to `columns`: by share, at least one each, what is left to the largest remainders."""
    total = sum(stretch.tokens for stretch in stretches)
    if not total:
        return []
    exact = [columns * stretch.tokens / total for stretch in stretches]
    found = [max(1, int(width)) for width in exact]
    while sum(found) > columns and max(found) > 1:
        found[found.index(max(found))] -= 1
    order = sorted(range(len(exact)), key=lambda place: exact[place] - int(exact[place]), reverse=True)
    for place in order[: max(0, columns - sum(found))]:
        found[place] += 1
    return found
