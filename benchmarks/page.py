"""Write the main numbers of a run into `README.md`: `python -m benchmarks.page`.

These are the figures that miss their target, and the tables that compare with others; a run
prints all.

Without an argument the run is `benchmarks/baseline.json`, which the page must always agree with.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.baseline import Run, read_run
from benchmarks.cases import CASES
from benchmarks.figures import Result, Row
from benchmarks.report import number

HERE = Path(__file__).resolve().parent
PAGE = HERE / "README.md"
BASELINE = HERE / "baseline.json"
BEGIN, END = "<!-- numbers -->\n", "<!-- end of numbers -->\n"
TABLES = (
    "a durable turn",
    "the loop at 5,000 messages, ms",
    "a read in a fresh process at 5,000 messages, ms",
    "a conversation of 1,000 messages, on the disk at each turn",
    "a delta of an answer of 2,000",
)
"""The tables of the page."""
LEFT_OUT = frozenset({"p10 ms", "CPU in all", "CPU of the first", "KB written"})
"""Columns of a run that the page leaves out."""


def with_numbers(page: str, run: Path = BASELINE) -> str:
    """Return the page with the numbers of a run between its marks."""
    before, _, numbered = page.partition(BEGIN)
    _, _, after = numbered.partition(END)
    return f"{before}{BEGIN}{markdown(read_run(run))}{END}{after}"


def markdown(run: Run) -> str:
    """Return the main numbers of a run: machine, missed targets, tables, gaps."""
    rows = [row for row in run.rows if row.table in TABLES]
    parts = [_machine(run.machine), _targets(run.results)]
    parts += [_rows(title, [row for row in rows if row.table == title]) for title in TABLES]
    parts.append("\n".join(f"Not measured: {gap.what} (`{gap.install}`; {gap.reason})." for gap in run.missing))
    return "\n\n".join(part for part in parts if part) + "\n"


def _machine(machine: Mapping[str, object]) -> str:
    return (
        f"Measured on {machine['cores']} cores ({machine['processor']}), {machine['memory']}, {machine['filesystem']}, "
        f"{machine['system']}, Python {machine['python']}, {str(machine['time'])[:10]}."
    )


def _targets(results: Sequence[Result]) -> str:
    figures = {figure.id: figure for case in CASES for figure in case.figures}
    judged = [result for result in results if result.ratio is not None and result.target is not None]
    missed = [result for result in judged if result.met is False]
    lines = [f"{len(judged) - len(missed)} of {len(judged)} ratios hold their target. The others:"]
    lines += ["", "| missed | against | ratio | target |", "|---|---|---|---|"]
    for result in missed:
        figure, target = figures[result.id], str(result.target).replace("<=", "≤").replace(">=", "≥")
        lines.append(f"| {figure.title} | {figure.against} | {number(result.ratio or 0)} | {target} |")
    return "\n".join(lines) if judged else ""


def _rows(title: str, rows: Sequence[Row]) -> str:
    rows = [
        row for row in rows if any(cell is not None for cell in row.cells.values())
    ]  # others end before this length
    if not rows:
        return ""
    headings = list(dict.fromkeys(heading for row in rows for heading in row.cells if heading not in LEFT_OUT))
    lines = [f"| {title} | " + " | ".join(headings) + " |", "|---" * (len(headings) + 1) + "|"]
    for row in rows:
        cells = [row.cells.get(heading) for heading in headings]
        lines.append(f"| {row.side} | " + " | ".join("" if cell is None else number(cell) for cell in cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else BASELINE
    PAGE.write_text(with_numbers(PAGE.read_text(encoding="utf-8"), chosen), encoding="utf-8")
