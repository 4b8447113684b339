"""The list of sessions for the page: by scope, state and title, newest activity first."""

from __future__ import annotations

from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from projections.inspector.markup import visible

if TYPE_CHECKING:
    from eventlog import SessionInfo, Store

__all__ = ["Catalogue", "info_json"]

_LOOKED_AT = 400
"""The newest sessions, among which running ones are looked for."""
_FOUND = 200
"""Sessions of a search in the titles, at most."""
_FRESH = 2.0
"""Seconds for which all heads are not read again."""


def info_json(info: SessionInfo) -> dict[str, Any]:
    """Return a session's listed facts."""
    return {
        "id": info.id,
        "title": visible(info.title),
        "scope": visible(info.scope),
        "parent": info.parent,
        "forkOf": info.fork_of,
        "forkedAt": info.forked_at,
        "created": info.created,
        "updated": info.updated,
        "version": info.version,
        "events": info.events,
        "messages": info.messages,
        "tokens": info.tokens,
        "calls": info.calls,
        "cost": None if info.spent is None else str(info.spent),
        "unpriced": info.unpriced,
        "archived": info.archived,
        "locked": info.locked,
        "agent": visible(info.agent),
        "directory": visible(info.directory),
        "origin": "" if info.origin is None else info.origin.format,
        "note": visible(info.note),
        "state": info.state,
    }


class Catalogue:
    """The sessions of a store; all of their heads are read at most every other second."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._infos: list[SessionInfo] = []
        self._mark = ""
        self._read_at = 0.0

    def everyone(self) -> list[SessionInfo]:
        """All sessions, in the order of their ids."""
        with self._lock:
            if monotonic() - self._read_at > _FRESH and (mark := self._store.cursor()) != self._mark:
                self._infos, self._mark = list(self._store.sessions()), mark
                self._read_at = monotonic()
            return self._infos

    def page(
        self,
        *,
        scope: str | None = None,
        archived: bool | None = None,
        state: str = "",
        text: str = "",
        cursor: str | None = None,
        limit: int = 20,
    ) -> dict[str, Any]:
        """A page of the list, and the cursor of the next one."""
        if text:
            found = self._store.sessions(scope=scope, archived=archived, text=text)
            newest = sorted(found, key=lambda info: (-info.updated, info.id))
            return self._answer(newest[:_FOUND], None, len(newest))
        if state == "unfinished":
            waiting = [info for info in self._store.unfinished() if scope is None or info.scope == scope]
            waiting.sort(key=lambda info: (-info.updated, info.id))
            return self._answer(waiting[:_FOUND], None, len(waiting))
        size = _LOOKED_AT if state == "running" else limit
        page = self._store.newest_sessions(scope, archived=archived, cursor=cursor, limit=size)
        if state == "running":
            return self._answer([info for info in page.sessions if info.state == "running"], None, None)
        return self._answer(page.sessions, page.next, None)

    def scopes(self) -> list[dict[str, Any]]:
        """The scopes with the number of their sessions, the largest first."""
        counts: dict[str, int] = {}
        for info in self.everyone():
            counts[info.scope] = counts.get(info.scope, 0) + 1
        ranked = sorted(counts.items(), key=lambda found: (-found[1], found[0]))
        return [{"scope": scope, "shown": visible(scope), "sessions": count} for scope, count in ranked[:_FOUND]]

    def forks_of(self, session: str) -> list[dict[str, Any]]:
        """The sessions that were forked from one, with the version at which they leave it."""
        return [
            {"id": info.id, "title": visible(info.title), "at": info.forked_at}
            for info in self.everyone()
            if info.fork_of == session
        ]

    def _answer(self, infos: Any, following: str | None, found: int | None) -> dict[str, Any]:
        return {"sessions": [info_json(info) for info in infos], "next": following, "found": found}
