"""A session's hash tree at earlier versions, made from heads stored as derived values.

A fork records its parent's tree at the fork. From the nearest stored head, only the appends after
it are hashed.
"""

from __future__ import annotations

import msgspec

from eventlog.history import checkpoint_store
from eventlog.log.commit import Head
from eventlog.log.contract import Log
from eventlog.log.merkle import grow, leaf_of
from eventlog.log.merkle_check import TreeState

EVERY = 16_384
"""Events after which a head is stored: they are hashed in about 2 ms."""
_KIND = "tree 1"
_EMPTY = TreeState(0, 0, b"")
_DECODER = msgspec.msgpack.Decoder(TreeState)


def save_tree_head(log: Log, head: Head) -> None:
    """Store the head of a session's tree as it is now."""
    data = msgspec.msgpack.encode(TreeState(head.version, head.appends, head.peaks))
    checkpoint_store.save(log, _KIND, head.session, head.version, data, surplus=lambda _: ())


def tree_head_before(log: Log, session: str, version: int) -> TreeState:
    """Return the newest stored head of a session up to a version, or that of the empty tree."""
    for _, data in checkpoint_store.valid(log, _KIND, session, version):
        try:
            return _DECODER.decode(data)
        except msgspec.MsgspecError:
            continue
    return _EMPTY


def tree_at(log: Log, session: str, version: int) -> TreeState:
    """Return a session's tree after the append with a version; an earlier one if it has none.

    Costs nothing where the version is the newest, else a read of the appends from the nearest
    stored head to there.
    """
    head = log.head(session)
    if head is not None and head.version == version:
        return TreeState(version, head.appends, head.peaks)
    return tree_after(log, session, tree_head_before(log, session, version), version)


def tree_after(log: Log, session: str, known: TreeState, upto: int) -> TreeState:
    """Grow an earlier tree up to the append that holds version `upto`."""
    version, appends, peaks = known
    for commit in log.read(session, version, upto):
        peaks = grow(appends, peaks, leaf_of(commit))
        appends += 1
        version = commit.last
    return TreeState(version, appends, peaks)
