"""`redact` and `scrub`: taking what was said out of every view, and then out of every file."""

from __future__ import annotations

from typing import Annotated

import typer

from projections.cli import output
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import session_of, writing
from projections.reports.wording import counted

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("redact")(_redact)
    app.command("scrub")(_scrub)


def _redact(
    context: typer.Context,
    session: SESSION,
    part: Annotated[str, typer.Argument(metavar="PART", help="Id of the part; `eventlog show --json` lists them.")],
    *,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recorded.")] = "",
    search: Annotated[bool, typer.Option(help="List where else the same text stands.")] = True,
    json: JSON = False,
) -> None:
    """Hide what a part says in every view of every version, in this session and in all its forks.

    Lists where else the same text stands, so that it can be redacted there.  The bytes go with `eventlog scrub`.
    """
    from msgspec.structs import asdict

    from projections.reports.event_json import kind_named

    with writing(context) as store:
        done = session_of(store, session).redact(part, reason, search=search)
    if json:
        found = [{**asdict(one), "kind": kind_named(one.kind)} for one in done.occurrences]
        output.document({"part": done.part, "session": done.session, "occurrences": found})
        return
    output.line(f"{done.part} of {done.session} is redacted")
    if done.occurrences:
        output.line("The same text, or a line of it, stands also in:")
        rows = [(one.session, one.version, kind_named(one.kind), one.part) for one in done.occurrences]
        output.table(["session", "version", "event", "part"], rows, numbers=["version"])


def _scrub(context: typer.Context, *, json: JSON = False) -> None:
    """Take what was redacted and erased out of every file of the store, which is written anew.

    Nobody else may have the store open.  Backups forget it with their next `eventlog backup`.  `verify` still passes.
    """
    from msgspec.structs import asdict

    with writing(context) as store:
        done = store.scrub()
    if json:
        output.document(asdict(done))
    else:
        output.line(
            f"{counted(done.emptied, 'append')} emptied, {counted(done.erased, 'session')} erased; {counted(done.bytes_after, 'byte')} are left"
        )
