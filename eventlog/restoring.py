"""Command state from the log: the newest checkpoint of an ancestry, then the events after it.

Used by the appender when it opens a session, and for what a fork begins with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from eventlog import checkpoints
from eventlog.deltas import DeltaRun
from eventlog.errors import DamagedError
from eventlog.evolution import evolve
from eventlog.lineage import Stream
from eventlog.log.base import Log
from eventlog.reader import spans
from eventlog.state import State
from eventlog.stored_state import Below, below_of

__all__ = ["PACKED", "STATE", "PackedAt", "fold_spans", "restore", "save_state"]

STATE = "state 5"
"""Kind of the checkpoints of command state; the number is the format of what `State.encode` gives first."""
PACKED = "packed 1"
"""Kind of what is packed of them, which `State.encode` gives second; read only when a command asks for what is long over."""
KEPT = 2
"""Checkpoints kept of a session's state: the newest, and one to fall back to."""
UNDO_KEPT = 4096
"""Taken-back facts kept while committed events are read: none of them will be taken back."""


def restore(log: Log, streams: Sequence[Stream], upto: int) -> tuple[State, int]:
    """Return the state right after version `upto`, and the version of the checkpoint it came from (0: none)."""
    state, saved = State(), 0
    for stream in reversed(streams):
        found = next(_usable(log, streams, stream, upto), None)
        if found is not None:
            saved, state = found
            break
    fold_spans(log, streams, state, upto)
    return state, saved


def save_state(log: Log, session: str, state: State) -> None:
    """Keep a checkpoint of the state, all of which must be committed."""
    state.settle(state.version)
    # Ids with lone surrogates cannot stand in a checkpoint: such a session is replayed.
    with suppress(UnicodeEncodeError):
        data, packed = state.encode()
        if packed:
            checkpoints.save(log, PACKED, session, state.version, packed, surplus=checkpoints.newest(KEPT))
        checkpoints.save(log, STATE, session, state.version, data, surplus=checkpoints.newest(KEPT))


class PackedAt:
    """Finds what the state that was kept at a version, in the stream of `session`, has packed: there, or by replay where it is lost."""

    def __init__(self, log: Log, streams: Sequence[Stream], session: str, version: int) -> None:
        self._log = log
        self._streams = streams
        self._session = session
        self._version = version

    def __call__(self, state: State, digest: bytes) -> Below:
        """See `State.decode`."""
        data = checkpoints.sound(self._log, PACKED, self._session, self._version)
        if data is not None:
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                below = below_of(data, digest)
                if below is not None:
                    return below
        whole = State()
        fold_spans(self._log, self._streams, whole, self._version)
        whole.settle(self._version)
        return whole.below(state)


def fold_spans(log: Log, streams: Sequence[Stream], state: State, upto: int) -> None:
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


def _usable(log: Log, streams: Sequence[Stream], stream: Stream, upto: int) -> Iterator[tuple[int, State]]:
    """The checkpoints of one stream that can be read, newest first, with their versions."""
    for version, data in checkpoints.valid(log, STATE, stream.session, min(stream.last, upto)):
        if version >= stream.first:
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                yield version, State.decode(data, PackedAt(log, streams, stream.session, version))
