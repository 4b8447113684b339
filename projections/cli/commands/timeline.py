"""`timeline`: print what happened in a session, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.cli import output, times
from projections.cli.amounts import dollars
from projections.cli.grammar import Context
from projections.cli.options import JSON, SESSION, SVG
from projections.cli.part_file import write_file
from projections.cli.store_option import reading_session
from projections.reports.wording import moment

if TYPE_CHECKING:
    from projections.reports.timeline import TimelineEntry

__all__ = ["run"]

_WIDE = 120
"""Columns of a terminal that has room for bars."""
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
            output.Cell(entry.words, _words(entry)),
            output.Cell(entry.tokens, f"{entry.tokens:,}" if entry.tokens and entry.kind not in _TOLD else ""),
            output.Cell(_bar(entry.fill), _bar(entry.fill, drawn=output.columns() >= _WIDE) or ""),
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
    if not output.terminal():
        output.note(", ".join(f"{count} {kind}" for kind, count in history.kinds.items()))


_TOLD = {"pruned": "tokens freed", "compacted": "tokens left"}
"""Entries whose tokens are in their words, because they are not those of a request."""


def _words(entry: TimelineEntry) -> str:
    """Return what a terminal is told of an entry."""
    if entry.kind in _TOLD:
        told = f"{entry.tokens or 0:,} {_TOLD[entry.kind]}"
        return f"{told}: {entry.what}" if entry.kind == "pruned" else told
    if entry.kind.startswith("tool-"):
        return f"{entry.what}: {entry.words}"
    if entry.kind in {"user", "assistant", "summary"}:  # its id says less than its words
        return entry.words or entry.what.partition(" ")[2] or "(no text)"
    return entry.what


def _kind(entry: TimelineEntry) -> str:
    number = "" if entry.number is None else f" {entry.number}"
    return f"{entry.kind}{number}{' (hidden)' if entry.hidden else ''}"


def _bar(fill: float | None, *, drawn: bool = True) -> str | None:
    if fill is None or not drawn:
        return None if fill is None else f"{fill:.0%}"
    full = min(round(fill * BAR), BAR)
    return f"{'#' * full}{'.' * (BAR - full)} {fill:.0%}"


def _cost(entry: TimelineEntry) -> str | None:
    return None if entry.cost is None else str(entry.cost)
