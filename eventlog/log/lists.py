"""Lists of sessions by name, newest activity first.  Pure; shared by all engines.

The program that opens a log says by a function of the catalog entry, as it is stored, in which
lists a session is. The function must not raise, and returns the same for the same entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from typing import TYPE_CHECKING, TypeAlias

from eventlog.errors import CallError

if TYPE_CHECKING:
    from eventlog.log.contract import Head, Place

__all__ = ["ListsOf", "newest_of", "place_of", "require_lists"]

ListsOf: TypeAlias = Callable[[bytes], Sequence[bytes]]
"""From a catalog entry to the names of the lists that its session is in."""


def place_of(head: Head) -> Place:
    """Return the place of a session in its lists, of a log of one partition."""
    return head.updated, head.position


def newest_of(
    heads: Iterable[Head],
    lists_of: ListsOf,
    lists: Sequence[bytes],
    before: Place | None,
    limit: int,
    *,
    place_of: Callable[[Head], Place] = place_of,
) -> list[Head]:
    """Return `Log.newest` of all heads, each of which is looked at."""
    wanted = frozenset(lists)
    return nlargest(
        limit,
        (
            head
            for head in heads
            if (before is None or place_of(head) < before) and not wanted.isdisjoint(lists_of(head.entry))
        ),
        key=place_of,
    )


def require_lists(lists_of: ListsOf | None) -> ListsOf:
    """Return the function that a log was opened with; `CallError` if there is none."""
    if lists_of is None:
        raise CallError(
            "the log was opened without lists of sessions: open it with `lists_of`, as `eventlog.open` does"
        )
    return lists_of
