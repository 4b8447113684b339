"""A stacked bar of token counts for a terminal, with a legend."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import cycle
from typing import NamedTuple

from projections.cli.screen import columns, styled

__all__ = ["Slice", "draw"]

COLOURS = ("33", "208", "40", "201", "226", "51", "196", "141", "130", "118", "219", "30")
"""Colours that differ on dark and on light terminals, one for each kind."""
FREE_COLOUR = "grey"
FILLS, FREE = "█▓▒", "░"
"""Fills of neighbours, which differ where there are no colours, too."""
LEGEND_BAR = 24
"""Characters of the bar that the legend would draw for everything."""
WIDEST = 100
"""Characters of the bar on a wide terminal."""


class Slice(NamedTuple):
    """One kind and its tokens; `free` marks room that nothing fills."""

    name: str
    tokens: int
    free: bool = False


def draw(slices: Sequence[Slice]) -> None:
    """Draw the bar as wide as the terminal, and its legend; empty slices are left out."""
    colours = dict(zip((each.name for each in slices), cycle(COLOURS), strict=False))
    shown = [each for each in slices if each.tokens > 0]
    total = sum(each.tokens for each in shown) or 1
    looks = [
        (FREE, FREE_COLOUR) if each.free else (fill, colours[each.name])
        for each, fill in zip(shown, cycle(FILLS), strict=False)
    ]
    room = min(columns(), WIDEST)
    pieces = zip(looks, widths(shown, room), strict=True)
    sys.stdout.write("".join(styled(fill * width, colour) for (fill, colour), width in pieces) + "\n")
    names = max((len(each.name) for each in shown), default=0)
    numbers = max((len(f"{each.tokens:,}") for each in shown), default=0)
    for each, (fill, colour) in zip(shown, looks, strict=True):
        share = f"{100 * each.tokens / total:.1f} %"
        small = fill * max(1, round(LEGEND_BAR * each.tokens / total))
        line = f"{each.name:<{names}}  {each.tokens:>{numbers},}  {share:>7}"
        room_left = room - len(line) - 2
        sys.stdout.write(line + (f"  {styled(small[:room_left], colour)}" if room_left > 0 else "") + "\n")


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
