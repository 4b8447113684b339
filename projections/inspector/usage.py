"""Usage over time for the page: sums by day, model and scope."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from decimal import Context, Decimal
from operator import add, attrgetter
from typing import TYPE_CHECKING, Any

from projections.inspector.catalogue import number
from projections.inspector.markup import visible

if TYPE_CHECKING:
    from eventlog import DayUsage, Store

__all__ = ["models_used", "usage_over_time"]

_WAIT = 1.0
"""Seconds for which the index is brought up to date, until the page asks on."""
_NAMED = 200
"""Models and scopes that are listed; the others are one sum."""
_EXACT = Context(prec=200)
_TOKENS = ("input", "output", "reasoning", "cache_read", "cache_write")
_COUNTS = ("replies", "errors", "calls", "failed", "unpriced", "estimated", *_TOKENS)
_counts_of = attrgetter(*_COUNTS[:-5], *(f"tokens.{name}" for name in _TOKENS))


class _Sums:
    """A sum of usage."""

    def __init__(self) -> None:
        self._counts = [0] * len(_COUNTS)
        self._cost = self._estimate = Decimal(0)
        self._sessions: set[str] = set()

    def add(self, used: DayUsage, counts: tuple[int, ...]) -> None:
        self._counts = [*map(add, self._counts, counts)]
        self._cost = _EXACT.add(self._cost, used.cost)
        self._estimate = _EXACT.add(self._estimate, used.estimate)
        self._sessions |= used.sessions

    @property
    def size(self) -> tuple[Decimal, int]:
        """Order in a list: by cost, then by tokens."""
        return self._cost + self._estimate, sum(self._counts[-5:])

    def as_json(self) -> dict[str, Any]:
        """Return the sums; a cost is null where no call has one."""
        counts = dict(zip(_COUNTS, self._counts, strict=True))
        return {
            **counts,
            "sessions": len(self._sessions),
            "cost": str(self._cost) if counts["calls"] > counts["unpriced"] else None,
            "estimate": str(self._estimate) if counts["estimated"] else None,
            "unknown": counts["unpriced"] - counts["estimated"],
        }


def usage_over_time(store: Store, query: Mapping[str, str], wait: float | None = _WAIT) -> dict[str, Any]:
    """Return the sums of what is asked for: in all, by day, by model and by scope.

    `wait` is for how long the index is brought up to date (`Store.usage_by_day`).
    """
    found = store.usage_by_day(
        since=number(query, "since", 0),
        until=number(query, "until", 1 << 52),
        scope=query.get("scope"),
        model=query.get("model"),
        wait=wait,
    )
    whole, days = _Sums(), defaultdict[int, _Sums](_Sums)
    named = {kind: defaultdict[str, _Sums](_Sums) for kind in ("model", "scope")}
    for used in found.days:
        counts = _counts_of(used)
        for sums in (whole, days[used.day], named["model"][used.model], named["scope"][used.scope]):
            sums.add(used, counts)
    return {
        "behind": found.behind,
        "prices": store.host.models.date,
        "total": whole.as_json(),
        "days": [{"day": day, **sums.as_json()} for day, sums in days.items()],
        **{f"{kind}s": _listed(sums) for kind, sums in named.items()},
        **{f"more_{kind}s": max(0, len(sums) - _NAMED) for kind, sums in named.items()},
    }


def _listed(sums: dict[str, _Sums]) -> list[dict[str, Any]]:
    """Return those with most cost and tokens first."""
    ranked = sorted(sums.items(), key=lambda found: found[1].size, reverse=True)
    return [{"name": name, "shown": visible(name), **each.as_json()} for name, each in ranked[:_NAMED]]


def models_used(store: Store) -> list[dict[str, Any]]:
    """Return the models with the number of their sessions, the most used first."""
    sessions: dict[str, set[str]] = {}
    for used in store.usage_by_day(wait=_WAIT).days:
        sessions.setdefault(used.model, set()).update(used.sessions)
    ranked = sorted(sessions.items(), key=lambda found: (-len(found[1]), found[0]))
    return [{"model": model, "shown": visible(model), "sessions": len(ids)} for model, ids in ranked[:_NAMED] if model]
