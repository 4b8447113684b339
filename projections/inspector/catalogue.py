"""The list of sessions for the page: by scope, state and title, newest activity first.

An imported session says tokens and models, and seldom a cost: list prices stand in for it. Its
usage is read once, and read on when the session grows. A list waits a fraction of a second at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from eventlog.errors import CallError, KeyMissingError, NotFoundError
from eventlog.errors.base import brief
from eventlog.events import UsageRecorded
from eventlog.history.catalog import info_of
from eventlog.history.relatives import subsessions_of
from eventlog.session.status import state_of
from projections.exports.html_text import visible
from projections.reports.usage import UsageTotals, total
from projections.server.live_pages import number

if TYPE_CHECKING:
    from eventlog import SessionInfo, Store

_LOOKED_AT = 100
"""Sessions that a search for a state reads first; then twice as many."""
_SLICE = 0.15
"""Seconds of looking for them, or of estimating costs, until the page asks for more."""
_FOUND = 200
"""Sessions of a search in the titles, at most."""
_FRESH = 2.0
"""Seconds for which all heads are not read again."""
_SELDOM = 10.0
"""Seconds for which the users of a model are not looked for again."""
_WAIT = 1.0
"""Seconds for which the index of models is brought up to date."""
_LISTED = 100
"""Sessions of a page of the list, at most."""
_ORDERS: dict[str, Callable[[SessionInfo], Any]] = {
    "": lambda info: info.updated,
    "created": lambda info: info.created,
    "messages": lambda info: info.messages,
    "tokens": lambda info: info.tokens,
    "cost": lambda info: info.spent or 0,
}
"""Order of a list, the largest first; by default that of the last activity."""
_SPECIAL = frozenset(("parent", "text", "since", "until", "cost", "model", "sort"))
"""Parameters of a list that the store does not have: all heads are read."""
_YES = {"yes": True, "no": False}
_FACTS = (
    "id", "parent", "fork_of", "forked_at", "created", "updated", "version", "events", "messages", "tokens",
    "unpriced", "archived", "locked", "state",
)  # fmt: skip
Query: TypeAlias = Mapping[str, str]
"""The parameters of an address."""


def info_json(info: SessionInfo) -> dict[str, Any]:
    """Return a session's listed facts."""
    return {
        **{name: getattr(info, name) for name in _FACTS},
        **{name: visible(getattr(info, name)) for name in ("title", "scope", "note")},
        "origin": "" if info.origin is None else info.origin.format,
    }


def cost_json(sums: UsageTotals) -> dict[str, Any]:
    """Return what a sum cost: recorded, estimated, and how many calls are in neither."""
    return {
        "calls": sums.calls,
        "cost": str(sums.cost) if sums.calls > sums.unpriced or sums.cost else None,
        "estimate": str(sums.estimate) if sums.estimated else None,
        "unknown": sums.unknown,
    }


