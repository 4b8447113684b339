"""The list of sessions for the page: by scope, state and title, newest activity first."""

from __future__ import annotations

from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from eventlog.session.unfinished import state_of
from projections.inspector.estimates import Estimates
from projections.inspector.markup import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eventlog import SessionInfo, Store

__all__ = ["Catalogue", "info_json"]

_LOOKED_AT = 100
"""Sessions that a search for a state reads first; then twice as many."""
_SLICE = 0.15
"""Seconds of looking for them, until the page asks for more."""
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
        self._estimates = Estimates(store)
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
        estimates: bool = False,
    ) -> dict[str, Any]:
        """A page of the list, and the cursor of the next one.

        Sessions of a state are looked for among the newest first, for a fraction of a second: a
        page may have few of them, or none, and a cursor with which the search goes on. `estimates`
        of costs that are not known yet take another fraction.
        """
        if text:
            found = self._store.sessions(scope=scope, archived=archived, text=text)
            newest = sorted(found, key=lambda info: (-info.updated, info.id))
            known = map(self.with_state, newest[:_FOUND])
            shown = [info for info in known if not state or info.state == state]
            return self.listed(shown, wait=estimates) | {"next": None, "looked": len(newest)}
        infos: list[SessionInfo] = []
        looked, end = 0, monotonic() + _SLICE
        size = _LOOKED_AT if state else limit
        while True:
            page = self._store.newest_sessions(scope, archived=archived, cursor=cursor, limit=size)
            infos += [info for info in page.sessions if not state or info.state == state]
            looked, cursor = looked + len(page.sessions), page.next
            if not state or cursor is None or len(infos) >= limit or monotonic() > end:
                return self.listed(infos, wait=estimates) | {"next": cursor, "looked": looked}
            size *= 2

    def with_state(self, info: SessionInfo) -> SessionInfo:
        """Return the facts with whether a task runs the session, or has to go on with it."""
        head = self._store.log.head(info.id)
        return info if head is None else replace(info, state=state_of(self._store, head, info))

    def listed(self, infos: Iterable[SessionInfo], *, wait: bool = True) -> dict[str, Any]:
        """Return the facts of sessions, and whether more estimates of costs are to come."""
        shown = list(infos)
        estimates = self._estimates.of(shown, wait=wait)
        rows: list[dict[str, Any]] = []
        for info in shown:
            sums = estimates.get(info.id)
            estimate = str(sums.estimate) if sums is not None and sums.estimated else None
            unknown = info.unpriced if sums is None else sums.unknown
            rows.append(info_json(info) | {"estimate": estimate, "unknown": unknown})
        waiting = any(info.unpriced and not info.locked and info.id not in estimates for info in shown)
        return {"sessions": rows, "estimating": waiting}

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
