"""`rollback` and `fork`: going back to a version, in the same session or in a new one.  Nothing is deleted by either."""

from __future__ import annotations

from typing import Annotated

import typer

from projections.cli import output
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import session_of, writing

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("rollback")(_rollback)
    app.command("fork")(_fork)


def _rollback(
    context: typer.Context,
    session: SESSION,
    *,
    to: Annotated[int, typer.Option("--to", min=1, metavar="V", help="The version to go back to.")],
    json: JSON = False,
) -> None:
    """Make the session what it was right after version V, also if an earlier rollback hid that.

    `eventlog undo` takes it back.  A return to the version right before the newest rollback that stands takes that one back.
    """
    with writing(context) as store:
        handle = session_of(store, session)
        result = handle.rollback(to)
        name = handle.id
    if json:
        output.document(
            {
                "session": name,
                "version": result.version,
                "to": result.to,
                "snapshots": list(result.snapshots),
                "patches": [{"hash": patch.hash, "files": list(patch.files)} for patch in result.patches],
            }
        )
        return
    output.line(f"{name} is as it was at version {to} (recorded as version {result.version})")
    if result.patches or result.snapshots:
        output.line(
            f"files had changed since: {len(result.patches)} patches, {len(result.snapshots)} snapshots; --json names them"
        )


def _fork(
    context: typer.Context,
    session: SESSION,
    *,
    at: Annotated[
        int | None, typer.Option("--at", min=1, metavar="V", help="The version to continue from [default: the newest].")
    ] = None,
    json: JSON = False,
) -> None:
    """Begin a session that continues this one as it was right after version V, and print its id."""
    with writing(context) as store:
        parent = session_of(store, session)
        fork = parent.fork(at)
        info = fork.info
        name = parent.id
    if json:
        output.document({"session": info.id, "parent": name, "at": info.forked_at, "version": info.version})
    else:
        output.line(info.id)
