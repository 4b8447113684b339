"""A stacked bar of token counts for a terminal, with a legend."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Slice", "draw"]

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
"""Colours that differ on dark and on light terminals, used in turn."""
FREE_COLOUR = "bright_black"
FULL, FREE = "█", "░"
LEGEND_BAR = 24
"""Characters of the bar that the legend would draw for everything."""
NARROWEST = 20
UNLIMITED = 100_000
"""Columns to measure the legend with, as if the terminal had no edge."""


class Slice(NamedTuple):
    """One kind and its tokens; `free` marks room that nothing fills."""

    name: str
    tokens: int
    free: bool = False


def draw(slices: Sequence[Slice]) -> None:
    """Draw the bar as wide as the terminal, and its legend; empty slices are left out."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    shown = [each for each in slices if each.tokens > 0]
    total = sum(each.tokens for each in shown) or 1
    styles = [FREE_COLOUR if each.free else COLOURS[place % len(COLOURS)] for place, each in enumerate(shown)]
    bar = Text(no_wrap=True)
    for each, style, width in zip(shown, styles, widths(shown, max(console.width, NARROWEST)), strict=True):
        bar.append((FREE if each.free else FULL) * width, style=style)
    console.print(bar, soft_wrap=True)
    legend = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    legend.add_column("kind", no_wrap=True)
    legend.add_column("tokens", justify="right", no_wrap=True)
    legend.add_column("share", justify="right", no_wrap=True)
    legend.add_column("", no_wrap=True)
    for each, style in zip(shown, styles, strict=True):
        small = (FREE if each.free else FULL) * max(1, round(LEGEND_BAR * each.tokens / total))
        share = f"{100 * each.tokens / total:.1f} %"
        legend.add_row(each.name, str(each.tokens), share, Text(small, style=style))
    # A terminal that is too narrow wraps the lines: better than to cut a number.
    least = console.measure(legend, options=console.options.update(max_width=UNLIMITED)).maximum
    console.width = max(console.width, least)
    console.print(legend)


def widths(slices: Sequence[Slice], columns: int) -> list[int]:
    """Return the characters of each slice by the largest-remainder method.

    The widths sum to `columns`; each is at least one.
    """
    total = sum(each.tokens for each in slices)
    if not total:
        return []
    exact = [columns * each.tokens / total for each in slices]
    rounded = [max(1, int(width)) for width in exact]
    while sum(rounded) > columns and max(rounded) > 1:
        rounded[rounded.index(max(rounded))] -= 1
    order = sorted(range(len(exact)), key=lambda place: exact[place] - int(exact[place]), reverse=True)
    for place in order[: max(0, columns - sum(rounded))]:
        rounded[place] += 1
    return rounded
