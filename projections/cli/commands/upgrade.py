"""`upgrade`: of what format the store is, and what it takes to be read by this program."""

from __future__ import annotations

import typer

from projections.cli import output
from projections.cli.options import JSON
from projections.cli.store_option import store_path

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("upgrade")(_upgrade)


def _upgrade(context: typer.Context, *, json: JSON = False) -> None:
    """Bring the store to this program's format, if it is of an earlier one that can be.

    Nothing else ever changes the format of a store: opening one of another format is refused.  Events of earlier schema versions
    need no upgrade: they are read as they are.
    """
    from eventlog.log.embedded.directory import FORMAT_VERSION, format_of

    path = store_path(context)
    found = format_of(path)
    if json:
        output.document({"path": str(path), "format": found, "newest": FORMAT_VERSION, "upgraded": False})
    else:
        output.line(f"{path} is of format {found}, the newest that this program knows: there is nothing to do")
