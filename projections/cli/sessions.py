"""`sessions` and `events`: what is in the store, session by session and event by event."""

from __future__ import annotations

from typing import Annotated

import typer

from projections.cli import output
from projections.cli.options import JSON, SESSION
from projections.cli.place import reading, session_of

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("sessions")(_sessions)
    app.command("events")(_events)


def _sessions(context: typer.Context, *, json: JSON = False) -> None:
    """List the sessions of the store, the latest activity first."""
    with reading(context) as store:
        found = sorted(store.sessions(), key=lambda info: (-info.updated, info.id))
    if json:
        keys = ["id", "title", "parent", "scope", "created", "updated", "version", "events", "messages", "archived"]
        output.document({"sessions": [{key: getattr(info, key) for key in keys} for info in found]})
        return
    output.table(
        ["session", "title", "scope", "updated", "version", "messages", "state"],
        (
            (
                info.id,
                info.title,
                info.scope,
                output.moment(info.updated),
                info.version,
                info.messages,
                "archived" if info.archived else "",
            )
            for info in found
        ),
        numbers=["version", "messages"],
        folded=["title", "scope"],
    )


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
    from projections.cli.record import kind_of, record, summary

    with reading(context) as store:
        for recorded in session_of(store, session).events(after=first - 1, upto=last):
            if json:
                output.document(record(recorded))
            else:
                event = recorded.event
                output.line(
                    f"{recorded.version:>7}  {output.moment(recorded.time)}  {kind_of(event):<25} {summary(event)}".rstrip()
                )
