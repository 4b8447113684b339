"""`restore`: make a new store from a backup."""

from __future__ import annotations

from pathlib import Path

from click import argument, option

from projections.cli import output
from projections.cli.copy_report import print_copy
from projections.cli.options import JSON
from projections.cli.words import PLACE, Context, command


@command
@argument("source", metavar="FROM", type=PLACE, help="Directory of a backup or a store, or address of a server.")
@option(
    "--into",
    type=PLACE,
    required=True,
    metavar="NEW",
    help="Directory of the new store, or address of an empty one on a server.",
)
@option("--cursor", metavar="C", help="Cursor of the newest event to restore [default: all events].")
@JSON
def run(_: Context, source: Path | str, *, into: Path | str, cursor: str | None, json: bool) -> None:
    """Make a new store from a backup.

    With --cursor the store is as it was when the event with that cursor was its newest. An append
    that reaches beyond it is left out. `eventlog events --json` shows cursors, `backup` and
    `restore` that of the last event that they copied.
    """
    from eventlog import restore

    with output.progress("restore", unit="events") as on_progress:
        result = restore(source, into, cursor=cursor, on_progress=on_progress)
    print_copy(result, into, json=json)
