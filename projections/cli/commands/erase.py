"""`erase` and `expire`: letting whole sessions go."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, TypeAlias

import typer

from projections.cli import output, times
from projections.cli.exits import UsageFault
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import reading, session_of, writing
from projections.reports.wording import counted

__all__ = ["register"]


class _Choice(StrEnum):
    """What becomes of what depends on an erased session."""

    REFUSE = "refuse"
    KEEP = "keep"
    CASCADE = "cascade"


REASON: TypeAlias = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recorded.")]
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("erase")(_erase)
    app.command("expire")(_expire)


def _erase(
    context: typer.Context,
    session: SESSION,
    *,
    forks: Annotated[
        _Choice,
        typer.Option("--forks", help="Its forks: name them and refuse, keep them with their history, or erase them."),
    ] = _Choice.REFUSE,
    subsessions: Annotated[_Choice, typer.Option("--subsessions", help="Its sub-sessions: the same.")] = _Choice.REFUSE,
    reason: REASON = "",
    json: JSON = False,
) -> None:
    """Erase a session: nothing of it can be read any more, and `vacuum` takes it out of the files.

    Its id, the root of its hash tree, when and why are kept, so that `verify --against` knows it was no accident.
    """
    with writing(context) as store:
        name = session_of(store, session).id
        erased = store.erase(name, forks=forks.value, subsessions=subsessions.value, reason=reason)
    if json:
        output.document({"session": name, "erased": list(erased)})
    else:
        for one in erased:
            output.line(f"{one} is erased")


def _expire(
    context: typer.Context,
    *,
    age: Annotated[
        str | None,
        typer.Option("--age", metavar="TIME", help=f"Keep what had an event since: {times.LONG}."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", min=0, metavar="N", help="Keep so many sessions, sub-sessions not counted.")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option("--size", metavar="BYTES", help="Keep so many bytes of events and texts; K, M, G multiply."),
    ] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", metavar="SCOPE", help="Look at the sessions of a scope only.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be erased.")] = False,
    json: JSON = False,
) -> None:
    """Erase whole sessions, those longest without an event first, until what is left is within all limits given.

    Sub-sessions go with their session; forks are kept with their history; a session that is being run stays.
    """
    with reading(context) if dry_run else writing(context) as store:
        done = store.expire(
            age=times.milliseconds("--age", age), count=count, size=_bytes(size), scope=scope, dry_run=dry_run
        )
    if json:
        output.document({"erased": list(done.erased), "running": list(done.running), "dry_run": dry_run})
        return
    for name in done.erased:
        output.line(f"{name} would be erased" if dry_run else f"{name} is erased")
    output.line(f"{counted(len(done.erased), 'session')} {'would be erased' if dry_run else 'erased'}")
    for name in done.running:
        output.line(f"{name} is being run, and {'would stay' if dry_run else 'stays'}")


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,15})([kmg]?)b?", text.lower())
    if found is None:
        from eventlog.errors import brief

        raise UsageFault(f"{brief(text)} is no size; give a number, and K, M or G, as in 500M")
    return int(found[1]) * _SIZES[found[2]]
