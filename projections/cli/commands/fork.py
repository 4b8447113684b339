"""`fork`: start a session that continues another."""

from __future__ import annotations

from typing import Annotated

from projections.cli import output
from projections.cli.grammar import Context, Option
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import writing_session

__all__ = ["run"]


def run(
    context: Context,
    session: SESSION,
    *,
    at: Annotated[
        int | None, Option("--at", min=1, metavar="V", help="The version to continue from [default: the newest].")
    ] = None,
    json: JSON = False,
) -> None:
    """Start a new session that continues this one.

    Prints the id of the fork, which begins as this session was right after version V.
    """
    with writing_session(context, session) as parent:
        info = parent.fork(at).info
        document = {"session": info.id, "parent": parent.id, "at": info.forked_at, "version": info.version}
    output.answer(document, info.id, json=json)
