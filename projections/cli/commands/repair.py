"""`repair`: save what is sound of a damaged store."""

from __future__ import annotations

from pathlib import Path

from click import option

from projections.cli import output
from projections.cli.exits import Exit
from projections.cli.options import JSON
from projections.cli.store_option import store_path
from projections.cli.words import PLACE, Context, command
from projections.reports.wording import counted


@command
@option(
    "--into",
    type=PLACE,
    required=True,
    metavar="NEW",
    help="Directory of the new store, or address of an empty one on a server.",
)
@JSON
def run(context: Context, *, into: Path | str, json: bool) -> Exit:
    """Save what is sound of a damaged store into a new store.

    Every loss is listed with its session and versions. The damaged store is only read. Exit code 1
    if anything was lost.
    """
    from msgspec.structs import asdict

    from eventlog import repair
    from eventlog.open_log import shown

    with output.progress("repair", unit="events") as on_progress:
        result = repair(store_path(context), into, on_progress=on_progress)
    sessions, events = counted(result.sessions, "session"), counted(result.events, "event")
    lines = [f"{shown(into)}: {sessions}, {events} and {counted(result.bodies, 'large text')} saved"]
    for loss in result.losses:
        first = "?" if loss.first is None else loss.first
        versions = "" if loss.last is None else f" from version {first} to {loss.last}"
        lines.append(f"lost: {loss.session or 'store'}{versions}: {loss.problem}")
    document = {"to": shown(into), **asdict(result), "losses": [asdict(loss) for loss in result.losses]}
    output.answer(document, *lines, json=json)
    return Exit.FAULTS if result.losses else Exit.OK
