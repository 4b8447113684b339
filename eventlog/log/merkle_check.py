"""Comparison of a session's commits with its hash tree, to find the first changed version.

Pure; the same for every engine. Each commit is compared with the leaf tag stored beside it, which
names the version. Then the tree is compared with the session's head, and with a head that was kept
elsewhere, which a forger cannot have changed. Where only a tree differs, the difference lies below
its first peak that differs: then only a range of versions can be named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from eventlog.log.merkle import HASH_BYTES, TAG_BYTES, grow, leaf_of, peak_sizes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from eventlog.log.commit import Commit, Head


class Mismatch(NamedTuple):
    """A problem, and the first version that may be affected."""

    problem: str
    version: int


class TreeState(NamedTuple):
    """A session's hash tree after `appends` appends, the last of which ended with `version`."""

    version: int
    appends: int
    peaks: bytes


def first_mismatch(head: Head, commits: Iterable[Commit], kept: TreeState | None = None) -> Mismatch | None:
    """Return the first mismatch of a whole session's commits, or None.

    `kept` is an earlier state of the session, known from elsewhere. Errors of reading pass.
    """
    if head.gone:
        return None if kept is None else _gone_mismatch(head, kept, "the kept head")
    leaves_or_mismatch = _leaves(head, commits)
    if isinstance(leaves_or_mismatch, Mismatch):
        return leaves_or_mismatch
    leaves, starts = leaves_or_mismatch
    version = starts[-1] - 1
    if version != head.version:
        return Mismatch(f"the head says version {head.version}, the last event is version {version}", version + 1)
    if kept is not None and (mismatch := compare_tree(kept, leaves, starts, "the kept head")):
        return mismatch
    return compare_tree(TreeState(version, head.appends, head.peaks), leaves, starts, "the session's hash tree")


def prefix_mismatch(head: Head, commits: Iterable[Commit], kept: TreeState, whose: str) -> Mismatch | None:
    """Compare the first commits of a session with a tree state that is kept elsewhere.

    `whose` names that place in the message.
    """
    if head.gone:
        return _gone_mismatch(head, kept, whose)
    leaves_or_mismatch = _leaves(head, commits)
    return (
        leaves_or_mismatch
        if isinstance(leaves_or_mismatch, Mismatch)
        else compare_tree(kept, *leaves_or_mismatch, whose)
    )


def _leaves(head: Head, commits: Iterable[Commit]) -> tuple[list[bytes], list[int]] | Mismatch:
    """Return the leaves of a session's first commits, and the first version of each.

    The versions have one entry more: the first version after the commits.
    """
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


def _gone_mismatch(head: Head, kept: TreeState, whose: str) -> Mismatch | None:
    """Compare the head of a session without events with an earlier state of its tree.

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


def compare_tree(state: TreeState, leaves: Sequence[bytes], starts: Sequence[int], whose: str) -> Mismatch | None:
    """Compare leaves with a tree state; `starts` has one version more, where the leaves end.

    A subtree that the leaves do not fill cannot be compared: only its root is known.
    """
    begin = 0
    for number, size in enumerate(peak_sizes(state.appends)):
        end = begin + size
        if end > len(leaves):
            return Mismatch(
                f"{whose} goes on to version {state.version}, and what there is from version {starts[begin]} on"
                " cannot be compared",
                starts[-1],
            )
        if state.peaks[number * HASH_BYTES : (number + 1) * HASH_BYTES] != _root(leaves[begin:end]):
            return Mismatch(
                f"something in versions {starts[begin]} to {starts[end] - 1} is not what {whose} has", starts[begin]
            )
        begin = end
    if starts[begin] != state.version + 1:
        return Mismatch(f"{whose} ends its {state.appends} appends with version {state.version}", starts[begin])
    return None


def _root(leaves: Sequence[bytes]) -> bytes:
    """Return the root of a complete tree."""
    peaks = b""
    for number, leaf in enumerate(leaves):
        peaks = grow(number, peaks, leaf)
    return peaks
