"""Rebuilding a session's hash tree from what can be read, to find the first version that is not what was committed.

Pure; the same for every engine.  Each commit is compared with the piece of its leaf's hash that is kept beside it, which
names the version; then the tree with the session's head, and with a head that was kept elsewhere, which no forger can have
changed.  Where only a tree differs, what differs lies below the first peak that does: all that can be named is a range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from eventlog.log.merkle import HASH_BYTES, TAG_BYTES, grow, leaf_of, peak_sizes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from eventlog.log.contract import Commit, Head

__all__ = ["Mismatch", "TreeState", "compare_tree", "first_mismatch", "prefix_mismatch"]


class Mismatch(NamedTuple):
    """What is wrong, and the first version that may be."""

    problem: str
    version: int


class TreeState(NamedTuple):
    """A session's tree as it was: after so many appends, which ended with this version."""

    version: int
    appends: int
    peaks: bytes


def first_mismatch(head: Head, commits: Iterable[Commit], kept: TreeState | None = None) -> Mismatch | None:
    """The first thing that is wrong with the commits of a whole session, or None; what cannot be read raises.

    `kept` is an earlier state of the session, known from elsewhere.
    """
    if head.gone:
        return None if kept is None else _grown_apart(head, kept, "the kept head")
    found = _walked(head, commits)
    if isinstance(found, Mismatch):
        return found
    leaves, starts = found
    version = starts[-1] - 1
    if version != head.version:
        return Mismatch(f"the head says version {head.version}, the last event is version {version}", version + 1)
    if kept is not None and (fault := compare_tree(kept, leaves, starts, "the kept head")):
        return fault
    return compare_tree(TreeState(version, head.appends, head.peaks), leaves, starts, "the session's hash tree")


def prefix_mismatch(head: Head, commits: Iterable[Commit], kept: TreeState, whose: str) -> Mismatch | None:
    """The same for the first commits of a session, as far as they are known from elsewhere; `whose` names what knows them."""
    if head.gone:
        return _grown_apart(head, kept, whose)
    found = _walked(head, commits)
    return found if isinstance(found, Mismatch) else compare_tree(kept, *found, whose)


def _walked(head: Head, commits: Iterable[Commit]) -> tuple[list[bytes], list[int]] | Mismatch:
    """The leaves of commits that begin a session, and the first version of each and of what would come next."""
    starts: list[int] = []
    leaves: list[bytes] = []
    version = head.base
    for commit in commits:
        if commit.first != version + 1 or commit.session != head.session:
            return Mismatch(
                f"version {commit.first} of session {commit.session} follows version {version}", version + 1
            )
        leaf = leaf_of(commit)
        if leaf[:TAG_BYTES] != commit.leaf and not commit.emptied:
            return Mismatch("the append is not the one that was committed", commit.first)
        starts.append(commit.first)
        leaves.append(leaf)
        version = commit.last
    starts.append(version + 1)
    return leaves, starts


def _grown_apart(head: Head, kept: TreeState, whose: str) -> Mismatch | None:
    """Where the head of a session of which nothing else is left cannot have grown from the kept one.

    Only the subtrees that both have a root of can be compared.
    """
    begin = 0
    for number, (size, now) in enumerate(zip(peak_sizes(kept.appends), peak_sizes(head.appends), strict=False)):
        place = slice(number * HASH_BYTES, (number + 1) * HASH_BYTES)
        if size != now:
            break
        if head.peaks[place] != kept.peaks[place]:
            return Mismatch(
                f"something in appends {begin + 1} to {begin + size} is not what {whose} has", head.base + 1
            )
        begin += size
    if kept.appends > head.appends:
        return Mismatch(f"{whose} goes on to version {kept.version}", head.version + 1)
    return None


def compare_tree(told: TreeState, leaves: Sequence[bytes], starts: Sequence[int], whose: str) -> Mismatch | None:
    """Where the leaves differ from the tree that was told of, or end before it; `starts` has one version more, where they end.

    Of the last subtree that they do not fill nothing can be said: only its root is known.
    """
    begin = 0
    for number, size in enumerate(peak_sizes(told.appends)):
        end = begin + size
        if end > len(leaves):
            return Mismatch(
                f"{whose} goes on to version {told.version}, and what there is from version {starts[begin]} on"
                " cannot be compared",
                starts[-1],
            )
        if told.peaks[number * HASH_BYTES : (number + 1) * HASH_BYTES] != _root(leaves[begin:end]):
            return Mismatch(
                f"something in versions {starts[begin]} to {starts[end] - 1} is not what {whose} has", starts[begin]
            )
        begin = end
    if starts[begin] != told.version + 1:
        return Mismatch(f"{whose} ends its {told.appends} appends with version {told.version}", starts[begin])
    return None


def _root(leaves: Sequence[bytes]) -> bytes:
    """The root of a complete tree."""
    peaks = b""
    for number, leaf in enumerate(leaves):
        peaks = grow(number, peaks, leaf)
    return peaks
