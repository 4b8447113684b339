"""`timeline`: print what happened in a session, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.cli import output, times
from projections.cli.amounts import dollars, number
from projections.cli.grammar import Context
from projections.cli.options import JSON, SESSION, SVG
from projections.cli.part_file import write_file
from projections.cli.store_option import reading_session
from projections.reports.wording import moment

if TYPE_CHECKING:
    from projections.reports.timeline import TimelineEntry

__all__ = ["run"]

BAR = 10
"""Characters of the bar of a full window."""


def run(context: Context, session: SESSION, *, svg: SVG = None, json: JSON = False) -> None:
    """Print what happened in a session, and when.

    Lists messages with their first words, steps with the fill of the window, numbered prunes,
    compactions and rollbacks, forks, and the cost so far.
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
            output.Cell(moment(entry.time), times.minute(entry.time)),
            _kind(entry),
            output.Cell(entry.what, ""),
            output.Cell(entry.words, entry.words or entry.what),
            number(entry.tokens),
            _bar(entry.fill),
            output.Cell(_cost(entry), dollars(entry.cost)),
        ]
        for entry in history.entries
    ]
    output.table(
        ["version", "time", "kind", "what", "words", "tokens", "window", "cost"],
        rows,
        numbers=["version", "tokens", "cost"],
        flexible=["words"],
        optional=["window", "time"],
        styles={"version": "yellow", "time": "dim", "kind": "cyan", "cost": "green"},
    )
    for fork in history.forks:
        output.line(f"forked as {fork}")
    output.note(", ".join(f"{count} {kind}" for kind, count in history.kinds.items()))


def _kind(entry: TimelineEntry) -> str:
    number = "" if entry.number is None else f" {entry.number}"
    return f"{entry.kind}{number}{' (hidden)' if entry.hidden else ''}"


def _bar(fill: float | None) -> str | None:
    if fill is None:
        return None
    full = min(round(fill * BAR), BAR)
    return f"{'#' * full}{'.' * (BAR - full)} {fill:.0%}"


def _cost(entry: TimelineEntry) -> str | None:
    return None if entry.cost is None else str(entry.cost)
