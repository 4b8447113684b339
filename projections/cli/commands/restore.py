"""`restore`: make a new store from a backup."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from projections.cli import output
from projections.cli.copy_report import print_copy
from projections.cli.options import JSON

__all__ = ["run"]


def run(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="Directory of a backup, or of a store.")],
    *,
    into: Annotated[Path, typer.Option("--into", metavar="NEW", help="Directory of the new store.")],
    position: Annotated[
        int | None,
        typer.Option("--position", min=0, metavar="P", help="Newest event to restore [default: all events]."),
    ] = None,
    json: JSON = False,
) -> None:
    """Make a new store from a backup.

    With --position the store is as it was when event P was its newest. An append that reaches
    beyond P is left out; `eventlog events --json` shows positions.
    """
    from eventlog import restore

    with output.progress("restore", unit="events") as on_progress:
        result = restore(source, into, position=position, told=on_progress)
    print_copy(result, into, json=json)
