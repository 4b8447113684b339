"""`scrub`: remove redacted and erased content from every file."""

from __future__ import annotations

from projections.cli import output
from projections.cli.commands.vacuum import still_read
from projections.cli.options import JSON
from projections.cli.store_option import writing
from projections.cli.words import Context, command
from projections.reports.wording import counted


@command
@JSON
def run(context: Context, *, json: bool) -> None:
    """Remove redacted and erased content from every file.

    The store is rewritten while other programs use it. `eventlog verify` still passes. The
    next `eventlog backup` removes the content from a backup.

    This is not the scrub of file systems, which reads everything to check its hashes: `eventlog
    verify` does that.
    """
    from msgspec.structs import asdict

    with writing(context) as store:
        result = store.scrub()
    output.answer(
        asdict(result),
        f"{counted(result.emptied, 'append')} emptied, {counted(result.erased, 'session')} erased; "
        f"{counted(result.bytes_after, 'byte')} are left{still_read(result)}",
        json=json,
    )
