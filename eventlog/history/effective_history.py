"""Effective history: the versions that count after rollbacks, and the stream of each.

A fork's own first version follows the version it forked at, so along an ancestry a version number
names exactly one event: the pair (ancestry, set of effective versions) says everything. Commands
and projections both need it. Nothing here reads a log.

`rolled back (to v)` at version r makes effective(r) = effective(v) + {r}, for any v. It is a redo
only if v is the version right before the newest rollback that was not redone; any other rollback
can be redone itself.

`AssistantMessageStarted.seen` is the version up to which the history was sent to the model. A reply
has seen the messages whose place is at or before it. The place of a message is the version that put
it into the conversation: its promotion, else its birth. All that is said of questions and answers
asks `has_seen`, and compares no versions itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from eventlog.errors import DamagedError

END = (1 << 63) - 1
"""Last version of a stream that still grows."""


class StreamRange(NamedTuple):
    """Versions `first..last` of an ancestry, in the stream of `session`."""

    session: str
    first: int
    last: int


class History(msgspec.Struct, array_like=True):
    """The effective versions of one session, updated event by event.

    A tree: node 0 is the beginning, node i the i-th rollback; a node's parent is the node whose
    range holds the rollback's target. Effective are the newest node's range up to now, its parent's
    up to the target, and so on. Jump pointers (Myers, 1983: an ancestor is found in O(log n) steps)
    keep `holds` and `roll_back` fast after any number of rollbacks. Every list only grows, so the
    newest rollback can be undone.
    """

    starts: list[int] = msgspec.field(default_factory=lambda: [1])
    """First version of each node's range: the rollback itself."""
    targets: list[int] = msgspec.field(default_factory=lambda: [0])
    parents: list[int] = msgspec.field(default_factory=lambda: [0])
    jumps: list[int] = msgspec.field(default_factory=lambda: [0])
    depths: list[int] = msgspec.field(default_factory=lambda: [0])
    undone: list[int] = msgspec.field(default_factory=lambda: [0])
    """The newest rollback, as of each node, that was not redone (0: none)."""

    def holds(self, version: int) -> bool:
        """Return whether a version is in the effective history."""
        if version >= self.starts[-1]:
            return True
        if version < 1:
            return False
        return version <= self.targets[self._child_above(version)]

    def roll_back(self, version: int, to: int) -> None:
        """Add the rollback event `version`; `DamagedError` unless `to` is a version before it."""
        if not 0 < to < version:
            raise DamagedError(f"a rollback to version {to}, which is not before it", version=version)
        parent = bisect_right(self.starts, to) - 1
        jump = self.jumps[parent]
        level = self.depths[parent] - self.depths[jump] == self.depths[jump] - self.depths[self.jumps[jump]]
        last = self.undone[-1]
        redo = last and to == self.starts[last] - 1
        self.undone.append(self.undone[last - 1] if redo else len(self.starts))
        self.starts.append(version)
        self.targets.append(to)
        self.parents.append(parent)
        self.jumps.append(self.jumps[jump] if level else parent)
        self.depths.append(self.depths[parent] + 1)

    def cut(self, version: int) -> None:
        """Remove the rollbacks after a version."""
        count = bisect_right(self.starts, version)
        for column in (self.starts, self.targets, self.parents, self.jumps, self.depths, self.undone):
            del column[max(count, 1) :]

    def to_redo(self) -> int | None:
        """Return the version of the newest rollback that was not redone, None if there is none."""
        node = self.undone[-1]
        return self.starts[node] if node else None

    def at(self, version: int) -> list[tuple[int, int]]:
        """Return the effective ranges right after `version` (closed, ascending)."""
        ranges: list[tuple[int, int]] = []
        for first, last in self.newest_first(version):
            if ranges and ranges[-1][0] == last + 1:
                ranges[-1] = (first, ranges[-1][1])
            else:
                ranges.append((first, last))
        ranges.reverse()
        return ranges

    def newest_first(self, version: int = END) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the effective history right after `version`, newest first."""
        node = bisect_right(self.starts, version) - 1
        while version > 0:
            yield self.starts[node], version
            node, version = self.parents[node], self.targets[node]

    def shared_with(self, to: int) -> int:
        """Return the newest version that is effective now and was right after version `to`."""
        if to >= self.starts[-1] or to < 1:
            return to
        _, version, upto = self._differing(to)
        return min(version, upto)

    def lost(self, to: int) -> list[tuple[int, int]]:
        """Return the ranges that are effective now and would not be right after version `to`.

        Closed, ascending. Costs what differs.
        """
        ranges, version, upto = self._differing(to)
        if version > upto:
            ranges.append((upto + 1, version))
        ranges.reverse()
        return ranges

    def _differing(self, to: int) -> tuple[list[tuple[int, int]], int, int]:
        """Walk from now and from version `to` towards the beginning, to the node where they meet.

        Returns the ranges of now on the way, newest first, and the last versions of now and of then
        in that node.
        """
        ranges: list[tuple[int, int]] = []
        node, version = len(self.starts) - 1, END
        other, upto = bisect_right(self.starts, to) - 1, to
        while node != other:
            if node > other:
                ranges.append((self.starts[node], version))
                node, version = self.parents[node], self.targets[node]
            else:
                other, upto = self.parents[other], self.targets[other]
        return ranges, version, upto

    def _child_above(self, version: int) -> int:
        """Return the last node on the way from the newest to the beginning that starts later."""
        starts, parents, jumps = self.starts, self.parents, self.jumps
        node = len(starts) - 1
        while True:
            if starts[jumps[node]] > version:
                node = jumps[node]
            elif starts[parents[node]] > version:
                node = parents[node]
            else:
                return node


def seen_upto(began: int, seen: int | None) -> int:
    """Return the version up to which a reply that began at `began` has seen the history.

    `seen` is what its first event says; None (imports, records): all that stands before it.
    """
    return began - 1 if seen is None else seen


def has_seen(began: int, seen: int | None, place: int) -> bool:
    """Return whether a reply has seen the message at `place`; the rest as in `seen_upto`."""
    return place <= seen_upto(began, seen)
