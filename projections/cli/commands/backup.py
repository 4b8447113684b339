"""`backup`: copy the store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from projections.cli import output
from projections.cli.copy_report import print_copy
from projections.cli.grammar import Argument, Context, Option
from projections.cli.options import JSON
from projections.cli.store_option import reading

__all__ = ["run"]


def run(
    context: Context,
    to: Annotated[Path, Argument("TO", help="Directory of the backup; made if it does not exist.")],
    *,
    keys: Annotated[Path | None, Option(metavar="FILE", help="Encrypt the copy, with its keys in this file.")] = None,
    json: JSON = False,
) -> None:
    """Copy the store to a directory while programs write to it.

    A second backup into the same directory adds only what is new. If a backup is interrupted, run
    it again. With --keys a plain store becomes an encrypted one, in a new directory.
    """
    with reading(context) as store, output.progress("backup", unit="events") as on_progress:
        result = store.backup(to, keys=keys, on_progress=on_progress)
    print_copy(result, to, json=json)
