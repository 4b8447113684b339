"""`move`: move partitions of a store on servers from one cluster to another."""

from __future__ import annotations

from typing import Annotated

from projections.cli import output
from projections.cli.grammar import Argument, Option
from projections.cli.options import JSON
from projections.reports.wording import counted

__all__ = ["run"]


def run(
    partition: Annotated[
        list[int], Argument("PARTITION", min=0, help="Number of a partition; several are moved in turn.")
    ],
    *,
    source: Annotated[str, Option("--from", metavar="ADDRESS", help="Address of the cluster that has them.")],
    to: Annotated[str, Option("--to", metavar="ADDRESS", help="Address of the cluster that is to have them.")],
    abandon: Annotated[
        bool, Option("--abandon", help="End a move that broke off, and delete what it has copied.")
    ] = False,
    json: JSON = False,
) -> None:
    """Move partitions of a store on servers to another cluster.

    Programs go on meanwhile; writers to a partition wait while the last part of it is copied. The
    same command continues a move that broke off. Keep passwords out of the addresses.
    """
    from msgspec.structs import asdict

    from eventlog.open_log import driver

    with driver():
        from eventlog.log.postgres.move import abandon_move, move_partition

    for number in partition:
        if abandon:
            was_begun = abandon_move(number, source, to)
            text = "the move is ended" if was_begun else "no move was begun"
            output.answer({"partition": number, "abandoned": was_begun}, f"partition {number}: {text}", json=json)
            continue
        with output.progress(f"partition {number}", unit="events") as on_progress:
            result = move_partition(number, source, to, on_progress=on_progress)
        output.answer(
            {**asdict(result), "abandoned": False},
            f"partition {number} is at its destination: {counted(result.commits, 'append')} of"
            f" {counted(result.sessions, 'session')} copied, {result.copied_frozen} of them while writers waited",
            json=json,
        )
