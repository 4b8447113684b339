"""`redact`: hide a part in every view."""

from __future__ import annotations

from typing import Annotated

import typer

from projections.cli import output
from projections.cli.options import JSON, REASON, SESSION
from projections.cli.store_option import writing_session

__all__ = ["run"]


def run(
    context: typer.Context,
    session: SESSION,
    part: Annotated[str, typer.Argument(metavar="PART", help="Id of the part; `eventlog show --json` lists them.")],
    *,
    reason: REASON = "",
    search: Annotated[bool, typer.Option(help="List other places with the same text.")] = True,
    json: JSON = False,
) -> None:
    """Hide a part in every view of its session and its forks.

    The part is hidden at every version, earlier ones included. Other places with the same text are
    listed, so that they can be redacted, too. `eventlog scrub` then removes the content from the
    files.
    """
    from msgspec.structs import asdict

    from projections.reports.event_json import kind_named

    with writing_session(context, session) as handle:
        result = handle.redact(part, reason, search=search)
    if json:
        occurrences = [{**asdict(place), "kind": kind_named(place.kind)} for place in result.occurrences]
        output.document({"part": result.part, "session": result.session, "occurrences": occurrences})
        return
    output.line(f"{result.part} of {result.session} is redacted")
    if result.occurrences:
        output.line("The same text, or a line of it, is also in:")
        rows = [(place.session, place.version, kind_named(place.kind), place.part) for place in result.occurrences]
        output.table(["session", "version", "event", "part"], rows, numbers=["version"])
