"""`backup`, `restore` and `vacuum`: copies of a whole store, and a store without what was let go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from projections.cli import output
from projections.cli.options import JSON
from projections.cli.store_option import reading, writing
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog.maintenance.backup import BackupResult

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("backup")(_backup)
    app.command("restore")(_restore)
    app.command("vacuum")(_vacuum)


def _backup(
    context: typer.Context,
    to: Annotated[Path, typer.Argument(metavar="TO", help="Directory of the backup; made if it is not there.")],
    *,
    json: JSON = False,
) -> None:
    """Copy the store into the directory TO while it is being written.

    A second backup into the same place adds only what is new.  If it breaks off, run it again.
    """
    with reading(context) as store, output.progress("backup", unit="events") as on_progress:
        copied = store.backup(to, on_progress=on_progress)
    _print(copied, to, json=json)


def _restore(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="Directory of a backup, or of a store.")],
    *,
    into: Annotated[Path, typer.Option("--into", metavar="NEW", help="Directory of the store to be made.")],
    position: Annotated[
        int | None,
        typer.Option("--position", min=0, metavar="P", help="Newest event to restore [default: all of them]."),
    ] = None,
    json: JSON = False,
) -> None:
    """Make a new store of a backup, as it was when event P was its newest.

    An append that reaches beyond P is left out.  `eventlog events --json` shows positions.
    """
    from eventlog import restore

    with output.progress("restore", unit="events") as on_progress:
        copied = restore(source, into, position=position, on_progress=on_progress)
    _print(copied, into, json=json)


def _print(copied: BackupResult, to: Path, *, json: bool) -> None:
    from msgspec.structs import asdict

    if json:
        output.document({"to": str(to), **asdict(copied)})
        return
    how = "whole" if copied.whole else "what is new"
    output.line(
        f"{to}: {counted(copied.events, 'event')} copied ({how}), {counted(copied.sessions, 'session')} up to position {copied.position}"
    )


def _vacuum(context: typer.Context, *, json: JSON = False) -> None:
    """Write the store anew without the events of erased sessions, so that their space is free.

    Nobody else may have the store open.
    """
    from msgspec.structs import asdict

    with writing(context) as store:
        done = store.vacuum()
    if json:
        output.document(asdict(done))
    else:
        output.line(
            f"{counted(done.bytes_before, 'byte')} before, {done.bytes_after} after; {counted(done.erased, 'session')} erased,"
            f" {counted(done.emptied, 'append')} emptied"
        )
