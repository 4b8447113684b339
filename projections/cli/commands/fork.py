"""`fork`: start a session that continues another."""

from __future__ import annotations

from projections.cli import output
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import writing_session
from projections.cli.words import Context, command, integer


@command
@SESSION
@integer("--at", least=1, metavar="V", help="The version to continue from [default: the newest].")
@JSON
def run(context: Context, session: str, *, at: int | None, json: bool) -> None:
    """Start a new session that continues this one.

    Prints the id of the fork, which begins as this session was right after version V.
    """
    with writing_session(context, session) as parent:
        info = parent.fork(at).info
        document = {"session": info.id, "parent": parent.id, "at": info.forked_at, "version": info.version}
    output.answer(document, info.id, json=json)
