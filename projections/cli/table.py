"""Tables: a line a row, no wider than the terminal; tab-separated in a pipe or file."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from projections.cli.screen import columns as terminal_width
from projections.cli.screen import cut, is_terminal, safe, styled, width_of, wrapped

__all__ = ["Cell", "table"]

_GAP = "  "
_LEAST = 8
"""Columns that a cell keeps when it is cut."""


class Cell(NamedTuple):
    """A cell that a terminal shows otherwise: a shorter id, time or price, or one in a colour."""

    whole: object
    drawn: str
    style: str = ""


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Collection[str] = (),
    flexible: Collection[str] = (),
    optional: Sequence[str] = (),
    share: float = 1 / 3,
    styles: Mapping[str, str] | None = None,
) -> None:
    """Print a table; `None` is an empty cell.

    A terminal gets a line for each row: the columns in `numbers` are aligned to the right, empty
    ones are left out, and those in `flexible` are cut where there is no room. Those in `optional`
    are left out, the last first, until each flexible one is whole or has its `share` of the width.
    If that does not suffice, each row is a paragraph. A pipe or file gets every column whole, so
    that scripts can rely on them.
    """
    if not is_terminal():
        for row in [columns, *rows]:
            sys.stdout.write("\t".join(safe(_text(cell, whole=True), one_line=True) for cell in row) + "\n")
        return
    rows = list(rows)
    cells = [[safe(_text(cell, whole=False), one_line=True) for cell in row] for row in rows]
    shown = [number for number in range(len(columns)) if any(row[number] for row in cells)]
    names = [safe(name, one_line=True) for name in columns]
    widths = {number: max(width_of(row[number]) for row in [names, *cells]) for number in shown}
    soft = {number for number in shown if columns[number] in flexible}
    room = terminal_width()
    for name in reversed(optional):
        if _total(_fitting(widths, soft, room, max(int(room * share), _LEAST))) <= room:
            break
        widths.pop(columns.index(name), None)
    widths = _fitting(widths, soft, room, _LEAST)
    if _total(widths) > room:
        _print_paragraphs([[row[number] for number in shown] for row in [names, *cells]])
        return
    right = {number for number in widths if columns[number] in numbers}
    looks = {number: (styles or {}).get(columns[number], "") for number in widths}
    for row, given in zip([names, *cells], [None, *rows], strict=True):
        line = [
            _drawn(
                row[number],
                width,
                "bold" if given is None else _style(given[number]) or looks[number],
                to_right=number in right,
            )
            for number, width in widths.items()
        ]
        sys.stdout.write(_GAP.join(line).rstrip() + "\n")


def _text(cell: object, *, whole: bool) -> str:
    if isinstance(cell, Cell):
        cell = cell.whole if whole else cell.drawn
    return "" if cell is None else str(cell)


def _style(cell: object) -> str:
    return cell.style if isinstance(cell, Cell) else ""


def _total(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + len(_GAP) * max(len(widths) - 1, 0)


def _fitting(widths: Mapping[int, int], soft: Collection[int], room: int, least: int) -> dict[int, int]:
    """Return widths with which the table fits, if narrower columns can do that.

    The widest of those that may be cut is narrowed first, none to less than `least`.
    """
    widths = dict(widths)
    while (over := _total(widths) - room) > 0:
        able = sorted((width, number) for number, width in widths.items() if number in soft and width > least)
        if not able:
            break
        width, widest = able[-1]
        next_widest = able[-2][0] if len(able) > 1 else least
        widths[widest] = max(width - over, min(next_widest, width - 1), least)
    return widths


def _drawn(text: str, width: int, style: str, *, to_right: bool) -> str:
    text = cut(text, width)
    space = " " * (width - width_of(text))
    text = styled(text, style) if style else text
    return space + text if to_right else text + space


def _print_paragraphs(rows: Sequence[Sequence[str]]) -> None:
    """Print each row as a paragraph, with a line for each cell that is not empty.

    The terminal wraps longer lines, so that no number and no id is cut.
    """
    names, *entries = rows
    if len(names) == 2:
        width = max(len(first) for first, _ in rows)
        for first, second in rows:
            line = f"{first:<{width}}{_GAP}{second}"
            sys.stdout.write(wrapped(line, terminal_width(), " " * (width + len(_GAP))) + "\n")
        return
    width = max(map(len, names), default=0)
    for first, *cells in entries:
        sys.stdout.write(styled(first, "bold") + "\n")
        for name, cell in zip(names[1:], cells, strict=True):
            if cell:
                sys.stdout.write(f"  {name:<{width}}  {cell}\n")
