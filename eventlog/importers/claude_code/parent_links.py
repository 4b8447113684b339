"""Links between a transcript's records: where it goes on, and where it branches.

A record names its parent by uuid, and may stand before it: then the parent is a *gap* until it
comes. Records that are no messages wait in the gap, and belong to the parent's node once it is
there. A message that stands before its parent goes on where the transcript is, and while the gap is
open no branch begins at a record behind it or right before it: a record that comes may be the
parent, or lead to it. A gap that stays open for `AGE` records closes: the parent is lost.

Importers and feeds of a transcript ask the same links, so both give equal branches.
"""

from __future__ import annotations

AGE = 128
"""Records among which a parent may follow its child."""


class _Gap:
    """A parent that has not come."""

    __slots__ = ("born", "crossed", "ends", "followers")

    def __init__(self, born: int) -> None:
        self.born = born
        self.followers: set[str] = set()
        """Records that belong to the parent's node."""
        self.crossed = False
        """Whether a message stands before it that belongs behind it."""
        self.ends = False
        """Whether the parent is the last record of its turn."""


class Links:
    """The newest node of a conversation, and its gaps."""

    def __init__(self) -> None:
        self.tail: str = ""
        """The last message that a compaction keeps whose summary has not come."""
        self._node: set[str] = set()
        """Records of the newest node."""
        self._loose: dict[str, int] = {}
        """Records behind which the newest node may stand, with the count of records then."""
        self._gaps: dict[str, _Gap] = {}
        self._count = 0

    def ends(self, uuid: object) -> bool:
        """Whether a turn is over with a record that comes now."""
        gap = self._gaps.get(uuid) if isinstance(uuid, str) else None
        return gap is not None and gap.ends

    def follows(self, parent: object, *, has_come: bool) -> bool:
        """Whether all that a record follows has come: no parent, or one that waits for none."""
        return parent is None or (has_come and not (self._gaps and self._waits(parent)))

    def branches(self, uuid: str, parent: object, *, has_come: bool, is_root: bool, is_linked: bool = True) -> bool:
        """Whether a message begins a branch; `has_come` says whether its parent has.

        A root begins the conversation anew if its messages are linked.
        """
        own = self._gaps.get(uuid)
        if own is not None and own.crossed:
            return False
        if is_root:
            return is_linked and not self._is_open()
        if not has_come or parent in self._node or parent in self._loose:
            return False
        return not (self._gaps and self._waits(parent))

    def message(self, uuid: str, parent: object, *, has_come: bool, is_branch: bool) -> set[str]:
        """Take a message; return the records that waited for it."""
        gap = self._come(uuid)
        if is_branch:
            self._gaps.clear()
        elif (waiting := self._gap(parent, has_come=has_come)) is not None:
            waiting.crossed = True
        return self._begin(uuid, gap, is_branch=is_branch)

    def _begin(self, uuid: str, gap: _Gap | None, *, is_branch: bool = False) -> set[str]:
        """Begin the newest node; return the records that waited for it."""
        if not is_branch and ((gap is not None and gap.crossed) or (self._gaps and self._is_open())):
            self._loose.update(dict.fromkeys(self._node, self._count))
        else:
            self._loose.clear()
        followers = set[str]() if gap is None else gap.followers
        self._node = {uuid, *followers} - {""}
        return followers

    def inside(self, uuid: str, parent: object, *, has_come: bool) -> set[str]:
        """Take a record of the newest message; return the records that waited for it."""
        return self._follow(uuid, self._gap(parent, has_come=has_come), is_near=True, ends=False)

    def aside(self, uuid: str, parent: object, *, has_come: bool, ends: bool = False) -> set[str]:
        """Take a record that is of no message; return the records that waited for it."""
        is_near = not has_come or parent in self._node or parent in self._loose
        return self._follow(uuid, self._gap(parent, has_come=has_come), is_near=is_near, ends=ends)

    def node(self, uuid: str, tail: str = "") -> set[str]:
        """Take the request for a compaction, which keeps messages up to `tail`, or its summary.

        Return the records that waited for it.
        """
        followers = self._begin(uuid, self._come(uuid))
        kept, self.tail = tail or self.tail, tail
        self._node |= {kept} - {""}
        return followers

    def _follow(self, uuid: str, waiting: _Gap | None, *, is_near: bool, ends: bool) -> set[str]:
        gap = self._come(uuid)
        followers = set[str]() if gap is None else gap.followers
        if waiting is not None:
            waiting.followers |= {uuid, *followers} - {""}
            waiting.ends = waiting.ends or ends
            waiting.crossed = waiting.crossed or (gap is not None and gap.crossed)
        if waiting is not None or is_near:
            self._node |= {uuid, *followers} - {""}
        return followers

    def _come(self, uuid: str) -> _Gap | None:
        """Count a record that comes; close the gap that it was, and what is too old."""
        if not uuid:
            return None
        self._count += 1
        if self._gaps:
            for name in [name for name, gap in self._gaps.items() if gap.born < self._count - AGE]:
                del self._gaps[name]
        while self._loose and self._loose[next(iter(self._loose))] < self._count - AGE:
            del self._loose[next(iter(self._loose))]
        return self._gaps.pop(uuid, None)

    def _gap(self, parent: object, *, has_come: bool) -> _Gap | None:
        """Return the gap behind which a child of this parent stands."""
        if not isinstance(parent, str):
            return None
        if has_come:
            found = (gap for gap in self._gaps.values() if parent in gap.followers)
            return next(found, None) if self._gaps else None
        return self._gaps.setdefault(parent, _Gap(self._count))

    def _is_open(self) -> bool:
        """Whether a message that came stands behind a gap."""
        return any(gap.crossed for gap in self._gaps.values())

    def _waits(self, uuid: object) -> bool:
        """Whether a record waits for a parent that has not come."""
        return any(uuid in gap.followers for gap in self._gaps.values())
