"""Lists of sessions by name, newest activity first.  Pure; shared by all engines.

The program that opens a log says by a function of the catalog entry, as it is stored, in which
lists a session is. The function must not raise, and returns the same for the same entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from eventlog.errors import CallError
from eventlog.log.contract import place_of

if TYPE_CHECKING:
    from eventlog.log.commit import Head
    from eventlog.log.contract import Place

ListsOf: TypeAlias = Callable[[bytes], Sequence[bytes]]
"""From a catalog entry to the names of the lists that its session is in."""


def newest_of(
    heads: Iterable[Head],
    lists_of: ListsOf,
    lists: Sequence[bytes],
    before: Place | None,
    limit: int,
    *,
    partitions: int = 1,
) -> list[Head]:
    """Return `Log.newest` of all heads of a log, each of which is looked at."""
    wanted = frozenset(lists)
    placed = ((place_of(head, partitions), head) for head in heads)
    found = (
        (place, head)
        for place, head in placed
        if (before is None or place < before) and not wanted.isdisjoint(lists_of(head.entry))
    )
    return [head for _, head in nlargest(limit, found, key=itemgetter(0))]


def require_lists(lists_of: ListsOf | None) -> ListsOf:
    """Return the function that a log was opened with; `CallError` if there is none."""
    if lists_of is None:
        raise CallError(
            "the log was opened without lists of sessions: open it with `lists_of`, as `eventlog.open` does"
        )
    return lists_of
