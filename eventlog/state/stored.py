"""Stored form of a command state: a checkpoint, and apart from it its archive in pieces.

A checkpoint reads the same however long the session is: archived facts lie in pieces of their own,
which are read when a command first asks for one. `loader.py` stores and loads both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b

import msgspec

from eventlog.history.lineage import History
from eventlog.state.archive import FactArchive, StoredArchive
from eventlog.state.fact_store import CHUNK
from eventlog.state.facts import MessageFacts, PinFacts
from eventlog.state.state import State
from eventlog.state.version_log import Entry, Older, VersionLog

__all__ = [
    "ArchiveSummary",
    "ArchivedFacts",
    "FindArchive",
    "Piece",
    "StoredState",
    "archive_for",
    "canonical",
    "decode_archive",
    "decode_state",
    "encode_state",
    "mark_stored",
]

Piece = tuple[int, bytes]
"""The version a piece was stored at, and the digest of its bytes."""


class ArchivedFacts(msgspec.Struct, array_like=True):
    """A piece of the archive, stored apart; a change of it changes `loader.ARCHIVE`."""

    packed: StoredArchive
    opens: Older
    users: Older


class ArchiveSummary(msgspec.Struct, array_like=True):
    """Summary of an archive that a checkpoint has, so that the archive is read late."""

    greatest_message: str
    greatest_part: str
    opens_begin: int
    users_begin: int
    pieces: list[Piece]
    """The stored pieces, the oldest first."""


class StoredState(msgspec.Struct, array_like=True):
    """A state without its archive; a change of it changes `loader.STATE`."""

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
    hot: list[tuple[str, MessageFacts]]
    archive: ArchiveSummary | None


FindArchive = Callable[[State, Sequence[Piece]], Sequence[ArchivedFacts]]
"""Finds the stored pieces of a state's archive."""
_STATE = msgspec.msgpack.Decoder(StoredState)
_ARCHIVE = msgspec.msgpack.Decoder(ArchivedFacts)


def decode_archive(data: bytes, digest: bytes) -> ArchivedFacts | None:
    """A piece of the archive; None unless these are the bytes that the digest is of."""
    return _ARCHIVE.decode(data) if piece_digest(data) == digest else None


def piece_digest(data: bytes) -> bytes:
    """The digest by which a checkpoint names a piece of its archive."""
    return blake2b(data, digest_size=16).digest()


def encode_state(state: State, *, whole: bool = True) -> tuple[bytes, bytes]:
    """Encode a state, and the piece of its archive to store beside it, b"" for none.

    A `whole` piece has the whole archive, and reads what was not read yet; else the piece has what
    no stored piece has. All of the state must be committed: a checkpoint has no undo log. Call
    `mark_stored` when both are stored.
    """
    with state.facts.lock:
        opens, users, archive = state.opens, state.users, state.facts.archive
        hot = list(state.hot_messages.items())
        if not (archive or opens.begins or users.begins):
            return _encode(state, opens.recent, users.recent, hot, None), b""
        if whole:
            archived = ArchivedFacts(archive.stored(), opens.packed(), users.packed())
        else:
            archived = ArchivedFacts(archive.added(), opens.added(), users.added())
        some = whole or archived.packed.chunks or archived.opens or archived.users
        piece = msgspec.msgpack.encode(archived) if some else b""
        pieces = list(_pieces_with(state, piece, whole=whole))
        summary = ArchiveSummary(archive.greatest_message, archive.greatest_part, opens.begins, users.begins, pieces)
        return _encode(state, opens.recent, users.recent, hot, summary), piece


def mark_stored(state: State, piece: bytes, *, whole: bool) -> None:
    """Note that the piece `encode_state` returned is stored: the next begins behind it."""
    with state.facts.lock:
        state.pieces = _pieces_with(state, piece, whole=whole)
        for archive in (state.facts.archive, state.opens, state.users):
            archive.mark_stored()


def canonical(state: State) -> bytes:
    """Encode states with equal facts as equal bytes, however much of them is archived."""
    messages = sorted(state.facts.all_messages(), key=lambda row: (row[1].added, row[0]))
    return _encode(state, state.opens.whole(), state.users.whole(), messages, None)


def decode_state(data: bytes, find: FindArchive) -> State:
    """The state of a checkpoint; `msgspec.MsgspecError` if it is none.

    `find` returns the pieces of the archive when a fact in them is first needed.
    """
    stored = _STATE.decode(data)
    state = State()
    state.version, state.started = stored.version, stored.started
    state.archived, state.erased, state.last_message = stored.archived, stored.erased, stored.last_message
    state.pins, state.opens, state.users = stored.pins, VersionLog(stored.opens), VersionLog(stored.users)
    state.compactions, state.interrupts, state.history = stored.compactions, stored.interrupts, stored.history
    for name, facts in stored.hot:
        state.facts.insert(name, facts)
    summary = stored.archive
    if summary is not None:
        state.pieces = tuple(summary.pieces)
        load = partial(_load, state, find, state.pieces)
        state.facts.archive.later(load, summary.greatest_message, summary.greatest_part)
        state.opens.later(load, summary.opens_begin)
        state.users.later(load, summary.users_begin)
    return state


def archive_for(state: State, whole: State) -> ArchivedFacts:
    """Rebuild the archive of `state`, whose pieces are lost, from a replay of its events."""
    archive = FactArchive()
    archive.add(list(whole.facts.all_messages()), CHUNK)
    opens, users = whole.opens.before(state.opens.oldest()), whole.users.before(state.users.oldest())
    return ArchivedFacts(archive.stored(), opens, users)


def _load(state: State, find: FindArchive, pieces: Sequence[Piece]) -> None:
    """Read the stored pieces of the archive, unless another thread just did."""
    with state.facts.lock:
        archive = state.facts.archive
        if archive.is_later:
            archived = find(state, pieces)
            archive.attach(*(piece.packed for piece in archived))
            state.opens.attach([entry for piece in archived for entry in piece.opens])
            state.users.attach([entry for piece in archived for entry in piece.users])


def _pieces_with(state: State, piece: bytes, *, whole: bool) -> tuple[Piece, ...]:
    before = () if whole else state.pieces
    return (*before, (state.version, piece_digest(piece))) if piece else before


def _encode(
    state: State,
    opens: list[Entry],
    users: list[Entry],
    messages: list[tuple[str, MessageFacts]],
    summary: ArchiveSummary | None,
) -> bytes:
    return msgspec.msgpack.encode(
        StoredState(
            state.version,
            state.started,
            state.archived,
            state.erased,
            state.last_message,
            state.pins,
            opens,
            users,
            state.compactions,
            state.interrupts,
            state.history,
            messages,
            summary,
        )
    )
