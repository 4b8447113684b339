"""A run as Markdown: machine, targets, tables, plots and remarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from benchmarks.baseline import Run
from benchmarks.figures import Curve, Figure, Result, Row
from benchmarks.plots import PLOTS
from benchmarks.report import number

__all__ = ["markdown"]

_VERDICT = {True: "", False: ", missed", None: ""}
_TABLES = {
    "turn": "A turn (question, 400 characters in deltas, 4 KB result), ms at so many messages",
    "load": "Loading a conversation, ms at so many messages",
    "kept": "MB on the disk at so many messages",
    "stream": "An answer of 2,000 deltas, µs for each delta",
}


def markdown(run: Run, figures: Mapping[str, Figure], drawn: Sequence[str] = ()) -> str:
    """Return all numbers of a run; `drawn` are the paths of its plots, named after the plots."""
    parts = [_machine(run.machine), _targets(figures, run.results)]
    parts += [
        _rows(title, [row for row in run.rows if row.table == title])
        for title in dict.fromkeys(row.table for row in run.rows)
    ]
    parts += [_beside(title, [curve for curve in run.curves if curve.plot == plot]) for plot, title in _TABLES.items()]
    if drawn:
        parts.append("\n".join(f"![{PLOTS[PurePath(path).stem].title}]({path})" for path in drawn))
    if run.remarks:
        parts.append("\n".join(f"- {side}: {remark}." for side, remark in run.remarks.items()))
    if run.missing:
        parts.append("\n".join(f"Not measured: {gap.peer} (`{gap.install}`; {gap.reason})." for gap in run.missing))
    return "\n\n".join(part for part in parts if part) + "\n"


def _machine(machine: Mapping[str, object]) -> str:
    return (
        f"Measured on {machine['cores']} cores ({machine['processor']}), {machine['memory']}, {machine['filesystem']}, "
        f"{machine['system']}, Python {machine['python']}, {str(machine['time'])[:10]}."
    )


def _targets(figures: Mapping[str, Figure], results: Sequence[Result]) -> str:
    lines = ["| what | against | reached | ratio | target |", "|---|---|---|---|---|"]
    for result in results:
        if result.target is not None and result.ratio is not None:
            figure = figures[result.id]
            reached = f"{number(result.value)} {result.unit}".strip()
            wanted = result.target.replace("<=", "≤").replace(">=", "≥")
            lines.append(
                f"| {figure.title} | {figure.against} | {reached} | {number(result.ratio)} | {wanted}{_VERDICT[result.met]} |"
            )
    return "\n".join(lines) if len(lines) > 2 else ""


def _rows(title: str, rows: Sequence[Row]) -> str:
    headings = list(dict.fromkeys(heading for row in rows for heading in row.cells))
    lines = [f"| {title} | " + " | ".join(headings) + " |", "|---" * (len(headings) + 1) + "|"]
    for row in rows:
        cells = [row.cells.get(heading) for heading in headings]
        lines.append(f"| {row.side} | " + " | ".join("" if cell is None else number(cell) for cell in cells) + " |")
    return "\n".join(lines)


def _beside(title: str, curves: Sequence[Curve]) -> str:
    lengths = sorted({length for curve in curves for length, _ in curve.points})
    if not lengths:
        return ""
    heads = [f"{length:,.0f}" for length in lengths]
    lines = [f"| {title} | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for curve in curves:
        points = dict(curve.points)
        cells = [number(points[length]) if length in points else "" for length in lengths]
        if any(cells):
            lines.append(f"| {curve.side} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
