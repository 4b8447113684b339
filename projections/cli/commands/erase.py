"""`erase`: erase a session."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from projections.cli import output
from projections.cli.options import JSON, REASON, SESSION
from projections.cli.store_option import session_of, writing

__all__ = ["run"]


class _Choice(StrEnum):
    """Treatment of the sessions that depend on the erased one."""

    REFUSE = "refuse"
    KEEP = "keep"
    CASCADE = "cascade"


def run(
    context: typer.Context,
    session: SESSION,
    *,
    forks: Annotated[
        _Choice,
        typer.Option("--forks", help="If it has forks: refuse, keep them with their history, or erase them, too."),
    ] = _Choice.REFUSE,
    subsessions: Annotated[
        _Choice, typer.Option("--subsessions", help="If it has sub-sessions: refuse, keep or erase them.")
    ] = _Choice.REFUSE,
    reason: REASON = "",
    json: JSON = False,
) -> None:
    """Erase a session, so that it can no longer be read.

    The store keeps its id, the root of its hash tree, the time and the reason, so that `eventlog
    verify --against` can tell an erasure from a loss. `eventlog vacuum` then removes the content
    from the files.
    """
    with writing(context) as store:
        name = session_of(store, session).id
        erased = store.erase(name, forks=forks.value, subsessions=subsessions.value, reason=reason)
    output.answer({"session": name, "erased": list(erased)}, *(f"{each} is erased" for each in erased), json=json)
