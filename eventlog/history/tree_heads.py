"""Heads of a session's hash tree at earlier versions, stored as derived values.

A fork records the head of its parent's tree at the fork. From the nearest stored head, only the
appends after it are hashed.
"""

from __future__ import annotations

import msgspec

from eventlog.history import checkpoint_store
from eventlog.log.contract import Head, Log

__all__ = ["EVERY", "TreeHead", "save_tree_head", "tree_head_before"]

EVERY = 16_384
"""Events after which a head is stored: they are hashed in about 2 ms."""
_KIND = "tree 1"


class TreeHead(msgspec.Struct, array_like=True, frozen=True):
    """The tree right after an append: its last version, the number of appends, the peaks."""

    version: int = 0
    appends: int = 0
    peaks: bytes = b""


_DECODER = msgspec.msgpack.Decoder(TreeHead)


def save_tree_head(log: Log, head: Head) -> None:
    """Store the head of a session's tree as it is now."""
    data = msgspec.msgpack.encode(TreeHead(head.version, head.appends, head.peaks))
    checkpoint_store.save(log, _KIND, head.session, head.version, data, surplus=lambda _: ())


def tree_head_before(log: Log, session: str, version: int) -> TreeHead:
    """Return the newest stored head of a session up to a version, or that of the empty tree."""
    for _, data in checkpoint_store.valid(log, _KIND, session, version):
        try:
            return _DECODER.decode(data)
        except msgspec.MsgspecError:
            continue
    return TreeHead()
