"""`rollback`, `fork` and `undo`: go on from an earlier state of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click import option

from projections.cli import output
from projections.cli.exits import Fault
from projections.cli.short_ids import is_number, is_part, part_named
from projections.cli.store_option import writing_session
from projections.cli.words import command, integer
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog import Session

_before = option(
    "--before",
    metavar="MESSAGE|V",
    help="Go on from right before this message (its id, or its unique beginning or end) or version.",
)


@command(writing_session)
@integer("--to", least=1, metavar="V", help="The version to return to.")
@_before
def rollback(session: Session, *, to: int | None, before: str | None, json: bool) -> None:
    """Return a session to an earlier version.

    The session is then as it was right after version V (`--to`), also if an earlier rollback hid
    that version, or right before MESSAGE or version V (`--before`). Nothing is deleted:
    `eventlog undo` takes the rollback back, and so does a rollback to the version right before it.
    """
    if (to is None) == (before is None):
        raise Fault("rollback needs --to V or --before MESSAGE|V, one of them")
    if before is not None:
        to, before = _place(session, before)
    result = session.rollback(to, before=before)
    where = f"version {result.to}" + ("" if before is None else f", right before {before}")
    lines = [f"{session.id} is as it was at {where} (recorded as version {result.version})"]
    if result.patches or result.snapshots:
        changes = f"{len(result.patches)} patches, {len(result.snapshots)} snapshots"
        lines.append(f"files had changed since: {changes}; --json names them")
    output.answer(
        {
            "session": session.id,
            "version": result.version,
            "to": result.to,
            "snapshots": result.snapshots,
            "patches": [{"hash": patch.hash, "files": patch.files} for patch in result.patches],
        },
        *lines,
        json=json,
    )


def _place(session: Session, word: str) -> tuple[int | None, str | None]:
    """Return the version right before the one that a word names, or else the id of a message."""
    if not is_number(word) or is_part(session, word):
        return None, part_named(session, word)
    if word.startswith("0") or word == "1":
        raise Fault(f"--before {word}: a version from 2 on, written without a zero in front, or a message")
    if int(word) > session.version:
        from eventlog.errors import NotFoundError

        raise NotFoundError("version", word, session=session.id)
    return int(word) - 1, None


@command(writing_session)
@integer("--at", least=1, metavar="V", help="The version to continue from [default: the newest].")
@_before
def fork(session: Session, *, at: int | None, before: str | None, json: bool) -> None:
    """Start a new session that continues this one.

    Prints the id of the fork, which begins as this session was right after version V (`--at`), or
    right before MESSAGE or version V (`--before`).
    """
    if before is not None:
        if at is not None:
            raise Fault("fork takes --at V or --before MESSAGE|V, not both")
        at, before = _place(session, before)
    info = session.fork(at, before=before).info
    document = {"session": info.id, "parent": session.id, "at": info.forked_at, "version": info.version}
    output.answer(document, info.id, json=json)


@command(writing_session)
def undo(session: Session, *, json: bool) -> None:
    """Undo the newest prune, compaction or rollback in force.

    A loop that finds the window full may prune or compact again, unless EVENTLOG_PRUNE=0 and
    EVENTLOG_AUTO_COMPACT=0 are set.
    """
    from projections.loop import ContextWindow

    window = ContextWindow(session)
    undone = window.undo()
    window.state.catch_up()
    tokens = window.tokens
    document = {
        "session": session.id,
        "version": session.version,
        "undone": undone,
        "messages": len(window.view().messages),
        "tokens": tokens,
    }
    request = counted(tokens, "token")
    output.answer(document, f"the newest {undone} is undone: the next request has {request}", json=json)
