"""A stacked bar of token counts for a terminal, with a legend."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from projections.cli.screen import columns, styled

__all__ = ["Slice", "draw"]

COLOURS = (
    "blue",
    "cyan",
    "green",
    "bright-green",
    "magenta",
    "yellow",
    "red",
    "bright-magenta",
    "bright-blue",
    "bright-cyan",
)
"""Colours that differ on dark and on light terminals, used in turn."""
FREE_COLOUR = "grey"
FULL, FREE = "█", "░"
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
    shown = [each for each in slices if each.tokens > 0]
    total = sum(each.tokens for each in shown) or 1
    colours = [FREE_COLOUR if each.free else COLOURS[place % len(COLOURS)] for place, each in enumerate(shown)]
    room = min(columns(), WIDEST)
    pieces = zip(shown, colours, widths(shown, room), strict=True)
    sys.stdout.write("".join(styled(_mark(each) * width, colour) for each, colour, width in pieces) + "\n")
    names = max((len(each.name) for each in shown), default=0)
    numbers = max((len(f"{each.tokens:,}") for each in shown), default=0)
    for each, colour in zip(shown, colours, strict=True):
        share = f"{100 * each.tokens / total:.1f} %"
        small = _mark(each) * max(1, round(LEGEND_BAR * each.tokens / total))
        line = f"{each.name:<{names}}  {each.tokens:>{numbers},}  {share:>7}"
        room_left = room - len(line) - 2
        sys.stdout.write(line + (f"  {styled(small[:room_left], colour)}" if room_left > 0 else "") + "\n")


def _mark(each: Slice) -> str:
    return FREE if each.free else FULL


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
