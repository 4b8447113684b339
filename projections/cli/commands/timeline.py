"""`timeline`: print what happened in a session, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.cli import output, times
from projections.cli.amounts import bar, dollars
from projections.cli.output import Cell
from projections.cli.screen import columns, is_terminal
from projections.cli.store_option import reading_session
from projections.cli.words import command
from projections.reports.wording import counted, moment

if TYPE_CHECKING:
    from eventlog import Session
    from projections.reports.timeline import Timeline, TimelineEntry
    from projections.reports.usage import UsageTotals

_WIDE = 120
"""Columns of a terminal that has room for bars."""


@command(reading_session, pages=True)
def timeline(session: Session, *, json: bool) -> None:
    """Print what happened in a session, and when.

    Lists messages with their first words, numbered prunes, compactions and rollbacks, forks, and
    the calls of models: tokens of the request and its answer, how full the window was, what the
    call cost, ≈ by list prices where no cost was recorded, and what was spent until then. *cache*
    is what a step read of what its provider's cache could have given, and why it missed the rest.
    """
    import msgspec

    from projections.reports import timeline as timelines

    history = timelines.timeline(session)
    if json:
        output.document(msgspec.to_builtins(history))
        return
    forks = [session.store.info(fork) for fork in history.forks]
    output.table(
        ["version", "time", "kind", "what", "words", "tokens", "window", "cache", "cost", "spent"],
        map(_row, history.entries, [None, *(entry.time for entry in history.entries)]),
        numbers=["version", "tokens", "cost", "spent"],
        flexible=["words"],
        optional=["spent", "time"],
        share=1 / 5,
    )
    for info in forks:
        title = f": {info.title}" if info.title else ""
        output.line(f"forked at version {info.forked_at} as {info.id}{title}")
    told = _sum(history.usage(), session.store.host.models.date) + _missed(history)
    if is_terminal():
        output.line(told)
    else:
        output.note(told)
        output.note(", ".join(f"{count} {kind}" for kind, count in history.kinds.items()))


def _row(entry: TimelineEntry, before: int | None) -> list[object]:
    wide = columns() >= _WIDE
    full = "" if entry.fill is None else f"{entry.fill:.0%}"
    barred = f"{bar(entry.fill or 0)} {full}" if full else ""
    looks = "red" if entry.what == "overflow" else ""
    return [
        entry.version,
        Cell(moment(entry.time), times.minute(entry.time) if wide else times.clock(entry.time, before)),
        Cell(f"{_kind(entry)}{' (hidden)' if entry.hidden else ''}", _kind(entry, drawn=True)),
        Cell(entry.what, ""),
        Cell(entry.words, _words(entry)),
        Cell(entry.tokens, f"{entry.tokens:,}" if entry.tokens and entry.kind not in _TOLD else ""),
        Cell(barred, barred if wide else full, looks),
        _cache(entry),
        Cell(entry.cost, dollars(entry.cost))
        if entry.estimate is None
        else Cell(f"≈{entry.estimate}", f"≈{dollars(entry.estimate)}"),
        Cell(entry.spent, dollars(entry.spent)),
    ]


def _cache(entry: TimelineEntry) -> Cell:
    """Return tokens read of those expected, and the cause of a miss; drawn, the miss alone."""
    use = entry.cache
    if use is None or not (use.expected or use.reported):
        return Cell(None, "")
    cause = use.cause and (use.cause if use.event is None else f"{use.cause} at {use.event}")
    lost = "" if use.lost is None else f"${use.lost}"
    told = " ".join(filter(None, (f"{use.reported}/{use.expected}", cause, lost)))
    if not use.cause:
        return Cell(told, f"{use.reported / use.tokens:.0%}")
    if not use.missed:  # whether something was is not known
        return Cell(told, "")
    if columns() < _WIDE:
        return Cell(told, use.cause, "yellow")
    return Cell(told, f"-{use.missed:,} {cause} {dollars(use.lost)}".rstrip(), "yellow")


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


def _sum(sums: UsageTotals, prices: str) -> str:
    """Return what all calls of models had and cost; also those that a rollback hides."""
    from projections.reports.usage import cost_words

    spent = f", cost {cost_words(sums, prices)}" if sums.calls or sums.untold else ""
    return f"{counted(sums.calls, 'model call')}, {counted(sums.total, 'token')}{spent}"


def _missed(history: Timeline) -> str:
    """Return what all steps missed in the caches; "" for nothing."""
    uses = [entry.cache for entry in history.entries if entry.cache is not None and entry.cache.missed]
    if not uses:
        return ""
    lost = [use.lost for use in uses if use.lost is not None]
    tokens = counted(sum(use.missed for use in uses), "token")
    return f"; {tokens} missed in caches by {counted(len(uses), 'call')}" + (f", ${sum(lost)}" if lost else "")
