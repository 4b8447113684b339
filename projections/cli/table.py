"""Tables: a line a row, no wider than the terminal; tab-separated in a pipe or file."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from projections.cli.screen import columns as terminal_width
from projections.cli.screen import console, is_terminal, safe

_GAP = 2
"""Columns between two cells."""
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
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    cells = [[safe(_text(cell, whole=False), one_line=True) for cell in row] for row in [columns, *rows]]
    shown = [number for number in range(len(columns)) if any(row[number] for row in cells[1:])]
    widths = {number: max(cell_len(row[number]) for row in cells) for number in shown}
    soft = {number for number in shown if columns[number] in flexible}
    room = terminal_width()

    def fits(least: int) -> bool:
        taken = (min(width, least) if number in soft else width for number, width in widths.items())
        return sum(taken) + _GAP * (len(widths) - 1) <= room

    for name in reversed(optional):
        if fits(max(int(room * share), _LEAST)):
            break
        widths.pop(columns.index(name), None)
    if len(shown) > 2 and not fits(_LEAST):
        for row in cells[1:]:
            facts = [(cells[0][number], row[number]) for number in shown if row[number]]
            table(facts[0], facts[1:])
        return
    drawn = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for number, width in widths.items():
        drawn.add_column(
            Text(cells[0][number]),
            style=(styles or {}).get(columns[number], ""),
            justify="right" if columns[number] in numbers else "left",
            min_width=min(width, _LEAST),
            no_wrap=number not in soft and len(shown) > 2,
        )
    for row, given in zip(cells[1:], rows, strict=True):
        drawn.add_row(
            *(
                Text(row[number], _style(given[number]), no_wrap=number in soft, overflow="ellipsis")
                for number in widths
            )
        )
    console().print(drawn)


def _text(cell: object, *, whole: bool) -> str:
    if isinstance(cell, Cell):
        cell = cell.whole if whole else cell.drawn
    return "" if cell is None else str(cell)


def _style(cell: object) -> str:
    return cell.style if isinstance(cell, Cell) else ""
