"""Stored form of a command state: a checkpoint, and rows that are read when needed.

A checkpoint reads the same however long the session is: archived facts and older log entries are
rows of their own. `loader.py` stores and loads both.

A checkpoint gives the state of earlier versions, too: facts carry the version that made them, so
what is newer is left out.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from eventlog.compression import pack, unpack
from eventlog.history.effective_history import History
from eventlog.state.archive import FactArchive
from eventlog.state.facts import MessageFacts, PinFacts
from eventlog.state.state import LOGS, State
from eventlog.state.stored_facts import FACTS, Source, StoredArchive, StoredFacts, StoredMessages, StoredRows
from eventlog.state.version_log import StoredLog, VersionLog

Row = tuple[str, int, bytes | None]
"""A row beside a checkpoint: kind, number, and bytes or None to delete it."""


class ArchiveSummary(msgspec.Struct, array_like=True):
    """Where a checkpoint has its archive."""

    greatest: dict[int, str]
    inherited: list[Source]
    own: StoredArchive


class StoredState(msgspec.Struct, array_like=True):
    """A state without its archive; a change of it changes `loader.STATE`."""

    version: int
    started: int
    erased: bool
    last_message: str
    pins: dict[str, PinFacts]
    logs: list[StoredLog]
    """Those of `LOGS`."""
    compactions: list[tuple[int, str, str]]
    interrupts: list[tuple[int, str]]
    history: History
    hot: list[tuple[str, MessageFacts]]
    archive: ArchiveSummary | None
    queued: bool


class Encoded(NamedTuple):
    """A checkpoint and the rows to store with it."""

    data: bytes
    rows: list[Row]


_STATE = msgspec.msgpack.Decoder(StoredState)


def encode_state(state: State, session: str, stored: StoredRows) -> Encoded:
    """Encode a state as a checkpoint of a session that has these rows.

    All of it must be committed: a checkpoint has no undo log. Call `mark_stored` when the
    checkpoint and its rows are stored.
    """
    with state.facts.lock:
        archive, summary, rows = state.facts.archive, None, list[Row]()
        if archive:
            growth = archive.growth(session)
            inherited = [] if archive.stored is None else archive.stored.inherited(session)
            summary = ArchiveSummary(archive.greatest, inherited, growth.archive)
            if growth.is_whole:  # other rows are of an archive that was lost, or of another handle
                others = set(stored.numbers(session, FACTS)) - {number for number, _ in growth.rows}
                rows += ((FACTS, number, None) for number in others)
            rows += ((FACTS, number, data) for number, data in growth.rows)
        logs = list[StoredLog]()
        for name in LOGS:
            log, packs = getattr(state, name).stored(session)
            logs.append(log)
            rows += packs
        return Encoded(pack(_encode(state, logs, list(state.hot_messages.items()), summary)), rows)


def mark_stored(state: State, session: str, rows: StoredRows) -> None:
    """Note that what `encode_state` returned is stored: the next checkpoint adds to it."""
    with state.facts.lock:
        if state.facts.archive:
            state.facts.archive.mark_stored(rows, Source(session, state.version))
        for name in LOGS:
            getattr(state, name).mark_stored(rows, session)


def canonical(state: State) -> bytes:
    """Encode states with equal facts as equal bytes, however much of them is archived."""
    messages = sorted(state.facts.all_messages(), key=lambda row: (row[1].added, row[0]))
    return _encode(state, [StoredLog(getattr(state, name).whole(), []) for name in LOGS], messages, None)


def decode_messages(data: bytes) -> StoredMessages | None:
    """Return the messages of a checkpoint, None if it has no archive."""
    stored = _STATE.decode(unpack(data))
    summary = stored.archive
    return None if summary is None else StoredMessages(summary.own, stored.hot, summary.inherited)


def decode_state(data: bytes, rows: StoredRows, session: str, upto: int | None = None) -> State:
    """Return the state of a session's checkpoint, or that of an earlier version `upto`.

    `msgspec.MsgspecError` or `ValueError` if it is no checkpoint; `LostRowError` if an earlier
    version needs a row that cannot be read.
    """
    stored = _STATE.decode(unpack(data))
    state = State()
    state.version, state.started, state.erased = stored.version, stored.started, stored.erased
    state.last_message, state.pins, state.queued = stored.last_message, stored.pins, stored.queued
    state.compactions, state.interrupts, state.history = stored.compactions, stored.interrupts, stored.history
    for name, log in zip(LOGS, stored.logs, strict=True):
        setattr(state, name, VersionLog(name, log, rows))
    hot, summary = stored.hot, stored.archive
    sources: list[Source] = []
    modulus = 0
    if summary is not None:
        sources, modulus = [*summary.inherited, Source(session, stored.version)], summary.own.modulus
    if upto is not None and upto < stored.version:
        hot = [(name, facts) for name, whole in hot if (facts := whole.as_of(upto)) is not None]
        sources = [Source(source.session, min(source.upto, upto)) for source in sources]
        _cut(state, upto)
    for name, facts in hot:
        state.facts.insert(name, facts)
    if summary is not None:
        archive = state.facts.archive = FactArchive(StoredFacts(rows, sources, summary.own), modulus)
        archive.greatest = summary.greatest
    if state.version < stored.version:
        state.last_message = _last_message(state)
    return state


def _cut(state: State, version: int) -> None:
    """Leave out what came after a version, except facts of messages and parts."""
    state.version, state.erased = version, False
    state.started = state.started if state.started <= version else 0
    state.pins = {name: facts for name, whole in state.pins.items() if (facts := whole.as_of(version)) is not None}
    state.compactions = [entry for entry in state.compactions if entry[0] <= version]
    state.interrupts = [entry for entry in state.interrupts if entry[0] <= version]
    state.history.cut(version)
    for name in LOGS:
        getattr(state, name).cut(version)


def _last_message(state: State) -> str:
    """Return the message added last; an entry of `opens` also tells that one was closed."""
    added = ((at, names) for at, names in state.users.newest_entries() if state.messages[names[0]].added == at)
    user, message = next(added, (0, ("",)))
    for version, names in state.opens.newest_entries():
        if version < user:
            break
        if names and state.messages[names[-1]].added == version:
            return names[-1]
    return message[0]


def _encode(
    state: State, logs: list[StoredLog], messages: list[tuple[str, MessageFacts]], summary: ArchiveSummary | None
) -> bytes:
    return msgspec.msgpack.encode(
        StoredState(
            state.version,
            state.started,
            state.erased,
            state.last_message,
            state.pins,
            logs,
            state.compactions,
            state.interrupts,
            state.history,
            messages,
            summary,
            state.queued,
        )
    )
