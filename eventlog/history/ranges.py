"""Ranges of versions: closed, ascending, apart from each other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from eventlog.history.effective_history import END

Range: TypeAlias = tuple[int, int]
"""First and last version."""


def merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return these ranges, in any order, as ranges that are apart."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def clipped(ranges: Sequence[Range], first: int, last: int) -> tuple[Range, ...]:
    """Return what of the ranges lies in versions `first..last`."""
    return tuple((max(low, first), min(high, last)) for low, high in ranges if low <= last and high >= first)


def shared(ranges: Sequence[Range], others: Sequence[Range]) -> list[Range]:
    """Return what of the ranges is in one of the others, too."""
    found: list[Range] = []
    place = 0
    for first, last in ranges:
        place = max(bisect_right(others, (first, END), place) - 1, 0)
        while place < len(others) and others[place][0] <= last:
            low, high = others[place]
            if high >= first:
                found.append((max(low, first), min(high, last)))
            if high > last:
                break
            place += 1
    return found


def covers(ranges: Sequence[Range], version: int) -> bool:
    """Return whether a version is in one of the ranges."""
    place = bisect_right(ranges, (version, END)) - 1
    return place >= 0 and version <= ranges[place][1]


def meets(ranges: Sequence[Range], first: int, last: int) -> bool:
    """Return whether any of the versions `first..last` is in one of the ranges."""
    place = bisect_right(ranges, (last, END)) - 1
    return place >= 0 and ranges[place][1] >= first


def without(ranges: Iterable[Range], others: Sequence[Range]) -> list[Range]:
    """Return what of the ranges is in none of the others."""
    if not others:
        return list(ranges)
    left: list[Range] = []
    for first, last in ranges:
        start = first
        place = max(bisect_right(others, (first, first)) - 1, 0)
        while place < len(others) and others[place][0] <= last:
            low, high = others[place]
            if high >= start:
                if low > start:
                    left.append((start, low - 1))
                start = max(start, high + 1)
            place += 1
        if start <= last:
            left.append((start, last))
    return left
