"""`sessions`: list the sessions of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click import option

from projections.cli import output, times
from projections.cli.amounts import dollars, number
from projections.cli.next_page import note_more
from projections.cli.options import JSON
from projections.cli.short_ids import ShortIds, session_of
from projections.cli.store_option import reading, session_items
from projections.cli.words import Context, integer, paged_command
from projections.reports.wording import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eventlog import SessionInfo, Store

KEYS = (
    "id",
    "title",
    "parent",
    "fork_of",
    "scope",
    "created",
    "updated",
    "version",
    "events",
    "messages",
    "archived",
    "tokens",
    "calls",
    "unpriced",
    "locked",
    "name",
    "note",
    "state",
)
_PAGE = 50
"""Sessions that are listed where no limit is given, and read at a time."""


@paged_command
@integer("--limit", "-n", default=_PAGE, help="The newest N; 0 for all.")
@option("--since", metavar="TIME", help=f"Only sessions with an activity since: {times.TIME}.")
@option("--scope", metavar="SCOPE", help="Only sessions of this scope.")
@option("--parent", metavar="SESSION", shell_complete=session_items, help="Only sub-sessions of this session.")
@option("--archived/--active", default=None, help="Only archived sessions, or only the others.")
@option("--text", metavar="TEXT", help="Only sessions with this text in the title.")
@option("--cursor", metavar="CURSOR", help="The page after that one, with the same options.")
@JSON
def run(
    context: Context,
    *,
    limit: int,
    since: str | None,
    scope: str | None,
    parent: str | None,
    archived: bool | None,
    text: str | None,
    cursor: str | None,
    json: bool,
) -> None:
    """List the sessions of the store, the latest activity first.

    A page of --limit costs what it has, among any number of sessions. If there are more, a pipe or
    file is told the --cursor of the next page on standard error; in JSON it is `next`. On a
    terminal ↳ marks a sub-session and ↱ a fork.
    """
    active_since = times.since("--since", since)
    with reading(context) as store:
        of = None if parent is None else session_of(store, parent).id
        matching = _Matching(of, None if text is None else text.casefold(), active_since)
        found, following = _newest(store, matching, scope, archived=archived, cursor=cursor, limit=limit)
        if json:
            rows = [
                {key: getattr(info, key) for key in KEYS} | {"cost": None if info.spent is None else str(info.spent)}
                for info in found
            ]
            output.document({"sessions": rows, "next": following})
        elif not found and output.terminal():
            output.note("no session is in the list")
        else:
            short = ShortIds(head.session for head in store.log.heads()) if output.terminal() else ShortIds(())
            _print(found, short)
            if following is not None:
                note_more(len(found), "session", following, by_cursor=cursor is not None, everything="--limit 0")


class _Matching:
    """The filters that the list of sessions does not have itself."""

    def __init__(self, parent: str | None, text: str | None, since: int | None) -> None:
        self._parent = parent
        self._text = text
        self._since = since

    def takes(self, info: SessionInfo) -> bool:
        """Return whether a session is one that is asked for."""
        return (self._parent is None or info.parent == self._parent) and (
            self._text is None or self._text in info.title.casefold()
        )

    def ends_at(self, info: SessionInfo) -> bool:
        """Return whether this session, and all older ones, are too old."""
        return self._since is not None and info.updated < self._since


def _newest(
    store: Store,
    matching: _Matching,
    scope: str | None,
    *,
    archived: bool | None,
    cursor: str | None,
    limit: int,
) -> tuple[list[SessionInfo], str | None]:
    """Return the newest sessions that match, and the cursor behind the last of them."""
    found: list[SessionInfo] = []
    while True:
        # No more than are wanted at a time: then the cursor of a page is behind its last one.
        piece = min(limit - len(found), _PAGE) if limit else _PAGE
        page = store.newest_sessions(scope, archived=archived, cursor=cursor, limit=piece)
        for info in page.sessions:
            if matching.ends_at(info):
                return found, None
            if matching.takes(info):
                found.append(info)
        cursor = page.next
        if cursor is None or len(found) == limit > 0:
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


def _print(sessions: list[SessionInfo], short: ShortIds) -> None:
    columns = [
        "session",
        "updated",
        "title",
        "scope",
        "messages",
        "tokens",
        "cost",
        "state",
        "name",
        "note",
        "version",
        "unpriced",
        "parent",
        "fork of",
    ]
    output.table(
        columns,
        (
            (
                output.Cell(info.id, short.of(info.id)),
                output.Cell(moment(info.updated), times.minute(info.updated)),
                output.Cell(info.title, f"{_mark(info)}{info.title}"),
                info.scope,
                info.messages,
                None if info.locked else number(info.tokens),
                output.Cell(info.spent, _cost(info)),
                ", ".join(_states(info)),
                "" if info.name is None else ":".join(info.name),
                info.note,
                info.version,
                output.Cell(info.unpriced or None, ""),
                output.Cell(info.parent, ""),
                output.Cell(info.fork_of, ""),
            )
            for info in sessions
        ),
        numbers=["version", "messages", "tokens", "cost", "unpriced"],
        flexible=["title", "scope", "name", "note", "session"],
        optional=["cost", "state", "updated", "tokens", "messages", "scope", "note", "name", "version"],
        share=0.45,
        styles={"session": "yellow", "updated": "dim", "cost": "green", "state": "magenta"},
    )
