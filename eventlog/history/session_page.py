"""A page of the list of sessions, newest activity first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from eventlog.history.catalog import SessionInfo, SessionState, entry_of, info_of
from eventlog.history.cursor import list_cursor, place_in
from eventlog.history.session_lists import lists_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog.log.commit import Head
    from eventlog.log.contract import Log

_AT_ONCE = 256
"""Sessions read while writers of the process wait."""
_PAGE = 500
"""Sessions of a page where a whole list is read."""


class SessionPage(msgspec.Struct, frozen=True):
    """Some sessions of a list, in its order, and where it goes on."""

    sessions: tuple[SessionInfo, ...]
    next: str | None
    """The cursor of the next page; None if this is the last one."""


def page_of(
    log: Log,
    scope: str | None = None,
    *,
    archived: bool | None = None,
    subsessions: bool | None = None,
    cursor: str | None = None,
    limit: int,
    since: int | None = None,
    chosen: Callable[[SessionInfo], bool] = lambda _: True,
    state_of: Callable[[Head, SessionInfo], SessionState | None],
) -> SessionPage:
    """Return the sessions of a scope, or of all, that come after a cursor; None is no filter.

    Those active `since` then that are `chosen`. `state_of` is asked for the state of each session
    that is shown.
    """
    name = None if scope is None else log.scope_name(scope)

    def belongs(head: Head, info: SessionInfo) -> bool:
        """Whether the session is in the list; an encrypted one does not always say so in clear."""
        if scope is not None:
            said = entry_of(head).scope
            if said != (name if info.locked else scope) or (info.locked and not said):
                return False
        return (
            (archived is None or info.archived == archived)
            and (subsessions is None or (info.parent is not None) == subsessions)
            and chosen(info)
        )

    lists = lists_named(name, archived, subsessions)
    before = None if cursor is None else place_in(cursor, log, lists)
    found: list[tuple[Head, SessionInfo]] = []
    wanted = limit + 1  # one more, to know whether there is a next page
    looked = 0
    while wanted > len(found):
        piece = max(wanted - len(found), looked)  # few pieces also where few sessions are in the list
        if not log.read_only:  # else no writer waits, and each piece may pass over all sessions
            piece = min(piece, _AT_ONCE)
        heads = log.newest(lists, before=before, limit=piece)
        infos = [(head, info_of(head)) for head in heads]
        recent = [(head, info) for head, info in infos if since is None or info.updated >= since]
        found += [(head, info) for head, info in recent if belongs(head, info)]
        if len(recent) < piece:
            break
        looked += piece
        before = log.place_of(heads[-1])
    shown = found[:limit]
    following = list_cursor(log, lists, log.place_of(shown[-1][0])) if len(found) > limit else None
    return SessionPage(tuple(replace(info, state=state_of(head, info)) for head, info in shown), following)


def sessions_of(log: Log, scope: str) -> list[str]:
    """Return the ids of the sessions of a scope, the newest activity first."""
    found: list[str] = []
    cursor = None
    while True:
        page = page_of(log, scope, cursor=cursor, limit=_PAGE, state_of=lambda _head, info: info.state)
        found += [info.id for info in page.sessions]
        cursor = page.next
        if cursor is None:
            return found
