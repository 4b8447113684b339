"""Usage by day, model or scope as JSON, for the command line and the inspector."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from eventlog.search.usage import COUNTS, TOKENS, DayUsage, total

__all__ = ["days_json", "grouped", "sums_json"]

K = TypeVar("K", int, str)


def grouped(parts: Iterable[DayUsage], by: Callable[[DayUsage], K]) -> dict[K, DayUsage]:
    """Return the sum of the parts with each key that `by` returns, in the order of the parts."""
    groups: defaultdict[K, list[DayUsage]] = defaultdict(list)
    for part in parts:
        groups[by(part)].append(part)
    return {key: total(found) for key, found in groups.items()}


def days_json(parts: Iterable[DayUsage]) -> list[dict[str, Any]]:
    """Return the sum of each day."""
    return [{"day": day, **sums_json(used)} for day, used in grouped(parts, lambda used: used.day).items()]


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
