"""The branches of a conversation: which of its nodes the newest one stands behind.

Nodes are numbered in the order in which they come. A branch begins with a node that stands behind
an older one, of the same branch or of one that was left.
"""

from __future__ import annotations

from bisect import bisect_right

__all__ = ["Branches"]


class Branches:
    """The nodes on the way to the newest one, and those of left branches."""

    def __init__(self) -> None:
        self._first = [0]
        """First node of each branch."""
        self._behind = [-1]
        """The node that each branch stands behind."""
        self._starts, self._ends = [0], [-1]
        """First and last nodes of the pieces of the way; the last piece has no end."""

    def __contains__(self, node: int) -> bool:
        """Whether a node is on the way to the newest one."""
        place = bisect_right(self._starts, node) - 1
        return place >= 0 and (node <= self._ends[place] or place == len(self._ends) - 1)

    def begin(self, node: int, behind: int) -> None:
        """Begin a branch with a new node."""
        self._first.append(node)
        self._behind.append(behind)
        starts, ends = [node], [-1]
        while behind >= 0:
            place = bisect_right(self._first, behind) - 1
            starts.append(self._first[place])
            ends.append(behind)
            behind = self._behind[place]
        self._starts, self._ends = starts[::-1], ends[::-1]
