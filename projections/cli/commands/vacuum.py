"""`vacuum`: rewrite the store without erased sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.cli import output
from projections.cli.options import JSON
from projections.cli.store_option import writing
from projections.cli.words import Context, command
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog.maintenance.emptied import VacuumResult


@command
@JSON
def run(context: Context, *, json: bool) -> None:
    """Rewrite the store without erased sessions, to free space.

    Other programs may use the store meanwhile.
    """
    from msgspec.structs import asdict

    with writing(context) as store:
        result = store.vacuum()
    output.answer(
        asdict(result),
        f"{counted(result.bytes_before, 'byte')} before, {result.bytes_after:,} after; "
        f"{counted(result.erased, 'session')} erased, {counted(result.emptied, 'append')} emptied{still_read(result)}",
        json=json,
    )


def still_read(result: VacuumResult) -> str:
    """Return a note on the processes that still read the old files."""
    pids = ", ".join(str(pid) for pid in result.pending)
    return f"; the old files go once process {pids} goes on or ends" if pids else ""
