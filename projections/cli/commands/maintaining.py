"""`backup`, `restore`, `repair`, `vacuum`, `scrub`, `upgrade`: copies and rewrites."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from click import argument, option

from projections.cli import output
from projections.cli.exits import Exit
from projections.cli.store_option import Context, reading, store_path, writing
from projections.cli.words import PATH, PLACE, command
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog import Store
    from eventlog.maintenance.destination import BackupResult
    from eventlog.maintenance.emptied import VacuumResult

_LONGEST = 80
"""Characters of the longest cursor for people; a server's has a number for each partition."""
_INTO = option(
    "--into",
    type=PLACE,
    required=True,
    metavar="NEW",
    help="Directory of the new store, or address of an empty one on a server.",
)


@command(reading)
@argument("to", type=PLACE, help="Directory of the backup; made if it does not exist.")
@option("--keys", type=PATH, metavar="FILE", help="Encrypt the copy, with its keys in this file.")
def backup(store: Store, to: Path | str, *, keys: Path | None, json: bool) -> None:
    """Copy the store to a directory while programs write to it.

    A second backup into the same directory adds only what is new. If a backup is interrupted, run
    it again. With --keys a plain store becomes an encrypted one, in a new directory.
    """
    with output.progress("backup", unit="events") as on_progress:
        result = store.backup(to, keys=keys, on_progress=on_progress)
    _print_copy(result, to, json=json)


@command()
@argument("source", metavar="FROM", type=PLACE, help="Directory of a backup or a store, or address of a server.")
@_INTO
@option("--cursor", metavar="C", help="Cursor of the newest event to restore [default: all events].")
def restore(_: Context, source: Path | str, *, into: Path | str, cursor: str | None, json: bool) -> None:
    """Make a new store from a backup.

    With --cursor the store is as it was when the event with that cursor was its newest. An append
    that reaches beyond it is left out. `eventlog events --json` shows cursors, `backup` and
    `restore` that of the last event that they copied.
    """
    import eventlog

    with output.progress("restore", unit="events") as on_progress:
        result = eventlog.restore(source, into, cursor=cursor, on_progress=on_progress)
    _print_copy(result, into, json=json)


def _print_copy(result: BackupResult, to: Path | str, *, json: bool) -> None:
    """Print what was copied to a directory or a server."""
    from eventlog.open_log import shown

    place = shown(to)
    how = "whole" if result.whole else "what is new"
    cursor = f"up to the cursor {result.cursor}" if len(result.cursor) <= _LONGEST else "its cursor is in --json"
    output.answer(
        {"to": place, **output.fields(result)},
        f"{place}: {counted(result.events, 'event')} copied ({how}), {counted(result.sessions, 'session')}, {cursor}",
        json=json,
    )


@command()
@_INTO
def repair(context: Context, *, into: Path | str, json: bool) -> Exit:
    """Save what is sound of a damaged store into a new store.

    Every loss is listed with its session and versions; without the pages that lead to the others,
    as at the end of a file that was cut, perhaps all is lost. The damaged store is only read. Exit
    code 1 if anything was lost.

    A note stands in place of a lost large text, and `eventlog verify` names its append until the
    part is redacted and scrubbed; an import of its file brings the text back in a fork. In an
    encrypted store its session cannot be shown whole.
    """
    import eventlog
    from eventlog.open_log import shown

    with output.progress("repair", unit="events") as on_progress:
        result = eventlog.repair(store_path(context), into, on_progress=on_progress)
    sessions, events = counted(result.sessions, "session"), counted(result.events, "event")
    texts = counted(result.bodies, "large text")
    lines = [f"{shown(into)}: {sessions} (erased ones included), {events} and {texts} saved"]
    for loss in result.losses:
        first = "?" if loss.first is None else loss.first
        versions = "" if loss.last is None else f" from version {first} to {loss.last}"
        lines.append(f"lost: {loss.session or 'store'}{versions}: {loss.problem}")
    if result.losses and not result.sessions:
        lines.append("no session could be reached: restore a backup (`eventlog restore`)")
    code = Exit.FAULTS if result.losses else Exit.OK
    with output.verdict(code):
        output.answer({"to": shown(into), **output.fields(result)}, *lines, json=json)
    return code


@command(writing)
def vacuum(store: Store, *, json: bool) -> None:
    """Rewrite the store without erased sessions, to free space.

    Other programs may use the store meanwhile.
    """
    result = store.vacuum()
    output.answer(
        result,
        f"{counted(result.bytes_before, 'byte')} before, {result.bytes_after:,} after; "
        f"{counted(result.erased, 'session')} erased, {counted(result.emptied, 'append')} emptied{_still_read(result)}",
        json=json,
    )


@command(writing)
def scrub(store: Store, *, json: bool) -> None:
    """Remove redacted and erased content from every file.

    The store is rewritten while other programs use it. `eventlog verify` still passes. The
    next `eventlog backup` removes the content from a backup.

    This is not the scrub of file systems, which reads everything to check its hashes: `eventlog
    verify` does that.
    """
    result = store.scrub()
    output.answer(
        result,
        f"{counted(result.emptied, 'append')} emptied, {counted(result.erased, 'session')} erased; "
        f"{counted(result.bytes_after, 'byte')} are left{_still_read(result)}",
        json=json,
    )


def _still_read(result: VacuumResult) -> str:
    """Return a note on the processes that still read the old files."""
    pids = ", ".join(str(pid) for pid in result.pending)
    return f"; the old files go once process {pids} goes on or ends" if pids else ""


@command()
def upgrade(context: Context, *, json: bool) -> None:
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
