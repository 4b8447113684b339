"""Anchor of a fork: its parent's head at the fork, stored in the fork's first event.

So the anchor is in the fork's own tree, and an attacker who changes what a fork inherited has to
change every fork too.  It is the head of the stream that holds the fork's version; what that stream
inherited is in the first event of that stream.  An append that has the version in its middle is
covered whole.  Bytes, integers little-endian:

    version u64  |  number of appends u64  |  peaks of the tree (`log/merkle.py`), 32 bytes each
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog.codec.decoded import spans_of
from eventlog.codec.payload import is_foreign
from eventlog.errors import DamagedError
from eventlog.events import SessionForked
from eventlog.history.ancestry import continued
from eventlog.history.tree_heads import tree_at
from eventlog.log.merkle import HASH_BYTES, TAG_BYTES, grow, leaf_of, peak_sizes
from eventlog.log.merkle_check import Mismatch, TreeState, prefix_mismatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from eventlog.events import Event
    from eventlog.history.effective_history import StreamRange
    from eventlog.log.commit import Head
    from eventlog.log.contract import Log

_FIELDS = Struct("<QQ")


def prefix_head(log: Log, streams: Sequence[StreamRange], at: int) -> bytes:
    """Return the head of the last of these streams as of version `at`; b"" if it lacks `at`."""
    if not streams:
        return b""
    tree = tree_at(log, streams[-1].session, at)
    return pack_prefix(tree) if tree.version >= at else b""


def pack_prefix(tree: TreeState) -> bytes:
    """Return a tree's head as the bytes of an anchor."""
    return _FIELDS.pack(tree.version, tree.appends) + tree.peaks


def read_prefix(data: bytes) -> TreeState:
    """Decode an anchor; `DamagedError` if the bytes are none."""
    if len(data) >= _FIELDS.size:
        version, appends = _FIELDS.unpack_from(data)
        peaks = data[_FIELDS.size :]
        if 0 < appends <= version < 1 << 63 and len(peaks) == HASH_BYTES * len(peak_sizes(appends)):
            return TreeState(version, appends, peaks)
    raise DamagedError("the head of what was forked is none")


def portable(event: Event) -> Event:
    """Return the event without its anchor, which holds in its own store only.

    Another store has other salts in its trees.
    """
    return replace(event, parent_head=b"") if isinstance(event, SessionForked) and event.parent_head else event


def anchor_of(log: Log, head: Head) -> tuple[Head, TreeState] | Mismatch | None:
    """Return the parent's head today and the fork's anchor of it.

    None for a session that is no fork, or that keeps no such head.  What cannot be read raises.
    """
    first = next(iter(log.read(head.session, head.base, head.base + 1)), None)
    if first is None or is_foreign(first) or not first.payload or (above := continued(log, head)) is None:
        return None
    event = next(iter(spans_of(first))).item
    if not isinstance(event, SessionForked) or not event.parent_head:
        return None
    kept = read_prefix(event.parent_head)
    if kept.version < event.at:
        return Mismatch("what it was forked from is not there", above.base + 1)
    return above, kept


def inherited_fault(log: Log, above: Head, kept: TreeState) -> Mismatch | None:
    """Return the first inherited append that differs from the fork's anchor, or None.

    The arguments are those that `anchor_of` returned.
    """
    commits = () if above.gone else log.read(above.session, 0, kept.version)
    return prefix_mismatch(above, commits, kept, "the head that the fork keeps")


def unchanged(log: Log, above: Head, kept: Iterable[TreeState]) -> set[TreeState]:
    """Return the anchors that the stream above agrees with, in one reading of it.

    `inherited_fault` says where one of the others differs.
    """
    wanted = set(kept)
    found: set[TreeState] = set()
    if above.gone or not wanted:
        return found
    appends, peaks, version = 0, b"", above.base
    for commit in log.read(above.session, 0, max(one.version for one in wanted)):
        leaf = leaf_of(commit)
        if commit.first != version + 1 or (leaf[:TAG_BYTES] != commit.leaf and not commit.emptied):
            break
        peaks = grow(appends, peaks, leaf)
        appends, version = appends + 1, commit.last
        found |= wanted & {TreeState(version, appends, peaks)}
    return found
