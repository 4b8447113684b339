"""`sessions`: list the sessions of the store."""

from __future__ import annotations

from typing import Annotated

import typer

from projections.cli import output, times
from projections.cli.options import JSON
from projections.cli.store_option import reading
from projections.reports.wording import moment

__all__ = ["run"]

KEYS = (
    "id",
    "title",
    "parent",
    "scope",
    "created",
    "updated",
    "version",
    "events",
    "messages",
    "archived",
    "tokens",
    "locked",
)


def run(
    context: typer.Context,
    *,
    scope: Annotated[str | None, typer.Option(metavar="SCOPE", help="Only sessions of this scope.")] = None,
    parent: Annotated[str | None, typer.Option(metavar="SESSION", help="Only sub-sessions of this session.")] = None,
    archived: Annotated[
        bool | None, typer.Option("--archived/--active", help="Only archived sessions, or only the others.")
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="Only sessions with this text in the title.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help=f"Only sessions with an event since: {times.TIME}.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="A page of N sessions, in order of id.")] = None,
    after: Annotated[str | None, typer.Option(metavar="ID", help="The page after this id.")] = None,
    json: JSON = False,
) -> None:
    """List the sessions of the store, the latest activity first.

    With --limit or --after a page is listed, in order of id.
    """
    active_since = times.since("--since", since)
    with reading(context) as store:
        sessions = list(
            store.sessions(
                after or "",
                scope=scope,
                parent=parent,
                archived=archived,
                text=text,
                active_since=active_since,
                limit=None if limit is None else limit + 1,
            )
        )
    more = limit is not None and len(sessions) > limit
    if limit is None and after is None:
        sessions.sort(key=lambda info: (-info.updated, info.id))
    sessions = sessions[:limit]
    if json:
        rows = [
            {key: getattr(info, key) for key in KEYS} | {"cost": None if info.spent is None else str(info.spent)}
            for info in sessions
        ]
        output.document({"sessions": rows, "next": sessions[-1].id if more else None})
        return
    output.table(
        ["session", "title", "scope", "updated", "version", "messages", "tokens", "cost", "state"],
        (
            (
                info.id,
                info.title,
                info.scope,
                moment(info.updated),
                info.version,
                info.messages,
                info.tokens,
                info.spent,
                "no key" if info.locked else "archived" if info.archived else "",
            )
            for info in sessions
        ),
        numbers=["version", "messages", "tokens", "cost"],
        folded=["title", "scope"],
    )
    if more:
        output.line(f"more: --after {sessions[-1].id}")
