"""A command state as it is stored: what is needed to go on, and apart from it, in pieces, what is long over and packed.

Plain data, for `state.py`, which makes and opens it, and `loader.py`, which keeps both.  Nothing here knows what a fact means.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from eventlog.history.lineage import History
from eventlog.state.archive import StoredArchive
from eventlog.state.facts import MessageFacts, PinFacts
from eventlog.state.version_log import Entry, Older

__all__ = ["ArchiveSummary", "ArchivedFacts", "Piece", "StoredState", "below_of", "digest_of", "plain_of"]

Piece = tuple[int, bytes]
"""The version a piece was kept at, and the digest of its bytes."""


class ArchivedFacts(msgspec.Struct, array_like=True):
    """A piece of what is packed, as it is stored apart from the rest: change `loader.PACKED` with it."""

    packed: StoredArchive
    opens: Older
    users: Older


class ArchiveSummary(msgspec.Struct, array_like=True):
    """What is known of it as long as it is not read."""

    greatest_message: str
    greatest_part: str
    opens_begin: int
    users_begin: int
    pieces: list[Piece]
    """Where it lies, the oldest first."""


class StoredState(msgspec.Struct, array_like=True):
    """A state, without what is packed: change `loader.STATE` with it."""

    version: int
    started: int
    archived: bool
    erased: bool
    last_message: str
    pins: dict[str, PinFacts]
    opens: list[Entry]
    users: list[Entry]
    compactions: list[tuple[int, str, str]]
    interrupts: list[tuple[int, str]]
    history: History
    warm: list[tuple[str, MessageFacts]]
    known: ArchiveSummary | None


_PLAIN = msgspec.msgpack.Decoder(StoredState)
_BELOW = msgspec.msgpack.Decoder(ArchivedFacts)


def plain_of(data: bytes) -> StoredState:
    """What was encoded; `msgspec.MsgspecError` if it is none."""
    return _PLAIN.decode(data)


def below_of(data: bytes, digest: bytes) -> ArchivedFacts | None:
    """A piece of what was packed, if these are the bytes that the digest is of."""
    return _BELOW.decode(data) if digest_of(data) == digest else None


def digest_of(data: bytes) -> bytes:
    """By which a state knows a piece of what it has packed."""
    return blake2b(data, digest_size=16).digest()
