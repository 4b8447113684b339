"""Loads event JSONL into a store; ids, times, versions, appends and forks stay the same.

A session is looked for under its own id, because a given session id is an identity, then under
`ID~2`, `ID~3` …, which hold what diverged.  Stored events are compared one by one, times included:

* the file's stream ends while one still agrees: nothing is new;
* one has agreed to its end: the rest is appended to it;
* none agrees to its end: the one that agrees longest is forked at the last common version, and the
  fork gets the rest.  A fork's own first event shifts the later versions, so versions in events are
  translated.

An event that the session's rules refuse is reported with its line, and ends that session. A name
that a session brings is reserved for it; if another session has it, the imported one loses it.
`format.py` reads the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TypeAlias

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.append.bulk import BulkAppender
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import CallError, ConflictError, NotFoundError
from eventlog.errors.base import brief
from eventlog.importers.common.free_names import begin_free, taken_and_free
from eventlog.importers.common.importer import ImportBatch, Report
from eventlog.importers.event_jsonl.format import JsonlAppend
from eventlog.integrity.fork_anchor import portable
from eventlog.session.session import Session
from eventlog.session.session_names import keep_told
from eventlog.store import Store

__all__ = ["load"]

Timed: TypeAlias = tuple[int, ev.Event]
"""UTC milliseconds and the event."""


def load(store: Store, batches: Iterable[ImportBatch], report: Report) -> None:
    """Append what is new of the batches; `report` gets the sessions and the event count."""
    streams: dict[str, _Stream] = {}
    try:
        _take(store, batches, report, streams)
    finally:  # an append that is on its way would come between those of the next import
        _finish(streams)
        report.events += sum(stream.added for stream in streams.values())
    report.sessions = [stream.stored().id for stream in streams.values() if stream.is_stored]
    for stream in streams.values():
        if report.events and (name := stream.stored().info.name) is not None:
            keep_told(store, stream.stored(), name)


def _take(store: Store, batches: Iterable[ImportBatch], report: Report, streams: dict[str, _Stream]) -> None:
    refused: set[str] = set()
    for batch in batches:
        assert isinstance(batch, JsonlAppend)
        if batch.session in refused:
            continue
        try:
            stream = streams.get(batch.session)
            if stream is None:
                _finish(streams)  # a fork reads its parent
                stream = streams[batch.session] = _begun(store, batch, streams)
            stream.add(batch)
        except CallError as error:
            report.skip(batch.line, f"{error}; the rest of session {brief(batch.session)} is not imported")
            refused.add(batch.session)


def _finish(streams: dict[str, _Stream]) -> None:
    """Make durable what was appended."""
    for stream in streams.values():
        stream.finish()


class _Candidate:
    """Stored session that may be the file's, compared as far as it agrees.

    `after` is where its own versions begin.
    """

    def __init__(self, session: Session, stream: _Stream) -> None:
        self.session = session
        self.stream = stream
        self.recorded = _events(session, stream.after)
        self.common = 0
        """How many of the stream's events agree."""
        self.shifts: list[int] = []
        """After how many of them the stored history has a fork's first event."""
        self.agrees = True
        self.ended = False

    def compare(self, time: int, event: ev.Event) -> None:
        """Compare the stream's next event."""
        found = next(self.recorded, None)
        while found is not None and self.common and isinstance(found[1], ev.SessionForked):
            self.shifts.append(self.common)
            found = next(self.recorded, None)
        if found is not None and (found[0], portable(found[1])) == (time, self.translate(event)):
            self.common += 1
            return
        self.agrees = False
        self.ended = found is None

    def has_next(self, items: list[Timed]) -> bool:
        """Go on behind the stream's next events, if they are stored just as they are."""
        if not self.keeps_versions:
            return False
        stored = list(islice(self.recorded, len(items)))
        if stored == items:
            self.common += len(items)
            return True
        self.recorded = chain(stored, self.recorded)
        return False

    @property
    def keeps_versions(self) -> bool:
        """Whether all stored versions are those of the file."""
        return not self.shifts and self.stream.inherits_versions

    def version(self, version: int) -> int:
        """Return the stored version of one of the file's."""
        own = version - self.stream.base
        if own <= 0:
            return self.stream.inherited(version)
        return self.stream.after + own + sum(shift < own for shift in self.shifts)

    def translate(self, event: ev.Event) -> ev.Event:
        """Return the event with stored versions."""
        if isinstance(event, ev.RolledBack):
            return replace(event, to=self.version(event.to))
        if isinstance(event, ev.RecordForgotten):
            ranges = ((self.version(first), self.version(last)) for first, last in event.ranges)
            return replace(event, ranges=tuple(ranges))
        if isinstance(event, ev.StepStarted) and event.view_version:
            return replace(event, view_version=self.version(event.view_version))
        if isinstance(event, ev.AssistantMessageStarted) and event.seen:
            return replace(event, seen=self.version(event.seen))
        return event


