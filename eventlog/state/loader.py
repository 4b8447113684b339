"""Command state from the log: the newest checkpoint of an ancestry, then the events after it."""

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
from eventlog.state.stored import ArchivedFacts, Piece, below_of

__all__ = ["PACKED", "STATE", "ArchivedAt", "fold_spans", "newest_state", "restore", "save_state", "wrong_checkpoints"]

STATE = "state 6"
"""Kind of the checkpoints of command state; the number is the format and the meaning of what `State.encode` gives first."""
PACKED = "packed 2"
"""Kind of the pieces of what is packed of them, which `State.encode` gives second; read only when a command asks for what is long over."""
KEPT = 2
"""Checkpoints kept of a session's state: the newest, and one to fall back to."""
UNDO_KEPT = 4096
"""Taken-back facts kept while committed events are read: none of them will be taken back."""


def restore(log: Log, streams: Sequence[StreamRange], upto: int) -> tuple[State, int]:
    """Return the state right after version `upto`, and the version of the checkpoint it came from (0: none)."""
    state, saved = State(), 0
    for stream in reversed(streams):
        found = next(_usable(log, streams, stream, upto), None)
        if found is not None:
            saved, state = found
            break
    fold_spans(log, streams, state, upto)
    return state, saved


def newest_state(log: Log, session: str, upto: int) -> int:
    """Return the newest version up to `upto` that has a checkpoint of the session's state (0: none), sound or not."""
    return max((version for version in checkpoint_store.versions(log, STATE, session) if version <= upto), default=0)


def save_state(log: Log, session: str, state: State) -> None:
    """Keep a checkpoint of the state, all of which must be committed.

    What is packed is written whole when a quarter has come since, so that keeping it costs no more than what came; in between a
    piece is added to it.
    """
    state.settle(state.version)
    known = set(checkpoint_store.versions(log, PACKED, session))
    there = bool(state.pieces) and all(
        version in known for version, _ in state.pieces
    )  # not in a fork that kept none yet
    first = state.pieces[0][0] if there else state.version
    whole = state.version >= first + first // 4 or not there
    # Ids with lone surrogates cannot stand in a checkpoint: such a session is replayed.
    with suppress(UnicodeEncodeError):
        data, piece = state.encode(whole=whole)
        if piece:  # the pieces before it serve the checkpoint before
            checkpoint_store.save(
                log, PACKED, session, state.version, piece, surplus=lambda kept: [at for at in kept if at < first]
            )
        checkpoint_store.save(log, STATE, session, state.version, data, surplus=checkpoint_store.newest(KEPT))
        state.keep(piece, whole=whole)


def wrong_checkpoints(log: Log, streams: Sequence[StreamRange], session: str, upto: int) -> Iterator[int]:
    """Versions whose checkpoint of command state is not what a replay from the first event gives."""
    for version, data in checkpoint_store.valid(log, STATE, session, upto):
        state = State()
        fold_spans(log, streams, state, version)
        state.settle(version)
        try:
            kept = State.decode(data, ArchivedAt(log, streams, session, version))
            same = kept.canonical() == state.canonical()
        except (msgspec.MsgspecError, DataError):
            same = False
        if not same:
            yield version


class ArchivedAt:
    """Finds what the state that was kept at a version, in the stream of `session`, has packed: there, or by replay where it is lost."""

    def __init__(self, log: Log, streams: Sequence[StreamRange], session: str, version: int) -> None:
        self._log = log
        self._streams = streams
        self._session = session
        self._version = version

    def __call__(self, state: State, pieces: Sequence[Piece]) -> Sequence[ArchivedFacts]:
        """See `State.decode`."""
        found = [below for piece in pieces if (below := self._read(*piece)) is not None]
        if len(found) == len(pieces):
            return found
        state.pieces = ()  # to be kept anew
        whole = State()
        fold_spans(self._log, self._streams, whole, self._version)
        whole.settle(self._version)
        return [whole.below(state)]

    def _read(self, version: int, digest: bytes) -> ArchivedFacts | None:
        data = checkpoint_store.sound(self._log, PACKED, self._session, version)
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            return None if data is None else below_of(data, digest)
        return None


def fold_spans(log: Log, streams: Sequence[StreamRange], state: State, upto: int) -> None:
    """Take the committed events after `state.version` in, up to version `upto`."""
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
                    "an event that does not follow from those before it",
                    session=span.session,
                    version=span.first,
                    position=span.position,
                ) from error
            if len(state.undo) > UNDO_KEPT:
                state.settle(state.version)


def _usable(log: Log, streams: Sequence[StreamRange], stream: StreamRange, upto: int) -> Iterator[tuple[int, State]]:
    """The checkpoints of one stream that can be read, newest first, with their versions."""
    for version, data in checkpoint_store.valid(log, STATE, stream.session, min(stream.last, upto)):
        if version >= stream.first:
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                yield version, State.decode(data, ArchivedAt(log, streams, stream.session, version))
