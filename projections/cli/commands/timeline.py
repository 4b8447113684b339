"""`timeline`: print what happened in a session, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.cli import output, times
from projections.cli.amounts import dollars
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import reading_session
from projections.cli.words import Context, paged_command
from projections.reports.wording import counted, moment

if TYPE_CHECKING:
    from decimal import Decimal

    from projections.reports.timeline import TimelineEntry
    from projections.reports.usage import UsageTotals

__all__ = ["run"]

_WIDE = 120
"""Columns of a terminal that has room for bars."""
BAR = 10
"""Characters of the bar of a full window."""


@paged_command
@SESSION
@JSON
def run(context: Context, session: str, *, json: bool) -> None:
    """Print what happened in a session, and when.

    Lists messages with their first words, numbered prunes, compactions and rollbacks, forks, and
    the calls of models: tokens of the request and its answer, how full the window was, what the
    call cost, ≈ by list prices where no cost was recorded, and what was spent until then.
    """
    import msgspec

    from projections.reports.timeline import timeline

    with reading_session(context, session) as handle:
        history = timeline(handle)
        forks = [handle.store.info(fork) for fork in history.forks]
        prices = handle.store.host.models.date
    if json:
        entries = [
            {
                **msgspec.to_builtins(entry),
                **{name: _text(getattr(entry, name)) for name in ("cost", "estimate", "spent")},
            }
            for entry in history.entries
        ]
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
    output.table(
        ["version", "time", "kind", "what", "words", "tokens", "window", "cost", "spent"],
        map(_row, history.entries),
        numbers=["version", "tokens", "cost", "spent"],
        flexible=["words"],
        optional=["spent", "time"],
        styles={"version": "yellow", "time": "dim", "kind": "cyan", "cost": "green", "spent": "green"},
    )
    for info in forks:
        title = f": {info.title}" if info.title else ""
        output.line(f"forked at version {info.forked_at} as {info.id}{title}")
    if output.terminal():
        output.line(_sum(history.usage(), prices))
    else:
        output.note(_sum(history.usage(), prices))
        output.note(", ".join(f"{count} {kind}" for kind, count in history.kinds.items()))


def _row(entry: TimelineEntry) -> list[object]:
    return [
        entry.version,
        output.Cell(moment(entry.time), times.minute(entry.time)),
        output.Cell(f"{_kind(entry)}{' (hidden)' if entry.hidden else ''}", _kind(entry, drawn=True)),
        output.Cell(entry.what, ""),
        output.Cell(entry.words, _words(entry)),
        output.Cell(entry.tokens, f"{entry.tokens:,}" if entry.tokens and entry.kind not in _TOLD else ""),
        output.Cell(
            _bar(entry.fill),
            _bar(entry.fill, drawn=output.columns() >= _WIDE) or "",
            "red" if entry.what == "overflow" else "",
        ),
        output.Cell(_text(entry.cost), dollars(entry.cost))
        if entry.estimate is None
        else output.Cell(f"≈{entry.estimate}", f"≈{dollars(entry.estimate)}"),
        output.Cell(_text(entry.spent), dollars(entry.spent)),
    ]


_TOLD = {"pruned": "tokens freed", "compacted": "tokens left"}
"""Entries whose tokens are in their words, because they are not those of a call."""
_MESSAGES = frozenset(("user", "assistant", "summary"))
_DRAWN = {"compaction-requested": "compacting", "compaction-failed": "not compacted"}
"""Kinds with a shorter name on a terminal."""


def _words(entry: TimelineEntry) -> str:
    """Return what a terminal is told of an entry."""
    return f"{'(hidden) ' if entry.hidden else ''}{_visible_words(entry)}"


def _visible_words(entry: TimelineEntry) -> str:
    if entry.kind in _TOLD:
        told = f"{entry.tokens or 0:,} {_TOLD[entry.kind]}"
        return f"{told}: {entry.what}" if entry.kind == "pruned" else told
    if entry.kind.startswith("tool-"):
        return f"{entry.what}: {entry.words}"
    if entry.kind in _MESSAGES and entry.tokens is None:  # its id says less than its words
        return entry.words or entry.what.partition(" ")[2] or "(no text)"
    return entry.what


def _kind(entry: TimelineEntry, *, drawn: bool = False) -> str:
    """Return the kind; drawn, it is shorter, and a summary is told from the call for it."""
    name = _DRAWN.get(entry.kind, entry.kind) if drawn else entry.kind
    if drawn and entry.tokens is not None and entry.kind not in {*_TOLD, "step"}:
        name += " call"
    return name if entry.number is None else f"{name} {entry.number}"


def _bar(fill: float | None, *, drawn: bool = True) -> str | None:
    if fill is None or not drawn:
        return None if fill is None else f"{fill:.0%}"
    full = min(round(fill * BAR), BAR)
    return f"{'#' * full}{'.' * (BAR - full)} {fill:.0%}"


def _sum(sums: UsageTotals, prices: str) -> str:
    """Return what all calls of models had and cost; also those that a rollback hides."""
    from projections.reports.usage import cost_words

    spent = f", cost {cost_words(sums, prices)}" if sums.calls else ""
    return f"{counted(sums.calls, 'model call')}, {counted(sums.total, 'token')}{spent}"


def _text(cost: Decimal | None) -> str | None:
    return None if cost is None else str(cost)
