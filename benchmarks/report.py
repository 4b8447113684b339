"""Results for a person, and for a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.figures import Case, Figure, Result

__all__ = ["show_cases", "show_results", "write_json"]

_VERDICT = {True: "[green]met", False: "[red]short", None: ""}


def write_json(path: Path, machine: Mapping[str, object], results: Sequence[Result]) -> None:
    """Write `{"machine": {…}, "results": [{"id", "value", "unit", "baseline", "ratio", "target", "met"}]}`."""
    data = msgspec.json.encode({"machine": machine, "results": results})
    path.write_bytes(msgspec.json.format(data, indent=2) + b"\n")


def show_cases(console: Console, cases: Sequence[Case]) -> None:
    """A table of what can be run."""
    table = Table("figure", "what", "unit", "against", "target")
    for case in cases:
        for figure in case.figures:
            table.add_row(figure.id, figure.title, figure.unit, figure.against, str(figure.target or ""))
    console.print(table)


def show_results(console: Console, figures: Mapping[str, Figure], results: Sequence[Result]) -> None:
    """A table of what was measured."""
    table = Table("figure", "what", "against")
    for title in ("value", "baseline", "ratio", "target", ""):
        table.add_column(title, justify="right")
    for result in results:
        figure = figures[result.id]
        table.add_row(
            result.id,
            figure.title,
            figure.against,
            f"{_number(result.value)} {result.unit}",
            "" if result.baseline is None else _number(result.baseline),
            "" if result.ratio is None else _number(result.ratio),
            result.target or "",
            _VERDICT[result.met],
        )
    console.print(table)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
