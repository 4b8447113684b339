"""Usage over time for the page: sums by day, model and scope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eventlog.search.usage import DayUsage, total
from projections.exports.html_text import visible
from projections.inspector.catalogue import number
from projections.reports.usage_days import grouped, size, sums_by, sums_json

if TYPE_CHECKING:
    from eventlog import Store

_WAIT = 1.0
"""Seconds for which the index is brought up to date, until the page asks on."""
_NAMED = 200
"""Models and scopes that are listed; the others are one sum."""


def usage_over_time(store: Store, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the sums of what is asked for: in all, by day, by model and by scope."""
    found = store.usage_by_day(
        since=number(query, "since", 0),
        until=number(query, "until", 1 << 52),
        scope=query.get("scope"),
        model=query.get("model"),
        wait=_WAIT,
    )
    named = {
        "model": grouped(found.days, lambda used: used.model),
        "scope": grouped(found.days, lambda used: used.scope),
    }
    return {
        "behind": found.behind,
        "prices": store.host.models.date,
        "total": sums_json(total(found.days)),
        "days": sums_by(found.days, "day"),
        **{f"{kind}s": _listed(sums) for kind, sums in named.items()},
        **{f"more_{kind}s": max(0, len(sums) - _NAMED) for kind, sums in named.items()},
    }


def _listed(sums: dict[str, DayUsage]) -> list[dict[str, Any]]:
    """Return those with most cost and tokens first."""
    ranked = sorted(sums.items(), key=lambda found: size(found[1]), reverse=True)
    return [{"name": name, "shown": visible(name), **sums_json(used)} for name, used in ranked[:_NAMED]]


def models_used(store: Store) -> list[dict[str, Any]]:
    """Return the models with the number of their sessions, the most used first."""
    used = grouped(store.usage_by_day(wait=_WAIT).days, lambda used: used.model)
    ranked = sorted(used.items(), key=lambda found: (-len(found[1].sessions), found[0]))
    return [
        {"model": model, "shown": visible(model), "sessions": len(each.sessions)}
        for model, each in ranked[:_NAMED]
        if model
    ]
