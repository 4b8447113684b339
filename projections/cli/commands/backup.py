"""`backup`: copy the store."""

from __future__ import annotations

from pathlib import Path

from click import argument, option

from projections.cli import output
from projections.cli.copy_report import print_copy
from projections.cli.options import JSON
from projections.cli.store_option import reading
from projections.cli.words import PATH, PLACE, Context, command


@command
@argument("to", type=PLACE, help="Directory of the backup; made if it does not exist.")
@option("--keys", type=PATH, metavar="FILE", help="Encrypt the copy, with its keys in this file.")
@JSON
def run(context: Context, to: Path | str, *, keys: Path | None, json: bool) -> None:
    """Copy the store to a directory while programs write to it.

    A second backup into the same directory adds only what is new. If a backup is interrupted, run
    it again. With --keys a plain store becomes an encrypted one, in a new directory.
    """
    with reading(context) as store, output.progress("backup", unit="events") as on_progress:
        result = store.backup(to, keys=keys, on_progress=on_progress)
    print_copy(result, to, json=json)
