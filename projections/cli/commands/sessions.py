"""`sessions`: list the sessions of the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from projections.cli import output, times
from projections.cli.exits import UsageFault
from projections.cli.options import JSON
from projections.cli.store_option import reading
from projections.reports.wording import moment

if TYPE_CHECKING:
    from eventlog import SessionInfo

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
    "name",
    "note",
    "state",
)
_PAGE = 20
"""Sessions on a page of --newest where there is no --limit."""


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
    newest: Annotated[
        bool, typer.Option("--newest", help="A page in order of activity, of a scope or of all.")
    ] = False,
    cursor: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="The page after that one of --newest, with the same options.")
    ] = None,
    json: JSON = False,
) -> None:
    """List the sessions of the store, the latest activity first.

    With --limit or --after a page is listed, in order of id; with --newest one in order of
    activity, which is quick among any number of sessions.
    """
    if newest or cursor is not None:
        others = {"--parent": parent, "--text": text, "--since": since, "--after": after}
        given = [name for name, value in others.items() if value is not None]
        if given:
            raise UsageFault(f"--newest lists a scope or all sessions: leave out {', '.join(given)}")
        with reading(context) as store:
            page = store.newest_sessions(scope, archived=archived, cursor=cursor, limit=limit or _PAGE)
        _show(page.sessions, page.next, "--newest --cursor", json=json)
        return
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
    _show(sessions, sessions[-1].id if more else None, "--after", json=json)


def _states(info: SessionInfo) -> Iterator[str]:
    """Yield what the table says of a session besides its totals; its state if work is open."""
    if info.locked:
        yield "no key"
    if info.archived:
        yield "archived"
    if info.state in {"running", "unfinished"}:
        yield info.state


def _show(sessions: Sequence[SessionInfo], following: str | None, option: str, *, json: bool) -> None:
    """Print a page, and where the next one begins with an option."""
    if json:
        rows = [
            {key: getattr(info, key) for key in KEYS} | {"cost": None if info.spent is None else str(info.spent)}
            for info in sessions
        ]
        output.document({"sessions": rows, "next": following})
        return
    output.table(
        ["session", "title", "scope", "updated", "version", "messages", "tokens", "cost", "state", "name", "note"],
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
                ", ".join(_states(info)),
                "" if info.name is None else ":".join(info.name),
                info.note,
            )
            for info in sessions
        ),
        numbers=["version", "messages", "tokens", "cost"],
        folded=["title", "scope", "name", "note"],
    )
    if following is not None:
        output.line(f"more: {option} {following}")
