"""`vacuum`: rewrite the store without erased sessions."""

from __future__ import annotations

from projections.cli import output
from projections.cli.options import JSON
from projections.cli.store_option import writing
from projections.cli.words import Context, command
from projections.reports.wording import counted

__all__ = ["run"]


@command
@JSON
def run(context: Context, *, json: bool) -> None:
    """Rewrite the store without erased sessions, to free space.

    No other program may have the store open.
    """
    from msgspec.structs import asdict

    with writing(context) as store:
        result = store.vacuum()
    output.answer(
        asdict(result),
        f"{counted(result.bytes_before, 'byte')} before, {result.bytes_after} after; "
        f"{counted(result.erased, 'session')} erased, {counted(result.emptied, 'append')} emptied",
        json=json,
    )
