"""`diff`: show what changed between two views."""

from __future__ import annotations

from typing import Any

from click import argument

from projections.cli import output
from projections.cli.amounts import number
from projections.cli.options import JSON, SESSION
from projections.cli.short_ids import ShortIds
from projections.cli.store_option import reading_session
from projections.cli.words import Context, Number, paged_command


@paged_command
@SESSION
@argument("first", metavar="A", type=Number(1), help="Version of the first view.")
@argument("second", metavar="B", type=Number(1), help="Version of the second view.")
@JSON
def run(context: Context, session: str, first: int, second: int, *, json: bool) -> None:
    """Show what changed between two views of a session.

    Lists the parts that were added, pruned, compacted, rolled back or otherwise changed, with their
    first words and their tokens.
    """
    import msgspec

    from projections.reports.view_diff import diff

    with reading_session(context, session) as handle:
        difference = diff(handle, first, second)
    if json:
        document: dict[str, Any] = msgspec.to_builtins(difference)
        output.document({**document, "summary": difference.sentences()})
        return
    short = ShortIds(name for change in difference.changes for name in (change.message, change.part))
    rows = [
        [
            change.kind,
            output.Cell(change.message, short.of(change.message)),
            output.Cell(change.part, "" if change.what == "carried" else short.of(change.part)),
            change.what,
            change.words,
            number(change.before),
            number(change.after),
        ]
        for change in difference.changes
    ]
    output.table(
        ["change", "message", "part", "what", "words", "before", "after"],
        rows,
        numbers=["before", "after"],
        flexible=["words", "what"],
        optional=["message"],
        styles={"change": "cyan", "part": "yellow", "message": "dim"},
    )
    for sentence in difference.sentences():
        output.line(sentence)
    output.line(f"{difference.tokens_first:,} tokens at {first}, {difference.tokens_second:,} at {second}")
