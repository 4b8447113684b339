"""`repair`: all that is sound of a damaged store, in a new one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from projections.cli import output
from projections.cli.exits import Exit
from projections.cli.options import JSON
from projections.cli.store_option import store_path
from projections.reports.wording import counted

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("repair")(_repair)


def _repair(
    context: typer.Context,
    *,
    into: Annotated[Path, typer.Option("--into", metavar="NEW", help="Directory of the store to be made.")],
    json: JSON = False,
) -> None:
    """Save all that is sound of a damaged store into a new one, and list every loss by session and version.

    The damaged store is only read.  Exit code 1 if anything was lost.
    """
    from msgspec.structs import asdict

    from eventlog import repair

    with output.progress("repair", unit="events") as on_progress:
        done = repair(store_path(context), into, on_progress=on_progress)
    if json:
        output.document({"to": str(into), **asdict(done), "losses": [asdict(loss) for loss in done.losses]})
    else:
        output.line(
            f"{into}: {counted(done.sessions, 'session')}, {counted(done.events, 'event')} and {done.bodies} large texts saved"
        )
        for loss in done.losses:
            first = "?" if loss.first is None else loss.first
            versions = "" if loss.last is None else f" from version {first} to {loss.last}"
            output.line(f"lost: {loss.session or 'store'}{versions}: {loss.problem}")
    if done.losses:
        raise typer.Exit(Exit.FAULTS)
