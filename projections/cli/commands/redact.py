"""`redact`: hide a part in every view."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from click import argument, option

from projections.cli import output
from projections.cli.confirm import confirm
from projections.cli.options import JSON, REASON, SESSION, YES
from projections.cli.short_ids import part_named
from projections.cli.store_option import writing_session
from projections.cli.words import Context, command

if TYPE_CHECKING:
    from eventlog import Session


@command
@SESSION
@argument("part", help="Id of the part; `eventlog show --json` lists them.")
@REASON
@option("--search/--no-search", default=True, help="List other places with the same text.")
@YES
@JSON
def run(context: Context, session: str, part: str, *, reason: str, search: bool, yes: bool, json: bool) -> None:
    """Hide a part in every view of its session and its forks.

    The part is hidden at every version, earlier ones included. Other places with the same text are
    listed, so that they can be redacted, too. `eventlog scrub` then removes the content from the
    files. Asks first: a redaction cannot be undone.
    """
    from msgspec.structs import asdict

    from projections.reports.event_json import kind_named

    with writing_session(context, session) as handle:
        name = part_named(handle, part)
        confirm(f"part {name} of {handle.id} will be hidden for good", *_content(handle, name), yes=yes)
        result = handle.redact(name, reason, search=search)
    if json:
        occurrences = [{**asdict(place), "kind": kind_named(place.kind)} for place in result.occurrences]
        output.document({"part": result.part, "session": result.session, "occurrences": occurrences})
        return
    output.line(f"{result.part} of {result.session} is redacted")
    if result.occurrences:
        output.line("The same text, or a line of it, is also in:")
        rows = [(place.session, place.version, kind_named(place.kind), place.part) for place in result.occurrences]
        output.table(["session", "version", "event", "part"], rows, numbers=["version"])


def _content(session: Session, part: str) -> Iterator[str]:
    """Yield the first words of what will be hidden, if there are any."""
    from eventlog.errors import EventlogError
    from projections.view.opening_words import opening
    from projections.window import recall

    with suppress(EventlogError):  # what can be redacted need not be a text
        yield f"  {opening(recall(session, part).text)}"
