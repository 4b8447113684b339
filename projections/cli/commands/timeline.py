"""`timeline`: print what happened in a session, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from projections.cli import output
from projections.cli.options import JSON, SESSION, SVG
from projections.cli.part_file import write_file
from projections.cli.store_option import reading_session
from projections.reports.wording import moment

if TYPE_CHECKING:
    from projections.reports.timeline import TimelineEntry

__all__ = ["run"]

BAR = 20
"""Characters of the bar of a full window."""


def run(context: typer.Context, session: SESSION, *, svg: SVG = None, json: JSON = False) -> None:
    """Print what happened in a session, and when.

    Lists messages, steps with the fill of the window, prunes, compactions, rollbacks, forks and
    cost.
    """
    import msgspec

    from projections.reports.timeline import timeline

    with reading_session(context, session) as handle:
        history = timeline(handle)
    if svg is not None:
        from projections.exports.plots import timeline_svg

        write_file(svg, [timeline_svg(history)])
        return
    if json:
        entries = [{**msgspec.to_builtins(entry), "cost": _cost(entry)} for entry in history.entries]
        output.document(
            {
                "session": history.session,
                "version": history.version,
                "kinds": dict(history.kinds),
                "forks": list(history.forks),
                "entries": [{name: value for name, value in entry.items() if value is not None} for entry in entries],
            }
        )
        return
    rows = [
        [
            entry.version,
            moment(entry.time),
            entry.kind + (" (hidden)" if entry.hidden else ""),
            entry.what,
            entry.tokens,
            _bar(entry.fill),
            _cost(entry),
        ]
        for entry in history.entries
    ]
    output.table(
        ["version", "time", "what", "", "tokens", "window", "cost"],
        rows,
        numbers=["version", "tokens", "cost"],
        folded=[""],
    )
    for fork in history.forks:
        output.line(f"forked as {fork}")
    output.line(", ".join(f"{count} {kind}" for kind, count in history.kinds.items()))


def _bar(fill: float | None) -> str | None:
    if fill is None:
        return None
    full = min(round(fill * BAR), BAR)
    return f"{'#' * full}{'.' * (BAR - full)} {fill:.0%}"


def _cost(entry: TimelineEntry) -> str | None:
    return None if entry.cost is None else str(entry.cost)
