"""`upgrade`: bring the store to the format of this program."""

from __future__ import annotations

from projections.cli import output
from projections.cli.options import JSON
from projections.cli.store_option import store_path
from projections.cli.words import Context, command


@command
@JSON
def run(context: Context, *, json: bool) -> None:
    """Bring the store to the format of this program.

    No other command changes the format of a store; opening a store of another format is refused.
    Events of earlier schema versions need no upgrade.
    """
    from eventlog.open_log import format_of, shown

    path = store_path(context)
    version, newest = format_of(path)
    output.answer(
        {"path": shown(path), "format": version, "newest": newest, "upgraded": False},
        f"{shown(path)} is of format {version}, the newest that this program knows: there is nothing to do",
        json=json,
    )
