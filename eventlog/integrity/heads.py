"""Heads of sessions and stores; a head saved elsewhere reveals changes of the past.

A session's head is the root of its hash tree (`log/merkle.py`), with the version and the number of
appends it stands for. The store's head is a tree of the same kind over the heads of all sessions,
by session id, one leaf each:

    version u64  |  appends u64  |  1 if erased, else 0, u8  |  root 32  |  session id

with little-endian integers.  An erased session keeps its head as a tombstone, so it stays in the
list.  To make a store's head reads every session's head, and no event.

The text of a store's head has all that `verify` compares, with each session's peaks instead of its
root.  The digest alone says whether a text, or a store, is unchanged.  The comparison is in
`projections/verify/verify.py`.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from struct import Struct
from typing import Any

import msgspec

from eventlog.codec.payload import is_foreign
from eventlog.errors import CallError
from eventlog.history.catalog import entry_of
from eventlog.log.commit import Head
from eventlog.log.merkle import HASH_BYTES, grow, leaf_hash, peak_sizes, root_of
from eventlog.log.merkle_check import TreeState

__all__ = ["SessionHead", "StoreHead", "session_head", "store_head"]

FORMAT = 1
_FIELDS = Struct("<QQB")


class SessionHead(msgspec.Struct, frozen=True):
    """Head of one session: it changes with every change of the session's history."""

    session: str
    version: int
    appends: int
    """Leaves of its hash tree."""
    peaks: bytes
    """Roots of the complete subtrees, largest first, 32 bytes each."""
    erased: bool = False

    @property
    def root(self) -> bytes:
        """Root of its hash tree."""
        return root_of(self.peaks)

    @property
    def grown(self) -> TreeState:
        """State of its hash tree, for comparison."""
        return TreeState(self.version, self.appends, self.peaks)

    def leaf(self) -> bytes:
        """Return the session's leaf in the store's tree."""
        return _FIELDS.pack(self.version, self.appends, self.erased) + self.root + self.session.encode()


class StoreHead(msgspec.Struct, frozen=True, dict=True):
    """Heads of all sessions, by session id."""

    sessions: tuple[SessionHead, ...]

    @cached_property
    def digest(self) -> str:
        """Root of the tree over the session heads, in hexadecimal."""
        peaks = b""
        for number, head in enumerate(self.sessions):
            peaks = grow(number, peaks, leaf_hash(head.leaf()))
        return root_of(peaks).hex()

    @cached_property
    def by_session(self) -> dict[str, SessionHead]:
        """Session heads by session id."""
        return {head.session: head for head in self.sessions}

    def document(self) -> dict[str, Any]:
        """Return the head as plain values for JSON; `parse` reads their text."""
        return {
            "format": FORMAT,
            "digest": self.digest,
            "sessions": [
                {
                    "id": head.session,
                    "version": head.version,
                    "appends": head.appends,
                    "erased": head.erased,
                    "peaks": [
                        head.peaks[begin : begin + HASH_BYTES].hex() for begin in range(0, len(head.peaks), HASH_BYTES)
                    ],
                }
                for head in self.sessions
            ],
        }

    def text(self) -> str:
        """Return the head as JSON text, to be saved elsewhere."""
        return msgspec.json.encode(self.document()).decode()

    @classmethod
    def parse(cls, text: str | bytes) -> StoreHead:
        """Parse the text of a head; `CallError` if it is none, or its digest does not fit."""
        try:
            kept = msgspec.json.decode(text, type=_Document)
            head = cls(tuple(_read(session) for session in kept.sessions))
        except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
            raise CallError(f"this is not the head of a store: {error}") from None
        if kept.format != FORMAT:
            raise CallError(f"the head of a store has format {FORMAT}, this one {kept.format}")
        if any(one.session >= other.session for one, other in pairwise(head.sessions)):
            raise CallError("the sessions of a store's head are in the order of their ids")
        if kept.digest != head.digest:
            raise CallError("the digest of this head is not that of its sessions: one of them was changed")
        return head


class _Session(msgspec.Struct):
    id: str
    version: int
    appends: int
    erased: bool
    peaks: list[str]


class _Document(msgspec.Struct):
    format: int
    digest: str
    sessions: list[_Session]


def _read(kept: _Session) -> SessionHead:
    peaks = [unhexlify(peak) for peak in kept.peaks]
    if not 0 < kept.appends <= kept.version < 1 << 63:
        raise ValueError(f"session {kept.id} has no version, or more appends than events")
    if len(peaks) != len(peak_sizes(kept.appends)) or any(len(peak) != HASH_BYTES for peak in peaks):
        raise ValueError(f"the peaks of session {kept.id} do not fit its size")
    return SessionHead(kept.id, kept.version, kept.appends, b"".join(peaks), kept.erased)


def session_head(head: Head) -> SessionHead:
    """Return the head to store of one session; `DamagedError` for a damaged catalog entry."""
    erased = not is_foreign(head) and bool(head.entry) and entry_of(head).erased
    return SessionHead(head.session, head.version, head.appends, head.peaks, erased)


def store_head(heads: Iterable[Head]) -> StoreHead:
    """Return the store's head of session heads in the order of their ids."""
    return StoreHead(tuple(map(session_head, heads)))
