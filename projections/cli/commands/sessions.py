"""`sessions` and `events`: what is in the store, session by session and event by event."""

from __future__ import annotations

from typing import Annotated

import typer

from projections.cli import output, times
from projections.cli.exits import UsageFault
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import reading, session_of

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("sessions")(_sessions)
    app.command("events")(_events)


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


def _sessions(
    context: typer.Context,
    *,
    scope: Annotated[str | None, typer.Option(help="Only those of this scope.")] = None,
    parent: Annotated[str | None, typer.Option(metavar="SESSION", help="Only sub-sessions of this session.")] = None,
    archived: Annotated[bool | None, typer.Option("--archived/--active", help="Only those put away, or not.")] = None,
    text: Annotated[str | None, typer.Option(help="Only those with this in the title.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help=f"Only those active at or after this time: {times.SINCE}.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="A page of N, by id.")] = None,
    after: Annotated[str | None, typer.Option(metavar="ID", help="The page after this id.")] = None,
    json: JSON = False,
) -> None:
    """List the sessions of the store, the latest activity first; pages (--limit, --after) go by id."""
    moment = times.since("--since", since)
    with reading(context) as store:
        found = list(
            store.sessions(
                after or "",
                scope=scope,
                parent=parent,
                archived=archived,
                text=text,
                active_since=moment,
                limit=None if limit is None else limit + 1,
            )
        )
    more = limit is not None and len(found) > limit
    if limit is None and after is None:
        found.sort(key=lambda info: (-info.updated, info.id))
    found = found[:limit]
    if json:
        sessions = [
            {key: getattr(info, key) for key in KEYS} | {"cost": None if info.spent is None else str(info.spent)}
            for info in found
        ]
        output.document({"sessions": sessions, "next": found[-1].id if more else None})
        return
    output.table(
        ["session", "title", "scope", "updated", "version", "messages", "tokens", "cost", "state"],
        (
            (
                info.id,
                info.title,
                info.scope,
                output.moment(info.updated),
                info.version,
                info.messages,
                info.tokens,
                info.spent,
                "no key" if info.locked else "archived" if info.archived else "",
            )
            for info in found
        ),
        numbers=["version", "messages", "tokens", "cost"],
        folded=["title", "scope"],
    )
    if more:
        output.line(f"more: --after {found[-1].id}")


def _events(
    context: typer.Context,
    session: SESSION,
    *,
    first: Annotated[int, typer.Option("--from", min=1, metavar="V", help="First version.")] = 1,
    last: Annotated[
        int | None, typer.Option("--to", min=1, metavar="V", help="Last version [default: the newest].")
    ] = None,
    json: JSON = False,
) -> None:
    """Print a session's events in order, also those that were inherited or rolled back.

    With --json one object a line, so that a history of any length streams.
    """
    from eventlog.errors import NotFoundError
    from projections.reports.event_json import event_kind, event_record, event_summary

    if last is not None and last < first:
        raise UsageFault(f"--to {last} is before --from {first}: no version is in between")
    with reading(context) as store:
        handle = session_of(store, session)
        if first > handle.version:
            raise NotFoundError("version", str(first), session=handle.id)
        for recorded in handle.events(after=first - 1, upto=last):
            if json:
                output.document(event_record(recorded))
            else:
                event = recorded.event
                output.line(
                    f"{recorded.version:>7}  {output.moment(recorded.time)}  {event_kind(event):<25} {event_summary(event)}".rstrip()
                )
