"""Links between a transcript's records: where the conversation goes on, and where it branches.

A record names its parent by uuid, and may stand before it: then the parent is a *gap* until it
comes. Records that are no messages wait in it, and belong to its node once it is there. A message
that stands before its parent goes on where the transcript is; the parent, and what leads to it
from before, join it there: no branch begins between them. A gap that stays open for `AGE` records
closes: its parent is lost.

Importers and feeds of a transcript ask the same links, so both give equal branches.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["AGE", "Gap", "Links", "Place"]

AGE = 128
"""Records in which a parent may follow its child."""

Place: TypeAlias = Literal["here", "joins", "branch"]
"""Where a message stands: behind the newest node, within it, or behind an earlier one."""


class Gap:
    """A parent that has not come."""

    __slots__ = ("base", "born", "crossed", "ends", "followers")

    def __init__(self, born: int) -> None:
        self.born = born
        self.followers: set[str] = set()
        """Records that belong to the parent's node."""
        self.crossed = False
        """Whether a message stands behind the gap."""
        self.base: set[str] = set()
        """Records of the node before that message, where the parents of the parent may be."""
        self.ends = False
        """Whether the parent is the last record of its turn."""


class Links:
    """The newest node of a conversation, and its gaps."""

    def __init__(self) -> None:
        self.tip: set[str] = set()
        """Records of the newest node, and of nodes that it joined."""
        self.tail = ""
        """The last message that a compaction under way keeps: what follows it follows the summary."""
        self._gaps: dict[str, Gap] = {}
        self._count = 0

    def ends(self, uuid: str) -> bool:
        """Whether a turn is over with a record that comes now."""
        gap = self._gaps.get(uuid)
        return gap is not None and gap.ends

    def place(self, uuid: str, parent: object, *, has_come: bool, is_root: bool = False) -> Place:
        """Return where a message stands; `has_come` says this of its parent."""
        crossed = [gap for gap in self._gaps.values() if gap.crossed]
        own = self._gaps.get(uuid)
        if own is not None and own.crossed:
            return "joins"
        if is_root:
            return "branch" if all(gap.base for gap in crossed) else "joins"
        if not has_come or parent in self.tip:
            return "here"
        return "joins" if any(parent in gap.base for gap in crossed) else "branch"

    def message(self, uuid: str, parent: object, place: Place, *, has_come: bool) -> set[str]:
        """Take a message at its place; return the records that waited for it."""
        gap, before = self._come(uuid), self.tip
        followers = set[str]() if gap is None else gap.followers
        if place == "branch":
            self._gaps.clear()
        if place == "joins":
            for other in self._gaps.values():
                if parent in other.base:
                    other.base.add(uuid)
        else:
            self.tip = set()
        self._take(uuid, *followers)
        if isinstance(parent, str) and place != "branch":
            waiting = self._gap(parent, has_come=has_come)
            if waiting is not None and not waiting.crossed:
                waiting.crossed = True
                waiting.base |= before if gap is None or not gap.crossed else gap.base
        return followers

    def inside(self, uuid: str, parent: object, *, has_come: bool) -> set[str]:
        """Take a record of the newest message; return the records that waited for it."""
        gap = self._come(uuid)
        followers = set[str]() if gap is None else gap.followers
        self._take(uuid, *followers)
        if isinstance(parent, str) and uuid and (waiting := self._gap(parent, has_come=has_come)) is not None:
            waiting.followers.add(uuid)
        return followers

    def aside(self, uuid: str, parent: object, *, has_come: bool, ends: bool = False) -> set[str]:
        """Take a record that is of no message; return the records that waited for it."""
        gap = self._come(uuid)
        followers = set[str]() if gap is None else gap.followers
        waiting = self._gap(parent, has_come=has_come) if isinstance(parent, str) else None
        if waiting is not None:
            waiting.followers |= {uuid, *followers} - {""}
            waiting.ends = waiting.ends or ends
            if gap is not None and gap.crossed:
                waiting.crossed, waiting.base = True, waiting.base | gap.base
        if waiting is not None or not has_come or parent in self.tip:
            self._take(uuid, *followers)
        return followers

    def node(self, uuid: str, tail: str = "") -> None:
        """Take the request for a compaction, which keeps messages up to `tail`, or its summary."""
        self._come(uuid)
        kept, self.tail = tail or self.tail, tail
        self.tip = set()
        self._take(uuid, kept)

    def _take(self, *uuids: str) -> None:
        self.tip.update(uuid for uuid in uuids if uuid)

    def _come(self, uuid: str) -> Gap | None:
        """Count a record that comes, and close the gap that it was, and those that are too old."""
        self._count += 1
        while self._gaps:
            oldest = next(iter(self._gaps))
            if self._gaps[oldest].born >= self._count - AGE:
                break
            del self._gaps[oldest]
        return self._gaps.pop(uuid, None)

    def _gap(self, parent: str, *, has_come: bool) -> Gap | None:
        """Return the gap behind which a child of this parent stands."""
        if has_come:
            return next((gap for gap in self._gaps.values() if parent in gap.followers), None)
        return self._gaps.setdefault(parent, Gap(self._count))
