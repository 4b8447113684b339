"""Tables that several commands print: the numbers of a session, and its parts with sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from projections.cli import output
from projections.cli.amounts import dollars, money, number, sign
from projections.cli.short_ids import ShortIds
from projections.reports.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog import Session
    from projections.reports.stats import SessionStats
    from projections.reports.usage import UsageTotals
    from projections.view.model_view import ModelView
    from projections.window.sizing.breakdown import PartSize


def print_session_stats(session: Session, *, json: bool = False) -> None:
    """Print a session's numbers."""
    from projections.cli.holders import runner
    from projections.reports.stats import session_stats
    from projections.reports.usage import cost_words, session_usage
    from projections.view.model_view import ModelView

    stats = session_stats(session)
    view = ModelView.of(session)
    run_by = runner(session.store, session.id)
    spent = {"own": stats.usage, "inherited": stats.inherited_usage, "tree": session_usage(session).tree}
    if json:
        output.document({"session": {"id": session.id, "run_by": run_by, **_document(stats, view, spent)}})
        return
    facts = _session_rows(stats, view)
    output.table(["session", session.id], facts if run_by is None else [*facts, ("run by", run_by)])
    if stats.tools:
        output.gap()
        columns = ["tool", "calls", "completed", "failed", "interrupted", "unfinished"]
        rows = [[tool.tool, tool.calls, *(getattr(tool, name) or None for name in columns[2:])] for tool in stats.tools]
        output.table(columns, rows, numbers=columns[1:], flexible=["tool"])
    if spent["tree"] == stats.usage:
        del spent["tree"]
    if any(spent.values()):
        output.gap()
        prices = session.store.host.models.date
        columns = ["model", "calls", "input", "output", "reasoning", "cache_read", "cache_write", "cost"]
        rows = [
            [
                whose,
                totals.model,
                *(number(getattr(totals, name)) for name in columns[1:-1]),
                output.Cell(cost_words(totals, prices), _sum(totals)),
            ]
            for whose, by_model in spent.items()
            for totals in by_model
        ]
        names = [name.replace("_", " ") for name in columns]
        output.table(["spent", *names], rows, numbers=names[1:], flexible=["model"], optional=["reasoning"])


def _document(stats: SessionStats, view: ModelView, spent: dict[str, list[UsageTotals]]) -> dict[str, Any]:
    from projections.reports.event_json import kind_named

    return {
        "version": stats.version,
        "events": {
            "own": stats.events,
            "inherited": stats.inherited,
            "hidden": stats.hidden,
            "kinds": {kind_named(name): count for name, count in stats.kinds.items()},
        },
        "deltas": {"count": stats.deltas, "characters": stats.delta_characters},
        "messages": {"user": stats.user_messages, "assistant": stats.assistant_messages},
        "parts": stats.parts,
        "tools": stats.tools,
        "usage": {
            whose: [{**output.fields(totals), **money(totals)} for totals in by_model]
            for whose, by_model in spent.items()
        },
        "view": {"messages": len(view.messages), "tokens": view.tokens},
    }


def _sum(totals: UsageTotals) -> str:
    """Return the cost in short."""
    if totals.unpriced == totals.calls and not totals.estimated:
        return "unknown"
    return sign(totals.unpriced + totals.untold, totals.estimated) + dollars(totals.known)


def _session_rows(stats: SessionStats, view: ModelView) -> list[tuple[str, object]]:
    parts = ", ".join(f"{count:,} {kind}" for kind, count in stats.parts.items())
    inherited = ", inherited ones included" if stats.inherited else ""
    return [
        ("version", stats.version),
        ("events", f"{stats.events:,} own, {stats.inherited:,} inherited, {stats.hidden:,} hidden"),
        ("deltas", f"{stats.deltas:,} of {counted(stats.delta_characters, 'character')}"),
        ("messages", f"{stats.user_messages:,} user, {stats.assistant_messages:,} assistant{inherited}"),
        ("parts", parts or "none"),
        ("view", f"{counted(len(view.messages), 'message')}, {counted(view.tokens, 'token')}"),
    ]


def print_parts(parts: Sequence[PartSize]) -> None:
    """Print parts with their sizes."""
    short = ShortIds(part.id for part in parts)
    rows = [
        (
            short.cell(part.id),
            part.kind,
            part.tool,
            part.title,
            part.words,
            number(part.tokens),
            ", ".join(name for name in ("pruned", "truncated") if getattr(part, name)),
        )
        for part in parts
    ]
    output.table(
        ["part", "kind", "tool", "title", "words", "tokens", "state"],
        rows,
        numbers=["tokens"],
        flexible=["words", "title", "tool"],
        optional=["title"],
    )
