"""A stacked bar of token counts for a terminal, with a legend."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import NamedTuple

from projections.cli.screen import columns, console

COLOURS = (33, 208, 40, 201, 226, 51, 196, 141, 130, 118, 219, 30)
"""Colours that differ on dark and on light terminals, one for each kind."""
FREE_COLOUR = "bright_black"
FILL, FREE = "█", "░"
"""A cell that is taken, and one that nothing fills."""
FILLS = f"{FILL}▓▒"
"""Fills of neighbours, which differ where there are no colours, too."""
_GAP = 2
"""Columns between two cells of the legend."""
LEGEND_BAR = 24
"""Characters of the bar that the legend would draw for everything."""
WIDEST = 100
"""Characters of the bar on a wide terminal."""


class Slice(NamedTuple):
    """One kind and its tokens; `free` marks room that nothing fills."""

    name: str
    tokens: int
    free: bool = False


def draw_bar(slices: Sequence[Slice]) -> None:
    """Draw the bar as wide as the terminal, and its legend; empty slices are left out."""
    from rich.table import Table
    from rich.text import Text

    colours = dict(zip((each.name for each in slices), cycle(COLOURS), strict=False))
    shown = [each for each in slices if each.tokens > 0]
    total = sum(each.tokens for each in shown)
    room = min(columns(), WIDEST)
    bar = Text()
    legend = Table.grid(padding=(0, _GAP, 0, 0))
    shows_bars = room > 2 * LEGEND_BAR
    legend.add_column()
    for _ in range(2):
        legend.add_column(justify="right", no_wrap=True)
    for each, width, fill in zip(shown, _widths(shown, room), cycle(FILLS), strict=False):
        mark, colour = (FREE, FREE_COLOUR) if each.free else (fill, f"color({colours[each.name]})")
        bar.append(mark * width, colour)
        small = Text(mark * max(1, round(LEGEND_BAR * each.tokens / total)), colour)
        legend.add_row(
            *(Text(each.name), f"{each.tokens:,}", f"{100 * each.tokens / total:.1f} %", small)[: 3 + shows_bars]
        )
    console().print(bar, soft_wrap=True)
    console().print(legend, width=room)


def _widths(slices: Sequence[Slice], room: int) -> list[int]:
    """Return the characters of each slice: at least one, `room` in all."""
    total = sum(each.tokens for each in slices)
    widths = [max(1, round(room * each.tokens / total)) for each in slices]
    while sum(widths) > room and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    largest = max(range(len(widths)), key=lambda number: slices[number].tokens, default=0)
    if widths:
        widths[largest] += max(room - sum(widths), 0)
    return widths
