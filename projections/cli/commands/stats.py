"""`stats`: count what a session or the store holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from projections.cli import output
from projections.cli.options import JSON, OPTIONAL_SESSION
from projections.cli.stats_tables import print_session_stats
from projections.cli.store_option import reading, session_of, store_path

if TYPE_CHECKING:
    from eventlog import Session, Store
    from projections.reports.usage import UsageTotals

__all__ = ["run"]


def run(context: typer.Context, session: OPTIONAL_SESSION = None, *, json: JSON = False) -> None:
    """Count what a session or the store holds, and what it cost."""
    with reading(context) as store:
        if session is None:
            totals = _store_stats(store, store_path(context))
            if json:
                output.document({"store": totals})
            else:
                path = totals.pop("path")
                output.table(["store", path], totals.items(), numbers=[path])
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
    }


def _session_stats(session: Session) -> dict[str, Any]:
    from msgspec.structs import asdict

    from projections.reports.event_json import kind_named
    from projections.reports.stats import session_stats
    from projections.reports.usage import session_usage
    from projections.view.model_view import ModelView

    stats = session_stats(session)
    view = ModelView.of(session)
    return {
        "id": session.id,
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
