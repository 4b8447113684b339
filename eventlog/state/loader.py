"""Load command state from the log: the newest checkpoint, then the events after it.

`apply_spans` is the one loop that applies committed events: for a state read from a checkpoint, for
one replayed from the first event, and for one that catches up (`committed.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from eventlog.codec.deltas import DeltaRun
from eventlog.errors import DamagedError
from eventlog.history import checkpoint_store
from eventlog.history.ancestry import spans
from eventlog.history.derived import LostRowError
from eventlog.history.effective_history import StreamRange
from eventlog.history.forgotten import forgotten_in
from eventlog.log.contract import Log
from eventlog.state.evolve import evolve
from eventlog.state.state import State
from eventlog.state.stored import canonical, decode_messages, decode_state, encode_state, mark_stored
from eventlog.state.stored_facts import StoredMessages, StoredRows

STATE = "state 13"
"""Kind of the checkpoints; the number is that of the format and its meaning."""
UNDO_ENTRIES = 4096
"""Undo entries retained while committed events are applied.

None of these events will be taken back.
"""
_UNREADABLE = (msgspec.MsgspecError, ValueError, LostRowError)


def load_state(log: Log, streams: Sequence[StreamRange], upto: int) -> tuple[State, int]:
    """Return the state right after version `upto`, and its checkpoint's version (0: none).

    The checkpoint may be of a later version of a parent: what is newer is left out.
    """
    state, saved = State(), 0
    for stream in reversed(streams):
        checkpoint = next(_usable(log, streams, stream, upto), None)
        if checkpoint is not None:
            saved, state = checkpoint
            break
    apply_spans(log, streams, state, upto)
    if streams:  # none for a version before the first
        with log.reading() as heads:
            state.forget(forgotten_in(heads, streams[-1].session))  # those of now, at any version
    return state, saved


def newest_state(log: Log, session: str, upto: int) -> int:
    """Return the newest version up to `upto` that has a checkpoint, sound or not (0: none)."""
    return max((version for version in checkpoint_store.versions(log, STATE, session) if version <= upto), default=0)


def save_state(log: Log, streams: Sequence[StreamRange], state: State) -> None:
    """Store a checkpoint of the state, all of which must be committed.

    It costs what came since the checkpoint before: archived facts are added to those stored.
    """
    session = streams[-1].session
    state.commit_to(state.version)
    # Ids with lone surrogates cannot stand in a checkpoint: such a session is replayed.
    with suppress(UnicodeEncodeError):
        rows = _rows(log, streams)
        checkpoint, beside = encode_state(state, session, rows)
        surplus = checkpoint_store.newest(1)  # it gives the state of earlier versions, too
        checkpoint_store.save(log, STATE, session, state.version, checkpoint, beside=beside, surplus=surplus)
        mark_stored(state, session, rows)


def wrong_checkpoints(log: Log, streams: Sequence[StreamRange], session: str, upto: int) -> Iterator[int]:
    """Versions whose checkpoint of command state differs from a replay from the first event."""
    rows = _rows(log, streams)
    for version, data in checkpoint_store.valid(log, STATE, session, upto):
        expected = canonical(_replayed(log, streams, version))
        try:
            same = canonical(decode_state(data, rows, session)) == expected
        except _UNREADABLE:
            same = False
        if not same:
            yield version


def _replayed(log: Log, streams: Sequence[StreamRange], version: int) -> State:
    """The state right after a version, from the first event on."""
    state = State()
    apply_spans(log, streams, state, version)
    state.commit_to(version)
    return state


def _rows(log: Log, streams: Sequence[StreamRange]) -> StoredRows:
    """The rows beside the checkpoints of a session."""
    return StoredRows(log, partial(_messages_of, log), partial(_replayed, log, streams))


def _messages_of(log: Log, session: str, version: int) -> StoredMessages | None:
    for number in reversed(checkpoint_store.versions(log, STATE, session)):
        data = checkpoint_store.sound(log, STATE, session, number) if number >= version else None
        if data is not None:
            with suppress(*_UNREADABLE):
                return decode_messages(data)
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
    """The states that checkpoints of one stream give up to version `upto`, newest first.

    Each comes with the version that it is of.
    """
    limit = min(stream.last, upto)
    with log.reading() as heads:
        head = heads.head(stream.session)
    rows = _rows(log, streams)
    for version, data in checkpoint_store.valid(log, STATE, stream.session, 0 if head is None else head.version):
        if version >= stream.first:
            with suppress(*_UNREADABLE):
                state = decode_state(data, rows, stream.session, limit)
                yield state.version, state
