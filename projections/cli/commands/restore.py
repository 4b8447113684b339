"""`restore`: make a new store from a backup."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from projections.cli import output
from projections.cli.copy_report import print_copy
from projections.cli.grammar import Argument, Option
from projections.cli.options import JSON

__all__ = ["run"]


def run(
    source: Annotated[Path, Argument("FROM", help="Directory of a backup, or of a store.")],
    *,
    into: Annotated[Path, Option("--into", metavar="NEW", help="Directory of the new store.")],
    cursor: Annotated[
        str | None,
        Option("--cursor", metavar="C", help="Cursor of the newest event to restore [default: all events]."),
    ] = None,
    json: JSON = False,
) -> None:
    """Make a new store from a backup.

    With --cursor the store is as it was when the event with that cursor was its newest. An append
    that reaches beyond it is left out. `eventlog events --json` shows cursors, `backup` and
    `restore` that of the last event that they copied.
    """
    from eventlog import restore

    with output.progress("restore", unit="events") as on_progress:
        result = restore(source, into, cursor=cursor, on_progress=on_progress)
    print_copy(result, into, json=json)
