"""`rollback`: return a session to an earlier version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click import option

from projections.cli import output
from projections.cli.exits import UsageFault
from projections.cli.options import JSON, SESSION
from projections.cli.short_ids import is_number, is_part, part_named
from projections.cli.store_option import writing_session
from projections.cli.words import Context, command, integer

if TYPE_CHECKING:
    from eventlog import Session


@command
@SESSION
@integer("--to", least=1, metavar="V", help="The version to return to.")
@option(
    "--before",
    metavar="MESSAGE|V",
    help="Return to right before this message (its id, or its unique beginning or end) or version.",
)
@JSON
def run(context: Context, session: str, *, to: int | None, before: str | None, json: bool) -> None:
    """Return a session to an earlier version.

    The session is then as it was right after version V (`--to`), also if an earlier rollback hid
    that version, or right before MESSAGE or version V (`--before`). Nothing is deleted:
    `eventlog undo` takes the rollback back, and so does a rollback to the version right before it.
    """
    if (to is None) == (before is None):
        raise UsageFault("rollback needs --to V or --before MESSAGE|V, one of them")
    with writing_session(context, session) as handle:
        if before is not None:
            to, before = _place(handle, before)
        result = handle.rollback(to, before=before)
        name = handle.id
    where = f"version {result.to}" + ("" if before is None else f", right before {before}")
    lines = [f"{name} is as it was at {where} (recorded as version {result.version})"]
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


def _place(session: Session, word: str) -> tuple[int | None, str | None]:
    """Return the version right before the one that a word names, or else the id of a message."""
    if not is_number(word) or is_part(session, word):
        return None, part_named(session, word)
    if word.startswith("0") or word == "1":
        raise UsageFault(f"--before {word}: a version from 2 on, written without a zero in front, or a message")
    if int(word) > session.version:
        from eventlog.errors import NotFoundError

        raise NotFoundError("version", word, session=session.id)
    return int(word) - 1, None