class _Stream:
    """One session of the file, and where it is in the store."""

    def __init__(self, store: Store, name: str, first: int, parent: _Stream | Session | None, after: int) -> None:
        self.store = store
        self.name = name
        self.base = first - 1
        """The file's version before the first of its own."""
        self.parent = parent
        self.after = after
        """Stored version before the first of its own."""
        self.chosen: _Candidate | None = None
        self.head = 0
        self.added = 0
        self._bulk: BulkAppender | None = None
        self._compacted: list[ev.Event] = []
        """Compactions that it completed."""
        taken, self.free = taken_and_free(store, name)
        self.candidates = [_Candidate(store.session(info.id), self) for info in taken if info.version > after]

    @property
    def is_stored(self) -> bool:
        """Whether the stream is in the store."""
        return self.chosen is not None or any(found.agrees and found.common for found in self.candidates)

    @property
    def keeps_versions(self) -> bool:
        """Whether all stored versions are those of the file."""
        return self._best().keeps_versions

    @property
    def inherits_versions(self) -> bool:
        """Whether the stored versions of what it inherited are those of the file."""
        return self.after == self.base and (not isinstance(self.parent, _Stream) or self.parent.keeps_versions)

    def stored(self) -> Session:
        """Return the session that holds the stream so far."""
        return self._best().session

    def inherited(self, version: int) -> int:
        """Return the stored version of an inherited one."""
        return self.parent.version(version) if isinstance(self.parent, _Stream) else version

    def version(self, version: int) -> int:
        """Return the stored version of one of the file's."""
        return self._best().version(version)

    def _best(self) -> _Candidate:
        if self.chosen is not None:
            return self.chosen
        return next(found for found in self.candidates if found.agrees and found.common)

    def add(self, batch: JsonlAppend) -> None:
        """Compare or append the events of an append."""
        place = 0
        if self.chosen is None:
            agreeing = [found for found in self.candidates if found.agrees]
            if len(agreeing) == 1 and agreeing[0].has_next(batch.items):
                return
            while place < len(batch.items) and self._agreed(*batch.items[place]):
                place += 1
            if place == len(batch.items):
                return
            place += self._choose(*batch.items[place])
        assert self.chosen is not None
        items = batch.items[place:] if place else batch.items
        if not self.keeps_versions:
            items = [(time, self.chosen.translate(event)) for time, event in items]
        if items:
            self._append(self.chosen.session, items, batch.bodies, None if place else batch.request)
            self.added += len(items)

    def _append(self, session: Session, items: list[Timed], bodies: Mapping[bytes, bytes], request: str | None) -> None:
        if self._bulk is None:
            self._bulk = session.executor.bulk()
            if self._bulk is not None and self._bulk.version != self.head:
                raise ConflictError(session.id, self.head, self._bulk.version)
        if self._bulk is None:
            committed = session.append(items, bodies=bodies, expected_version=self.head, request_id=request)
            self.head = committed.last
        else:
            self._bulk.append(items, bodies, request)
            self.head = self._bulk.version
            self._compacted += [event for _, event in items if type(event) is ev.CompactionCompleted]

    def finish(self) -> None:
        """Make durable what was appended."""
        bulk, self._bulk = self._bulk, None
        if bulk is not None:
            bulk.wait()
            self.stored().executor.leave_checkpoint(self._compacted)
            self._compacted = []

    def _agreed(self, time: int, event: ev.Event) -> bool:
        agreeing = [found for found in self.candidates if found.agrees]
        for found in agreeing:
            found.compare(time, self._here(event))
        return any(found.agrees for found in agreeing)

    def _choose(self, time: int, event: ev.Event) -> int:
        """Find or make the session that gets the new events.

        Returns how many of them that took.
        """
        best = max(self.candidates, key=lambda found: (found.common, found.ended), default=None)
        if best is None or not best.common:
            session = self._create(time, self._here(event))
            self.chosen = _Candidate(session, self)
            self.head = self.after + 1
            self.added += 1
            return 1
        self.head = self.after + best.common + len(best.shifts)
        if not best.ended:
            info = best.session.info
            forked = ev.SessionForked(best.session.id, self.head, b"", info.title, info.scope, info.origin)
            session = begin_free(self.store, forked, self.free, time)
            shifts = [*best.shifts, best.common]
            best = _Candidate(session, self)
            best.shifts = shifts
            self.head += 1
            self.added += 1
        self.chosen = best
        return 0

    def _create(self, time: int, event: ev.Event) -> Session:
        if isinstance(event, (ev.SessionStarted, ev.SessionForked)):
            return begin_free(self.store, event, self.free, time)
        raise CallError("a session that does not begin with its first event")

    def _here(self, event: ev.Event) -> ev.Event:
        """Return the event with its parent's name and version in this store."""
        if not isinstance(event, ev.SessionForked) or self.parent is None:
            return event
        parent = self.parent.stored() if isinstance(self.parent, _Stream) else self.parent
        return replace(portable(event), parent=parent.id, at=self.inherited(event.at))


def _events(session: Session, after: int) -> Iterator[Timed]:
    """Yield the stored events after a version, each with its time."""
    for decoded in session.reader.decoded_commits(after):
        base = decoded.batch.time
        for entry in decoded.batch.entries:
            if isinstance(entry, DeltaRun):
                yield from zip(entry.times(base), entry.deltas(), strict=True)
            else:
                yield base + entry.after, entry.event


def _begun(store: Store, batch: JsonlAppend, streams: dict[str, _Stream]) -> _Stream:
    """Return the stream that a session's first append begins."""
    event = batch.items[0][1]
    if not isinstance(event, ev.SessionForked):
        if batch.first != 1:
            raise CallError(f"a session that begins at version {batch.first} and is no fork")
        return _Stream(store, batch.session, 1, None, 0)
    parent = streams.get(event.parent)
    if event.at != batch.first - 1:
        raise CallError(f"a fork at version {event.at} that begins at version {batch.first}")
    if parent is None:
        return _Stream(store, batch.session, batch.first, store.session(event.parent), event.at)
    if not parent.is_stored:
        raise NotFoundError("session", event.parent)
    return _Stream(store, batch.session, batch.first, parent, parent.version(event.at))
