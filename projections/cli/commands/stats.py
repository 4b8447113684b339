"""`stats`: count what a session or the store holds."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from projections.cli import output
from projections.cli.amounts import dollars, number
from projections.cli.grammar import Context
from projections.cli.options import JSON, OPTIONAL_SESSION
from projections.cli.short_ids import ShortIds, session_of
from projections.cli.stats_tables import print_session_stats
from projections.cli.store_option import reading, store_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from eventlog import Session, SessionInfo, Store
    from projections.reports.usage import UsageTotals

__all__ = ["run"]


def run(context: Context, session: OPTIONAL_SESSION = None, *, json: JSON = False) -> None:
    """Count what a session or the store holds, and what it cost.

    Of the store it also lists the sessions that cost most, and those with most tokens.
    """
    with reading(context) as store:
        if session is None:
            totals = _store_stats(store, store_path(context))
            if json:
                output.document({"store": totals})
            else:
                _print_store(totals, (head.session for head in store.log.heads()))
            return
        handle = session_of(store, session)
        if json:
            output.document({"session": _session_stats(handle)})
        else:
            print_session_stats(handle)


def _store_stats(store: Store, path: Path) -> dict[str, Any]:
    """Return the totals of a store, from its catalog; no event is read."""
    from eventlog.log.embedded.directory import bytes_on_disk

    sessions = list(store.sessions())
    return {
        "path": str(path),
        "sessions": len(sessions),
        "archived": sum(info.archived for info in sessions),
        "forks": sum(info.fork_of is not None for info in sessions),
        "subsessions": sum(info.parent is not None for info in sessions),
        "events": sum(info.events for info in sessions),
        "messages": sum(info.messages for info in sessions),
        "bytes": bytes_on_disk(path),
        "tokens": sum(info.tokens for info in sessions),
        "cost": _sum(info.spent for info in sessions),
        "dearest": [_spender(info) for info in _most(sessions, _cost_of)],
        "largest": [_spender(info) for info in _most(sessions, lambda info: info.tokens)],
    }


_TOP = 5
"""Sessions that are listed by what they cost, and by tokens."""


def _cost_of(info: SessionInfo) -> Decimal:
    return info.spent or Decimal(0)


def _most(sessions: list[SessionInfo], size: Callable[[SessionInfo], Decimal | int]) -> list[SessionInfo]:
    """Return the sessions with the most of something, none without any."""
    return [info for info in sorted(sessions, key=size, reverse=True)[:_TOP] if size(info)]


def _spender(info: SessionInfo) -> dict[str, Any]:
    return {"id": info.id, "title": info.title, "tokens": info.tokens, "cost": _text(info.spent)}


def _sum(costs: Iterable[Decimal | None]) -> str | None:
    known = [cost for cost in costs if cost is not None]
    return _text(sum(known, Decimal(0)) if known else None)


def _text(cost: Decimal | None) -> str | None:
    return None if cost is None else str(cost)


def _print_store(totals: dict[str, Any], ids: Iterable[str]) -> None:
    """Print the totals, then the sessions that cost most and that have most tokens."""
    path = totals.pop("path")
    lists = {"most expensive": totals.pop("dearest"), "most tokens": totals.pop("largest")}
    cost = totals.pop("cost")
    rows: list[tuple[str, object]] = [(name, number(count)) for name, count in totals.items()]
    rows.append(("cost", "unknown" if cost is None else output.Cell(cost, dollars(Decimal(cost)))))
    output.table(["store", path], rows, numbers=[path])
    short = ShortIds(ids)
    for title, found in lists.items():
        if found and output.terminal():
            output.gap()
            output.table(
                [title, "title", "tokens", "cost"],
                [
                    (
                        output.Cell(each["id"], short.of(each["id"])),
                        each["title"],
                        number(each["tokens"]),
                        each["cost"] and output.Cell(each["cost"], dollars(Decimal(each["cost"]))),
                    )
                    for each in found
                ],
                numbers=["tokens", "cost"],
                flexible=["title"],
                styles={title: "yellow", "cost": "green"},
            )


def _session_stats(session: Session) -> dict[str, Any]:
    from msgspec.structs import asdict

    from projections.cli.holders import runner
    from projections.reports.event_json import kind_named
    from projections.reports.stats import session_stats
    from projections.reports.usage import session_usage
    from projections.view.model_view import ModelView

    stats = session_stats(session)
    view = ModelView.of(session)
    return {
        "id": session.id,
        "version": stats.version,
        "run_by": runner(session.store, session.id),
        "events": {
            "own": stats.events,
            "inherited": stats.inherited,
            "hidden": stats.hidden,
            "kinds": {kind_named(name): count for name, count in stats.kinds.items()},
        },
        "deltas": {"count": stats.deltas, "characters": stats.delta_characters},
        "messages": {"user": stats.user_messages, "assistant": stats.assistant_messages},
        "parts": stats.parts,
        "tools": [asdict(tool) for tool in stats.tools],
        "usage": {
            "own": _usage(stats.usage),
            "inherited": _usage(stats.inherited_usage),
            "tree": _usage(session_usage(session).tree),
        },
        "view": {"messages": len(view.messages), "tokens": view.tokens},
    }


def _usage(by_model: list[UsageTotals]) -> list[dict[str, Any]]:
    from msgspec.structs import asdict

    return [
        {
            **asdict(totals),
            "cost": str(totals.cost) if totals.calls > totals.unpriced else None,
            "estimate": str(totals.estimate) if totals.estimated else None,
        }
        for totals in by_model
    ]
