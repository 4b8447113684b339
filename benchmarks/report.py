"""Results as tables on a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from benchmarks.baseline import Change
from benchmarks.figures import Case, Figure, Missing, Notes, Result, Row

_VERDICT = {True: "[green]met", False: "[red]short", None: ""}


def write_json(path: Path, machine: Mapping[str, object], results: Sequence[Result], notes: Notes) -> None:
    """Write a run as JSON.

    `{"machine": {…}, "results": [{"id", "value", "unit", "baseline", "ratio", "target", "met"}],
    "rows": [{"table", "side", "cells": {heading: number}}], "remarks": {side: text},
    "missing": [{"what", "install", "reason"}]}`
    """
    notes_of_run = {"rows": notes.rows, "remarks": notes.remarks, "missing": notes.missing}
    data = msgspec.json.encode({"machine": machine, "results": results, **notes_of_run})
    path.write_bytes(msgspec.json.format(data, indent=2) + b"\n")


def _what(figure: Figure) -> str:
    return f"{figure.title}\n[dim]against {escape(figure.against)}[/]" if figure.against else figure.title


def show_cases(console: Console, cases: Sequence[Case]) -> None:
    """Print a table of all figures of the cases."""
    table = Table("figure", "what", "unit", "target")
    for case in cases:
        for figure in case.figures:
            table.add_row(figure.id, _what(figure), figure.unit, str(figure.target or ""))
    console.print(table)


def show_results(console: Console, figures: Mapping[str, Figure], results: Sequence[Result]) -> None:
    """Print a table of results."""
    table = Table(Column("figure", overflow="fold"), "what")
    for title in ("value", "baseline", "ratio", "target", ""):
        table.add_column(title, justify="right", no_wrap=True)
    for result in results:
        table.add_row(
            result.id,
            _what(figures[result.id]),
            f"{number(result.value)} {result.unit}",
            "" if result.baseline is None else number(result.baseline),
            "" if result.ratio is None else number(result.ratio),
            result.target or "",
            _VERDICT[result.met],
        )
    console.print(table)


def show_rows(console: Console, rows: Sequence[Row]) -> None:
    """Print a table for each comparison: a line for each side, a column for each number."""
    for title in dict.fromkeys(row.table for row in rows):
        lines = [row for row in rows if row.table == title]
        headings = dict.fromkeys(heading for row in lines for heading in row.cells)
        table = Table(title)
        for heading in headings:
            table.add_column(heading, justify="right", no_wrap=True)
        for row in lines:
            cells = [row.cells.get(heading) for heading in headings]
            table.add_row(row.side, *("" if cell is None else number(cell) for cell in cells))
        console.print(table)


def show_remarks(console: Console, remarks: Mapping[str, str]) -> None:
    """Print a line for each side that needs an explanation."""
    for side, remark in remarks.items():
        console.print(f"[bold]{escape(side)}[/]: {escape(remark)}", highlight=False)


def number(value: float) -> str:
    """Return a number for people: three digits, or all of a large one."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def show_missing(console: Console, missing: Sequence[Missing]) -> None:
    """Print a line for each case or side that was not measured."""
    for gap in missing:
        console.print(f"[yellow]missing[/]: {gap.what} ({gap.reason}); {gap.install}", markup=True, highlight=False)


def show_changes(console: Console, changes: Sequence[Change]) -> None:
    """Print a table of a run beside an earlier one."""
    table = Table("figure", "compared")
    for title in ("then", "now", "times", ""):
        table.add_column(title, justify="right")
    for change in changes:
        kind = "ratio" if change.is_ratio else "value"
        verdict = {"better": "[green]better", "worse": "[red]worse", "same": ""}[change.verdict]
        table.add_row(change.id, kind, number(change.then), number(change.now), number(change.times), verdict)
    console.print(table)
