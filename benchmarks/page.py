"""Write the main numbers of a run into `README.md`: `python -m benchmarks.page`.

These are the figures with a target, and the tables that compare with others; a run prints all.

Without an argument the run is `benchmarks/baseline.json`, which the page must always agree with.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.baseline import Run, read_run
from benchmarks.cases import CASES
from benchmarks.figures import Result, Row
from benchmarks.report import number

__all__ = ["BASELINE", "PAGE", "markdown", "with_numbers"]

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
FIXED = re.compile(r"\d[\d.,]* (ms|s|MB|MB/s)|its .*|their .*")
"""A limit that is no other program's figure: where it holds, the page counts it only."""
_VERDICT = {True: "", False: ", missed", None: ""}


def with_numbers(page: str, run: Path = BASELINE) -> str:
    """Return the page with the numbers of a run between its marks."""
    before, _, numbered = page.partition(BEGIN)
    _, _, after = numbered.partition(END)
    return f"{before}{BEGIN}{markdown(read_run(run))}{END}{after}"


def markdown(run: Run) -> str:
    """Return the main numbers of a run: machine, figures, tables, remarks, gaps."""
    rows = [row for row in run.rows if row.table in TABLES]
    parts = [_machine(run.machine), _targets(run.results)]
    parts += [_rows(title, [row for row in rows if row.table == title]) for title in TABLES]
    sides = {row.side for row in rows}
    parts.append("\n".join(f"- {side}: {remark}." for side, remark in run.remarks.items() if side in sides))
    parts.append("\n".join(f"Not measured: {gap.what} (`{gap.install}`; {gap.reason})." for gap in run.missing))
    return "\n\n".join(part for part in parts if part) + "\n"


def _machine(machine: Mapping[str, object]) -> str:
    return (
        f"Measured on {machine['cores']} cores ({machine['processor']}), {machine['memory']}, {machine['filesystem']}, "
        f"{machine['system']}, Python {machine['python']}, {str(machine['time'])[:10]}."
    )


def _targets(results: Sequence[Result]) -> str:
    figures = {figure.id: figure for case in CASES for figure in case.figures}
    lines = ["| what | against | reached | ratio | target |", "|---|---|---|---|---|"]
    others = 0
    for result in results:
        if result.ratio is None or result.target is None:
            continue
        figure = figures[result.id]
        if result.met and FIXED.fullmatch(figure.against):
            others += 1
            continue
        reached = f"{number(result.value)} {result.unit}".strip()
        wanted = result.target.replace("<=", "≤").replace(">=", "≥")
        lines.append(
            f"| {figure.title} | {figure.against} | {reached} | {number(result.ratio)} | {wanted}{_VERDICT[result.met]} |"
        )
    if len(lines) == 2:
        return ""
    return "\n".join(lines) + (f"\n\n{others} figures with a fixed limit hold it." if others else "")


def _rows(title: str, rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    headings = list(dict.fromkeys(heading for row in rows for heading in row.cells))
    lines = [f"| {title} | " + " | ".join(headings) + " |", "|---" * (len(headings) + 1) + "|"]
    for row in rows:
        cells = [row.cells.get(heading) for heading in headings]
        lines.append(f"| {row.side} | " + " | ".join("" if cell is None else number(cell) for cell in cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else BASELINE
    PAGE.write_text(with_numbers(PAGE.read_text(encoding="utf-8"), chosen), encoding="utf-8")
