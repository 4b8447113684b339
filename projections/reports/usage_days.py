"""Usage by day, model or scope as JSON, for the command line and the inspector."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Literal

from eventlog.search.usage import COUNTS, TOKENS, DayUsage, total


def sums_by(parts: Iterable[DayUsage], field: Literal["day", "model", "scope"]) -> list[dict[str, Any]]:
    """Return the sum of each day, model or scope; days in order, the others by what they cost."""
    groups: defaultdict[Any, list[DayUsage]] = defaultdict(list)
    for part in parts:
        groups[getattr(part, field)].append(part)
    sums = [(key, total(found)) for key, found in groups.items()]
    if field != "day":
        sums.sort(key=lambda found: (found[1].cost + found[1].estimate, _tokens(found[1])), reverse=True)
    return [{field: key, **sums_json(used)} for key, used in sums]


def _tokens(used: DayUsage) -> int:
    return sum(getattr(used.tokens, name) for name in TOKENS)


def sums_json(used: DayUsage) -> dict[str, Any]:
    """Return a sum; a cost is null where no call has one."""
    return {
        **{name: getattr(used, name) for name in COUNTS},
        **{name: getattr(used.tokens, name) for name in TOKENS},
        "sessions": len(used.sessions),
        "cost": str(used.cost) if used.calls > used.unpriced else None,
        "estimate": str(used.estimate) if used.estimated else None,
        "unknown": used.unpriced - used.estimated,
    }
