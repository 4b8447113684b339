"""`rollback`: return a session to an earlier version."""

from __future__ import annotations

from typing import Annotated

import typer

from projections.cli import output
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import writing_session

__all__ = ["run"]


def run(
    context: typer.Context,
    session: SESSION,
    *,
    to: Annotated[int, typer.Option("--to", min=1, metavar="V", help="The version to return to.")],
    json: JSON = False,
) -> None:
    """Return a session to an earlier version.

    The session is then as it was right after version V, also if an earlier rollback hid that
    version. Nothing is deleted: `eventlog undo` takes the rollback back, and so does a rollback to
    the version right before it.
    """
    with writing_session(context, session) as handle:
        result = handle.rollback(to)
        name = handle.id
    lines = [f"{name} is as it was at version {to} (recorded as version {result.version})"]
    if result.patches or result.snapshots:
        changes = f"{len(result.patches)} patches, {len(result.snapshots)} snapshots"
        lines.append(f"files had changed since: {changes}; --json names them")
    output.answer(
        {
            "session": name,
            "version": result.version,
            "to": result.to,
            "snapshots": list(result.snapshots),
            "patches": [{"hash": patch.hash, "files": list(patch.files)} for patch in result.patches],
        },
        *lines,
        json=json,
    )
