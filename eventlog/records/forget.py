"""Forgetting records: their events are effective at no version, and a scrub frees them.

What is forgotten are ranges of versions: the events of the records, those that end the records, and
the beginning of a message once nothing else is in it. The state that commands are decided against
keeps its facts, so a session goes on as if nothing had happened. The ranges are recorded where the
records were told; a fork reads those of its parents. Its total of messages follows with its next
append, by a handle that was opened since or that forgot them itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from eventlog import events as ev
from eventlog.errors import ErasedError
from eventlog.history.ranges import Range, covers, merged
from eventlog.history.relatives import recorders_of
from eventlog.records.read import StoredRecord, events_of, stored_records
from eventlog.session.session import Session
from eventlog.state.state import State

_ENDS = (ev.MessageFinished, ev.StepFinished, ev.MessageRemoved)
"""Ends of a message, which stays ended or removed though their record is forgotten."""


class _Found(NamedTuple):
    """Versions and messages of records."""

    versions: list[Range]
    messages: set[str]
    """Messages that they begin, or that have parts of theirs."""


def forget(session: Session, numbers: Sequence[int]) -> None:
    """Forget records of a session, and of the sessions that it was forked from."""
    streams = session.reader.ancestry()
    records = list(stored_records(session.store.log, streams, numbers))
    for stream in streams:
        own = [record for record in records if stream.first <= record[1] <= stream.last]
        for name in recorders_of(session.store.log, stream.session, session.id) if own else ():
            _record(session.store.session(name), own)
    if len(streams) > 1:
        with session.reader.deciding():
            session.executor.writer.committed.note_forgotten()


def _record(session: Session, records: Iterable[StoredRecord]) -> None:
    reader = session.reader
    known = reader.forgotten()
    inherited = {stream.session: stream.last for stream in reader.ancestry()}
    found = _found(record for record in records if record[1] <= inherited.get(record[0], 0))
    with reader.deciding() as state:
        ranges = _with_messages(state, found, merged((*known, *found.versions)))
    before = set(known)
    fresh = tuple(one for one in ranges if one not in before)
    if not fresh:
        return
    try:
        session.executor.command([ev.RecordForgotten(fresh)])
        session.store.host.kept.forget(session.id)
    except ErasedError:
        return


def _found(records: Iterable[StoredRecord]) -> _Found:
    """Return the versions of records, without what ends messages that others begin."""
    versions: list[Range] = []
    messages: set[str] = set()
    for record in records:
        number, events = record[1], events_of(record)
        begun = {
            event.message for event in events if isinstance(event, (ev.UserMessageAdded, ev.AssistantMessageStarted))
        }
        first = number - len(events)
        versions.append((number, number))
        for version, event in enumerate(events, first):
            message: str | None = getattr(event, "message", None)
            if isinstance(event, _ENDS) and message not in begun:
                continue
            if message is not None:
                messages.add(message)
            if not isinstance(event, ev.AssistantMessageStarted) and not isinstance(event, ev.StepStarted):
                versions.append((version, version))
    return _Found(versions, messages)


def _with_messages(state: State, found: _Found, ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """Return the ranges with the beginnings of messages that have nothing else any more."""
    more: list[Range] = []
    for message in found.messages:
        facts = state.messages.get(message)
        if facts is None:
            continue
        content = [part for part in facts.parts.values() if part.kind != "step"]
        if all(covers(ranges, part.added) for part in content):
            added = [facts.added, *(part.added for part in facts.parts.values())]
            more += [(version, version) for version in added]
    return merged((*ranges, *more))