class Estimates:
    """The estimated costs of the sessions of a store.  Safe across threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._known: dict[str, tuple[int, UsageTotals]] = {}
        """By session the version up to which it was read, and its usage up to there."""

    def of(self, infos: Iterable[SessionInfo], *, wait: bool = True) -> dict[str, UsageTotals]:
        """Return the usage of those of these sessions that have unpriced calls, as time allows.

        A session that is not in the answer has to be asked for again, if it has such calls. Without
        `wait` nothing is read.
        """
        found: dict[str, UsageTotals] = {}
        end = monotonic() + _SLICE if wait else 0.0
        with self._lock:
            for info in infos:
                if info.unpriced and not info.locked and self._read(info, end):
                    found[info.id] = self._known[info.id][1]
        return found

    def _read(self, info: SessionInfo, end: float) -> bool:
        """Read the usage of a session up to a moment; return whether that is all."""
        version, sums = self._known.get(info.id) or (info.version - info.events, UsageTotals())
        if version < info.version and monotonic() < end:
            try:
                for span in self._store.session(info.id).reader.spans(version, info.version):
                    version = span.last
                    if isinstance(span.item, UsageRecorded):
                        sums.add(span.item, self._store.host.models)
                    if monotonic() > end:
                        break
            except (NotFoundError, KeyMissingError):  # erased, or its key gone, meanwhile
                return False
            self._known[info.id] = version, sums
        return info.id in self._known and version >= info.version


class Catalogue:
    """The sessions of a store; all of their heads are read at most every other second."""

    def __init__(self, store: Store, scope: str | None = None) -> None:
        """With a `scope` it has the sessions of that scope, and no others."""
        self.store: Store = store
        self.scope: str | None = scope
        self._estimates = Estimates(store)
        self._lock = Lock()
        self._infos: list[SessionInfo] = []
        self._mark = ""
        self._read_at = 0.0
        self._used: tuple[str | None, float, frozenset[str]] = (None, 0.0, frozenset())
        """A model, when its sessions were looked for, and which they are."""

    def everyone(self, fresh: float = _FRESH) -> list[SessionInfo]:
        """All sessions, in the order of their ids, as they were at most `fresh` seconds ago."""
        with self._lock:
            if monotonic() - self._read_at > fresh and (mark := self.store.cursor()) != self._mark:
                self._infos, self._mark = list(self.store.sessions(scope=self.scope)), mark
                self._read_at = monotonic()
            return self._infos

    def page(self, query: Query) -> dict[str, Any]:
        """A page of the list, and the cursor of the next one.

        It has the sessions of a `scope`, `archived` or not, `subsessions` or not, in a `state`,
        below a `parent`, with a `text` in the title, active `since` then and before `until` (UTC
        milliseconds), that cost at least so many US dollars, and used a `model`. Costs are those
        that the list shows: recorded, and estimated for the calls without one.

        Sessions of a state are looked for in the order of the list, for a fraction of a second: a
        page may have few of them, or none, and a cursor with which the search goes on. `estimates`
        of costs that are not known yet take another fraction; `unestimated` sessions, of a list by
        cost, stand where their recorded costs put them, until a later page knows more.
        """
        infos: list[SessionInfo] = []
        looked, end, state = 0, monotonic() + _SLICE, query.get("state")
        limit = number(query, "limit", 50, least=1, most=_LISTED)
        size, cursor = _LOOKED_AT if state else limit, query.get("cursor")
        archived, subsessions = (_YES.get(query.get(name, "")) for name in ("archived", "subsessions"))
        chosen, unestimated = None, 0
        if not _SPECIAL.isdisjoint(query):
            chosen, unestimated = self._chosen(query, archived, subsessions)
        start = 0 if chosen is None else number(query, "cursor", 0)
        while True:
            if chosen is None:
                newest = self.store.newest_sessions(
                    query.get("scope"), archived=archived, subsessions=subsessions, cursor=cursor, limit=size
                )
                found, cursor = [*newest.sessions], newest.next
            else:
                found, start = [*map(self.with_state, chosen[start : start + size])], start + size
                cursor = str(start) if start < len(chosen) else None
            infos += [info for info in found if not state or info.state == state]
            looked += len(found)
            if not state or cursor is None or len(infos) >= limit or monotonic() > end:
                page = self.listed(infos, wait="estimates" in query)
                page["estimating"] |= unestimated > 0
                return page | {"next": cursor, "looked": looked, "unestimated": unestimated}
            size *= 2

    def _chosen(self, query: Query, archived: bool | None, subsessions: bool | None) -> tuple[list[SessionInfo], int]:
        """All sessions that a special list has, in its order, and how many wait for an estimate.

        It reads the heads of all, and for an order or a bound by cost the usage of unpriced calls.
        """
        sort, scope, parent, model = query.get("sort", ""), *map(query.get, ("scope", "parent", "model"))
        if sort not in _ORDERS:
            raise CallError(f"sort is one of {', '.join(filter(None, _ORDERS))}, not {brief(sort)}")
        try:
            least = Decimal(query.get("cost", "0"))
        except ArithmeticError:
            raise CallError(f"cost is a number of US dollars, not {brief(query['cost'])}") from None
        since, until = number(query, "since", 0), number(query, "until", 1 << 53)
        title = query.get("text", "").casefold()
        everyone = self.everyone()
        known = {info.id for info in everyone}
        users = None if model is None else self._users(model)
        found = [
            info
            for info in everyone
            if (scope is None or info.scope == scope)
            and (archived is None or info.archived == archived)
            and (parent is None or info.parent == parent)
            and (subsessions is None or (info.parent in known) == subsessions)
            and since <= info.updated < until
            and title in info.title.casefold()
            and (users is None or info.id in users)
        ]
        waiting, places = 0, {info.id: _ORDERS[sort](info) for info in found}
        if sort == "cost" or least:
            estimates = self._estimates.of(found, wait="estimates" in query)
            costs = {
                info.id: (info.spent or 0) + (estimates[info.id].estimate if info.id in estimates else 0)
                for info in found
            }
            waiting = self._waiting(found, estimates)
            found = [info for info in found if costs[info.id] >= least]
            places = costs if sort == "cost" else places
        return sorted(found, key=lambda info: (-places[info.id], -info.updated, info.id)), waiting

    @staticmethod
    def _waiting(infos: Iterable[SessionInfo], estimates: Mapping[str, UsageTotals]) -> int:
        """Return how many sessions have calls whose cost is still to be estimated."""
        return sum(bool(info.unpriced) and not info.locked and info.id not in estimates for info in infos)

    def _users(self, model: str) -> frozenset[str]:
        """The sessions that used a model, as they were at most some seconds ago."""
        asked, read, users = self._used
        if asked != model or monotonic() - read > _SELDOM:
            found = self.store.usage_by_day(model=model, wait=_WAIT)  # without the lock, as this may wait
            users = frozenset[str]().union(*(used.sessions for used in found.days))
            self._used = model, -_SELDOM if found.behind else monotonic(), users
        return users

    def with_state(self, info: SessionInfo) -> SessionInfo:
        """Return the facts with whether a task runs the session, or has to go on with it."""
        head = self.store.log.head(info.id)
        return info if head is None else replace(info, state=state_of(self.store.registry, head, info))

    def listed(self, infos: Iterable[SessionInfo], *, wait: bool = True) -> dict[str, Any]:
        """Return the facts of sessions, and whether more estimates of costs are to come.

        Each has its own cost; with sub-sessions, those below them included, also the cost of all.
        """
        shown = list(infos)
        families = {info.id: self._family(info) for info in shown}
        known = {each.id: each for family in families.values() for each in family}
        estimates = self._estimates.of(known.values(), wait=wait)
        rows: list[dict[str, Any]] = []
        for info in shown:
            family = families[info.id]
            number = sum(each.parent == info.id for each in family)
            together = self.cost(family) if number else None
            rows.append({**info_json(info), **self.cost([info]), "subsessions": number, "together": together})
        return {"sessions": rows, "estimating": self._waiting(known.values(), estimates) > 0}

    def cost(self, infos: Sequence[SessionInfo]) -> dict[str, Any]:
        """Return what sessions cost together, with the estimates that are known."""
        estimates = self._estimates.of(infos, wait=False)
        return cost_json(
            total(
                estimates.get(info.id) or UsageTotals(calls=info.calls, cost=info.cost, unpriced=info.unpriced)
                for info in infos
            )
        )

    def _family(self, info: SessionInfo) -> list[SessionInfo]:
        """The session, its sub-sessions and theirs."""
        family = {info.id: info}
        waiting = [info.id]
        while waiting:
            for child in map(info_of, subsessions_of(self.store.log, waiting.pop())):
                if child.id not in family and self.scope in {None, child.scope}:
                    family[child.id] = child
                    waiting.append(child.id)
        return list(family.values())

    def scopes(self) -> list[dict[str, Any]]:
        """The scopes with the number of their sessions, the largest first."""
        counts = Counter(info.scope for info in self.everyone())
        ranked = sorted(counts.items(), key=lambda found: (-found[1], found[0]))
        return [{"scope": scope, "shown": visible(scope), "sessions": count} for scope, count in ranked[:_FOUND]]

    def forks_of(self, session: str) -> list[dict[str, Any]]:
        """The sessions that were forked from one, with the version at which they leave it."""
        return [
            {"id": info.id, "title": visible(info.title), "at": info.forked_at}
            for info in self.everyone()
            if info.fork_of == session
        ]
