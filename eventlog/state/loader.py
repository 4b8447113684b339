"""Load command state from the log: the newest checkpoint, then the events after it.

`apply_spans` is the one loop that applies committed events: for a state read from a checkpoint, for
one replayed from the first event, and for one that catches up (`committed.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from eventlog.codec.deltas import DeltaRun
from eventlog.errors import DamagedError, DataError
from eventlog.history import checkpoint_store
from eventlog.history.lineage import StreamRange
from eventlog.history.streams import spans
from eventlog.log.contract import Log
from eventlog.state.evolve import evolve
from eventlog.state.state import State
from eventlog.state.stored import (
    ArchivedFacts,
    Piece,
    archive_for,
    canonical,
    decode_archive,
    decode_state,
    encode_state,
    mark_stored,
)

__all__ = [
    "ARCHIVE",
    "STATE",
    "ArchiveFinder",
    "apply_spans",
    "newest_state",
    "restore",
    "save_state",
    "wrong_checkpoints",
]

STATE = "state 6"
"""Kind of the checkpoints; the number is that of the format and its meaning."""
ARCHIVE = "packed 2"
"""Kind of the pieces of archives, read only when a command asks for an archived fact."""
CHECKPOINTS = 2
"""Checkpoints retained of a session's state: the newest, and one to fall back to."""
UNDO_ENTRIES = 4096
"""Undo entries retained while committed events are applied.

None of these events will be taken back.
"""


def restore(log: Log, streams: Sequence[StreamRange], upto: int) -> tuple[State, int]:
    """Return the state right after version `upto`, and its checkpoint's version (0: none)."""
    state, saved = State(), 0
    for stream in reversed(streams):
        checkpoint = next(_usable(log, streams, stream, upto), None)
        if checkpoint is not None:
            saved, state = checkpoint
            break
    apply_spans(log, streams, state, upto)
    return state, saved


def _replayed(log: Log, streams: Sequence[StreamRange], upto: int) -> State:
    """The state right after version `upto`, from the first event on."""
    state = State()
    apply_spans(log, streams, state, upto)
    state.commit_to(upto)
    return state


def newest_state(log: Log, session: str, upto: int) -> int:
    """Return the newest version up to `upto` that has a checkpoint, sound or not (0: none)."""
    return max((version for version in checkpoint_store.versions(log, STATE, session) if version <= upto), default=0)


def save_state(log: Log, session: str, state: State) -> None:
    """Store a checkpoint of the state, all of which must be committed.

    The archive is written whole when a quarter of its versions is new, so that storing it costs no
    more than what came; in between a piece is added to it.
    """
    state.commit_to(state.version)
    stored = set(checkpoint_store.versions(log, ARCHIVE, session))
    has_pieces = bool(state.pieces) and all(version in stored for version, _ in state.pieces)  # a new fork has none
    first = state.pieces[0][0] if has_pieces else state.version
    whole = state.version >= first + first // 4 or not has_pieces
    # Ids with lone surrogates cannot stand in a checkpoint: such a session is replayed.
    with suppress(UnicodeEncodeError):
        data, piece = encode_state(state, whole=whole)
        if piece:  # the pieces before it serve the checkpoint before
            checkpoint_store.save(
                log,
                ARCHIVE,
                session,
                state.version,
                piece,
                surplus=lambda versions: [at for at in versions if at < first],
            )
        checkpoint_store.save(log, STATE, session, state.version, data, surplus=checkpoint_store.newest(CHECKPOINTS))
        mark_stored(state, piece, whole=whole)


def wrong_checkpoints(log: Log, streams: Sequence[StreamRange], session: str, upto: int) -> Iterator[int]:
    """Versions whose checkpoint of command state differs from a replay from the first event."""
    for version, data in checkpoint_store.valid(log, STATE, session, upto):
        expected = canonical(_replayed(log, streams, version))
        try:
            same = canonical(decode_state(data, ArchiveFinder(log, streams, session, version))) == expected
        except (msgspec.MsgspecError, DataError):
            same = False
        if not same:
            yield version


class ArchiveFinder:
    """Finds the archive of a checkpoint: its stored pieces, or a replay where one is lost."""

    def __init__(self, log: Log, streams: Sequence[StreamRange], session: str, version: int) -> None:
        self._log = log
        self._streams = streams
        self._session = session
        self._version = version

    def __call__(self, state: State, pieces: Sequence[Piece]) -> Sequence[ArchivedFacts]:
        """See `stored.decode_state`."""
        archived = [read for piece in pieces if (read := self._read(*piece)) is not None]
        if len(archived) == len(pieces):
            return archived
        state.pieces = ()  # to be stored anew
        return [archive_for(state, _replayed(self._log, self._streams, self._version))]

    def _read(self, version: int, digest: bytes) -> ArchivedFacts | None:
        data = checkpoint_store.sound(self._log, ARCHIVE, self._session, version)
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            return None if data is None else decode_archive(data, digest)
        return None


def apply_spans(log: Log, streams: Sequence[StreamRange], state: State, upto: int) -> None:
    """Apply the committed events after `state.version`, up to version `upto`."""
    for stream in streams:
        if state.version == stream.first - 1:
            state.started = 0
        if stream.last <= state.version or stream.first > upto:
            continue
        for span in spans(log, [stream], state.version, min(stream.last, upto)):
            item = span.item
            try:
                if isinstance(item, DeltaRun):
                    state.skip(item.count)
                else:
                    evolve(state, item)
            except (KeyError, IndexError) as error:
                raise DamagedError(
                    "an event that the events before it do not allow",
                    session=span.session,
                    version=span.first,
                    position=span.position,
                ) from error
            if len(state.undo) > UNDO_ENTRIES:
                state.commit_to(state.version)


def _usable(log: Log, streams: Sequence[StreamRange], stream: StreamRange, upto: int) -> Iterator[tuple[int, State]]:
    """The readable checkpoints of one stream, newest first, with their versions."""
    for version, data in checkpoint_store.valid(log, STATE, stream.session, min(stream.last, upto)):
        if version >= stream.first:
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                yield version, decode_state(data, ArchiveFinder(log, streams, stream.session, version))
