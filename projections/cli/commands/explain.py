"""`explain`: say why a part or message is in the view, or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click import argument

from projections.cli import output
from projections.cli.options import JSON, SESSION
from projections.cli.short_ids import part_named
from projections.cli.store_option import reading_session
from projections.cli.words import Context, integer, paged_command
from projections.reports.wording import moment, policy_named

if TYPE_CHECKING:
    from projections.reports.visibility import Cause, Visibility


@paged_command
@SESSION
@argument("name", help="Id of a message or part, or its unique beginning or end.")
@integer("--at", least=1, metavar="V", help="The view right after this version [default: the newest].")
@JSON
def run(context: Context, session: str, name: str, *, at: int | None, json: bool) -> None:
    """Say why a part or message is in the model's view, or not.

    Names the prune, compaction, rollback, redaction or removal that decided it, and the command
    that prints the content or returns it to the view.
    """
    import msgspec

    from projections.reports.visibility import explain_part

    with reading_session(context, session) as handle:
        found = explain_part(handle, part_named(handle, name), at)
    if json:
        output.document(msgspec.to_builtins(found))
        return
    _print(found)


def _print(found: Visibility) -> None:
    which = "in the view" if found.shown else "not in the view"
    output.heading(f"{found.id} is {which} of version {found.version}: {found.reason}")
    part = f"{found.kind} {found.tool}".strip()
    of = f"{part} message" if found.id == found.message else f"{part} part of message {found.message}"
    output.line(f"{of}, added at version {found.added}" + (f": {found.words}" if found.words else ""))
    output.line(found.sentence)
    if found.cause is not None:
        output.line(_cause(found.cause))
    for advice in _advice(found):
        output.note(advice)


def _cause(cause: Cause) -> str:
    what = {
        "prune": f", {policy_named(cause.what)}",
        "compaction": f", whose summary is {cause.what}",
        "rollback": f" to version {cause.what}",
        "redaction": f": {cause.what}",
    }
    said = what.get(cause.kind, "") if cause.what else ""
    return f"{cause.kind} {cause.number} at version {cause.version}, {moment(cause.time)}{said}"


def _advice(found: Visibility) -> list[str]:
    """Return what a user can do to see the content, or to have the model see it."""
    reading = f"`eventlog recall {found.session} {found.id}` prints it"
    match found.reason:
        case "cleared" | "covered":
            return [f"{reading}; `eventlog undo {found.session}` takes back the newest change of the view"]
        case "rolled-back" if found.cause is not None:
            return [f"`eventlog rollback {found.session} --to {found.cause.version - 1}` takes the rollback back"]
        case "later":
            return [f"`eventlog explain {found.session} {found.id}` looks at the newest view"]
        case _:
            return []
