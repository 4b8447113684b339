"""Command state from the log: the newest checkpoint of an ancestry, then the events after it.

Used by the appender when it opens a session, and for what a fork begins with.
"""

from __future__ import annotations

from collections.abc import Iterator
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

__all__ = ["fold_spans", "restore", "save_state"]

STATE = "state 3"
"""Kind of the checkpoints of command state; the number is the format of what `State.encode` gives."""
KEPT = 2
"""Checkpoints kept of a session's state: the newest, and one to fall back to."""
UNDO_KEPT = 4096
"""Taken-back facts kept while committed events are read: none of them will be taken back."""


def restore(log: Log, streams: list[Stream], upto: int) -> tuple[State, int]:
    """Return the state right after version `upto`, and the version of the checkpoint it came from (0: none)."""
    state, saved = State(), 0
    for stream in reversed(streams):
        found = next(_usable(log, stream, upto), None)
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
        checkpoints.save(log, STATE, session, state.version, state.encode(), surplus=checkpoints.newest(KEPT))


def fold_spans(log: Log, streams: list[Stream], state: State, upto: int) -> None:
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


def _usable(log: Log, stream: Stream, upto: int) -> Iterator[tuple[int, State]]:
    """The checkpoints of one stream that can be read, newest first, with their versions."""
    for version, data in checkpoints.valid(log, STATE, stream.session, min(stream.last, upto)):
        if version >= stream.first:
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                yield version, State.decode(data)
