"""`rollback`: return a session to an earlier version."""

from __future__ import annotations

from typing import Annotated

from projections.cli import output
from projections.cli.exits import UsageFault
from projections.cli.grammar import Context, Option
from projections.cli.options import JSON, SESSION
from projections.cli.short_ids import part_named
from projections.cli.store_option import writing_session

__all__ = ["run"]


def run(
    context: Context,
    session: SESSION,
    *,
    to: Annotated[int | None, Option("--to", min=1, metavar="V", help="The version to return to.")] = None,
    before: Annotated[
        str | None,
        Option("--before", metavar="MESSAGE", help="Return to right before this message: its id, or an end of it."),
    ] = None,
    json: JSON = False,
) -> None:
    """Return a session to an earlier version.

    The session is then as it was right after version V, also if an earlier rollback hid that
    version, or right before MESSAGE was added. Nothing is deleted: `eventlog undo` takes the
    rollback back, and so does a rollback to the version right before it.
    """
    if (to is None) == (before is None):
        raise UsageFault("rollback needs --to V or --before MESSAGE, one of them")
    with writing_session(context, session) as handle:
        result = handle.rollback(to, before=None if before is None else part_named(handle, before))
        name = handle.id
    to = result.to
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
