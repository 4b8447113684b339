"""The lists of the sessions in one part of the memtable, kept up as the part grows.

A request for a list reads what came since the last one. Rows may be left over where an interrupt
broke that off: the reader compares each with the session's head. The partition guards it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, TypeAlias

from eventlog.log.contract import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from eventlog.log.commit import Commit, Head
    from eventlog.log.contract import Place
    from eventlog.log.lists import ListsOf

Row: TypeAlias = tuple["Place", str]
"""A row of a list: the place of a session, and its id."""


class PartLists:
    """Rows by list, in the order of their places."""

    __slots__ = ("_lists", "_rows", "_seen")

    def __init__(self) -> None:
        self._lists: dict[bytes, list[Row]] = {}
        self._rows: dict[str, tuple[Row, Sequence[bytes]]] = {}
        """The row of each session, and the lists that it is in."""
        self._seen = 0

    def follow(self, order: Sequence[Commit], heads: Mapping[str, Head], lists_of: ListsOf) -> None:
        """Take in the commits that came since the last call."""
        if self._seen == len(order):
            return
        upto = len(order)
        for session in {commit.session for commit in order[self._seen : upto]}:
            row, lists = self._rows.get(session, (None, ()))
            for name in lists:
                rows = self._lists[name]
                if row is not None and (at := bisect_left(rows, row)) < len(rows) and rows[at] == row:
                    del rows[at]
            head = heads[session]
            row, lists = (place_of(head), session), lists_of(head.entry)
            self._rows[session] = row, lists
            for name in lists:
                insort(self._lists.setdefault(name, []), row)
        self._seen = upto

    def rows(self, name: bytes, before: Place | None) -> Iterator[Row]:
        """Return the rows of a list whose places are less than `before`, newest first."""
        rows = self._lists.get(name, [])
        end = len(rows) if before is None else bisect_left(rows, (before, ""))
        return (rows[at] for at in range(end - 1, -1, -1))
