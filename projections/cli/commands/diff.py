"""`diff`: show what changed between two views."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from projections.cli import output
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import reading_session

__all__ = ["run"]


def run(
    context: typer.Context,
    session: SESSION,
    first: Annotated[int, typer.Argument(metavar="A", min=1, help="Version of the first view.")],
    second: Annotated[int, typer.Argument(metavar="B", min=1, help="Version of the second view.")],
    *,
    json: JSON = False,
) -> None:
    """Show what changed between two views of a session.

    Lists the parts that were added, pruned, compacted, rolled back or otherwise changed, with their
    tokens.
    """
    import msgspec

    from projections.reports.view_diff import diff

    with reading_session(context, session) as handle:
        difference = diff(handle, first, second)
    if json:
        document: dict[str, Any] = msgspec.to_builtins(difference)
        output.document({**document, "summary": difference.sentences()})
        return
    rows = [
        [change.kind, change.message, change.part, change.what, change.before, change.after]
        for change in difference.changes
    ]
    output.table(["change", "message", "part", "what", "before", "after"], rows, numbers=["before", "after"])
    for sentence in difference.sentences():
        output.line(sentence)
    output.line(f"{difference.tokens_first:,} tokens at {first}, {difference.tokens_second:,} at {second}")
