"""`sessions`: list the sessions of the store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from click import option

from projections.cli import output, times
from projections.cli.amounts import dollars, number
from projections.cli.output import Cell
from projections.cli.screen import is_terminal
from projections.cli.short_ids import ShortIds, session_of
from projections.cli.store_option import reading, session_items
from projections.cli.words import command, integer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eventlog import SessionInfo, Store

_UNTOLD = {"directory", "agent", "origin", "forked_at", "erased"}
"""Fields that `--json` does not have."""
_PAGE = 50
"""Sessions that are listed where no limit is given."""
_AT_ONCE = 1000
"""Sessions read at a time where all are listed."""


@command(reading, pages=True)
@integer("--limit", "-n", default=_PAGE, help="The newest N; 0 for all.")
@option("--since", type=times.TIME, metavar="TIME", help=f"Only sessions with an activity since: {times.TIME.says}.")
@option("--scope", metavar="SCOPE", help="Only sessions of this scope.")
@option("--parent", metavar="SESSION", shell_complete=session_items, help="Only sub-sessions of this session.")
@option("--archived/--active", default=None, help="Only archived sessions, or only the others.")
@option("--text", metavar="TEXT", help="Only sessions with this text in the title.")
@option("--cursor", metavar="CURSOR", help="The page after that one, with the same options.")
def sessions(store: Store, *, parent: str | None, cursor: str | None, limit: int, json: bool, **filters: Any) -> None:
    """List the sessions of the store, the latest activity first.

    A page of --limit costs what it has, among any number of sessions. If there are more, a pipe or
    file is told the --cursor of the next page on standard error; in JSON it is `next`. On a
    terminal ↳ marks a sub-session and ↱ a fork.
    """
    of = None if parent is None else session_of(store, parent).id
    found, following = _newest(store, of, cursor, limit, **filters)
    if json:
        rows = [{**output.fields(info), "cost": info.spent} for info in found]
        told = [{name: value for name, value in row.items() if name not in _UNTOLD} for row in rows]
        output.document({"sessions": told, "next": following})
    elif not found and is_terminal():
        output.note("no session is in the list")
    else:
        _print(found, ShortIds(head.session for head in store.log.heads()) if is_terminal() else ShortIds(()))
        if following is not None:
            by_cursor = cursor is not None
            output.note_more(len(found), "session", following, by_cursor=by_cursor, everything="--limit 0")


def _newest(
    store: Store,
    parent: str | None,
    cursor: str | None,
    limit: int,
    *,
    scope: str | None,
    archived: bool | None,
    since: int | None,
    text: str | None,
) -> tuple[list[SessionInfo], str | None]:
    """Return the newest sessions that match, and the cursor behind the last of them."""
    from eventlog.history.session_page import page_of
    from eventlog.session.status import state_of

    def chosen(info: SessionInfo) -> bool:
        return parent in (None, info.parent) and (text or "").casefold() in info.title.casefold()

    found: list[SessionInfo] = []
    while True:
        page = page_of(
            store.log,
            scope,
            archived=archived,
            cursor=cursor,
            limit=limit or _AT_ONCE,
            since=since,
            chosen=chosen,
            state_of=partial(state_of, store.registry),
        )
        found += page.sessions
        cursor = page.next
        if cursor is None or limit:
            return found, cursor


def _states(info: SessionInfo) -> Iterator[str]:
    """Yield what the table says of a session besides its totals; its state if work is open."""
    if info.locked:
        yield "no key"
    if info.archived:
        yield "archived"
    if info.state in {"running", "unfinished", "asked"}:
        yield info.state


def _mark(info: SessionInfo) -> str:
    """Return the mark of a sub-session or a fork before its title."""
    return "↳ " if info.parent is not None else "↱ " if info.fork_of is not None else ""


def _cost(info: SessionInfo) -> str:
    """Return the recorded cost; it is more where a call has none."""
    if info.unpriced:
        return "?" if info.spent is None else f"≥ {dollars(info.spent)}"
    return dollars(info.spent)


def _print(found: list[SessionInfo], short: ShortIds) -> None:
    columns = ["session", "updated", "title", "scope", "messages", "tokens", "cost", "state", "name", "note"]
    output.table(
        [*columns, "version", "unpriced", "parent", "fork of"],
        (
            (
                short.cell(info.id),
                times.cell(info.updated),
                Cell(info.title, f"{_mark(info)}{info.title}"),
                info.scope,
                info.messages,
                None if info.locked else number(info.tokens),
                Cell(info.spent, _cost(info)),
                ", ".join(_states(info)),
                "" if info.name is None else ":".join(info.name),
                info.note,
                info.version,
                Cell(info.unpriced or None, ""),
                Cell(info.parent, ""),
                Cell(info.fork_of, ""),
            )
            for info in found
        ),
        numbers=["version", "messages", "tokens", "cost", "unpriced"],
        flexible=["title", "scope", "name", "note", "session"],
        optional=["cost", "state", "updated", "tokens", "messages", "scope", "note", "name", "version"],
        share=0.45,
    )
