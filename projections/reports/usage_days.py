"""Usage by day, model or scope as JSON, for the command line and the inspector."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from decimal import Decimal
from operator import attrgetter
from typing import Any, Literal, TypeVar

from eventlog.search.usage import COUNTS, TOKENS, DayUsage, total

K = TypeVar("K", int, str)


def grouped(parts: Iterable[DayUsage], by: Callable[[DayUsage], K]) -> dict[K, DayUsage]:
    """Return the sum of the parts with each key that `by` returns, in the order of the parts."""
    groups: defaultdict[K, list[DayUsage]] = defaultdict(list)
    for part in parts:
        groups[by(part)].append(part)
    return {key: total(found) for key, found in groups.items()}


def sums_by(parts: Iterable[DayUsage], field: Literal["day", "model", "scope"]) -> list[dict[str, Any]]:
    """Return the sum of each day, model or scope; days in order, the others by what they cost."""
    groups: dict[Any, DayUsage] = grouped(parts, attrgetter(field))
    ranked = (
        groups.items() if field == "day" else sorted(groups.items(), key=lambda found: size(found[1]), reverse=True)
    )
    return [{field: key, **sums_json(used)} for key, used in ranked]


def size(used: DayUsage) -> tuple[Decimal, int]:
    """Return the place in a list: by cost, then by tokens."""
    return used.cost + used.estimate, sum(getattr(used.tokens, name) for name in TOKENS)


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
