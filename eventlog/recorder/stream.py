"""Events of one application as one session of the log: inserting, selecting, tracking.

One insert is one append, so it is atomic over any number of originators, and its tracking position
is part of it.  The versions of the session are the notification ids; an insert that only tracks
takes one, which then no event has.  An insert is compared with all that is recorded, and with the
inserts of this process that are on their way, and goes in right behind them or is compared anew
(`_Insert`): of two inserts of the same originator version, or of the same tracking position,
one is refused.

The session is named `eventsourcing:PURPOSE:APPLICATION` (purpose `events` or `snapshots`), so any
number of applications share a store.  Its catalog entry and its payloads say that it is no
conversation (`eventlog/codec/payload.py`).  This module raises the errors of this package, and the
recorders translate them.  Thread-safe.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from threading import RLock
from uuid import UUID

from eventsourcing.persistence import IntegrityError, Notification, StoredEvent, Tracking

from eventlog.append.backoff import Backoff
from eventlog.codec.payload import FOREIGN
from eventlog.errors import AlreadyExistsError, CallError, ConflictError, EventlogError
from eventlog.errors.base import brief
from eventlog.log.commit import Append, Commit, Committed, Ticket
from eventlog.log.contract import Log
from eventlog.recorder.batch import Batch, batch_of, key_of, pack
from eventlog.recorder.index import OriginatorIndex
from eventlog.recorder.index_table import Run

_ENTRY = FOREIGN + b"eventsourcing"
_NEAR = 256
"""Versions between two events that are still read in one go."""
_SCANNED = 10_000
"""Versions that one page reads."""


class RecorderStream:
    """Events recorded under one application name and purpose."""

    def __init__(self, log: Log, application: str, purpose: str = "events") -> None:
        if ":" in purpose:
            raise CallError(f"a purpose has no colon: {brief(purpose)}")
        self.log = log
        self.name: str = f"eventsourcing:{purpose}:{application}"
        self._lock = RLock()
        self._index = OriginatorIndex(log, self.name)
        self._ahead: list[_Insert] = []
        """The inserts on their way, each right behind the one before."""

    # --- inserting

    def insert(self, events: Sequence[StoredEvent], tracking: Tracking | None = None) -> Sequence[int]:
        """Append stored events and a tracking position, all or nothing; return notification ids.

        `IntegrityError` (theirs) if one of the originator versions is there already, or the
        position is not greater than the tracked one.
        """
        if not events and tracking is None:
            return []
        known = {name: key_of(name) for name in {event.originator_id for event in events}}
        keys = [known[event.originator_id] for event in events]
        versions = [event.originator_version for event in events]
        insert = _Insert(keys, events, tracking)
        payload = pack(events, tracking)
        count = max(len(events), 1)
        backoff = Backoff()
        while True:
            now = time.time_ns() // 1_000_000
            submitted = self._submit(insert, payload, count, now)
            try:
                committed = submitted.wait()
            except (AlreadyExistsError, ConflictError):  # another writer came between: compare with its events
                if not backoff.goes_on():
                    raise
            except EventlogError:
                if submitted is insert:
                    raise
            else:
                if submitted is insert:
                    break
        first = committed.first
        with self._lock:
            if self._index.version == first - 1:
                commit = Commit(self.name, first, count, committed.position, 0, now, payload)
                tracked = None if tracking is None else (tracking.application_name, tracking.notification_id)
                self._index.add(commit, keys, versions, tracked)
        return list(range(first, first + len(events)))

    def _submit(self, insert: _Insert, payload: bytes, count: int, now: int) -> _Insert:
        """Submit an insert behind all that is recorded or on its way, and return it.

        An insert on its way that it must wait for is returned instead.
        """
        with self._lock:
            index = self._index
            index.catch_up()
            insert.refuse_recorded(index)
            ahead = self._ahead = [other for other in self._ahead if other.is_ahead(index.version)]
            for other in ahead:
                if not index.version or insert.meets(other):
                    return other
            insert.first = ahead[-1].last + 1 if ahead else index.version + 1
            insert.last = insert.first + count - 1
            append = Append(
                session=self.name,
                payload=payload,
                count=count,
                time=now,
                entry=None if index.version else _ENTRY,
                creates_at=None if index.version else 0,
                expected=insert.first - 1 if index.version else None,
                behind=ahead[-1].ticket if ahead else None,
            )
            insert.ticket = self.log.submit(append)
            ahead.append(insert)
            return insert

    # --- selecting

    def select(
        self, originator: UUID | str, *, gt: int | None, lte: int | None, desc: bool, limit: int | None
    ) -> list[StoredEvent]:
        """Return an originator's events between two of its versions, at most `limit`."""
        with self._lock:
            self._index.catch_up()
            runs = list(_limited(self._index.runs(key_of(originator), gt, lte, desc=desc), limit))
        found: list[StoredEvent] = []
        for group in _groups(runs, desc=desc):
            found += self._events_at(group, desc=desc)
        return found if limit is None else found[: max(limit, 0)]

    def _events_at(self, runs: Sequence[Run], *, desc: bool) -> Iterator[StoredEvent]:
        """Yield the events of runs that lie near each other, in stream order or against it."""
        newest, oldest = (runs[0], runs[-1]) if desc else (runs[-1], runs[0])
        commits = self.log.read(self.name, oldest[1] - 1, newest[1] + newest[2] - 1, reverse=desc)
        commit = next(commits)
        batch: Batch | None = None
        for _, start, count in runs:
            for place in range(start + count - 1, start - 1, -1) if desc else range(start, start + count):
                if not commit.first <= place < commit.first + commit.count:
                    batch = None
                    for commit in commits:
                        if commit.first <= place < commit.first + commit.count:
                            break
                if batch is None:
                    batch = batch_of(commit)
                yield batch.event(place - commit.first)

    def page(
        self, after: int, limit: int, upto: int | None = None, topics: Collection[str] = ()
    ) -> tuple[list[Notification], int]:
        """Return at most `limit` notifications after an id, and the last id that was examined.

        A page looks at a bounded number of events, so it may be empty although more follow: go on
        after that id.
        """
        found: list[Notification] = []
        last = after + _SCANNED if upto is None else min(upto, after + _SCANNED)
        scanned = after
        if limit < 1 or last <= after:
            return found, scanned
        for commit in self.log.read(self.name, after, last):
            for notification in batch_of(commit).notifications(after, last, topics):
                found.append(notification)
                if len(found) == limit:
                    return found, notification.id
            scanned = min(commit.last, last)
        return found, scanned

    def newest(self) -> int | None:
        """Return the greatest notification id, None if there is no event."""
        with self._lock:
            self._index.catch_up()
            return self._index.newest or None

    def tracked(self, application: str) -> int | None:
        """Return the tracking position in another application, None if there is none."""
        with self._lock:
            self._index.catch_up()
            return self._index.tracking.get(application)


class _Insert:
    """An insert: what it must not meet, and its place once it is submitted."""

    __slots__ = ("_names", "_tracking", "_versions", "first", "last", "ticket")

    def __init__(self, keys: Sequence[bytes], events: Sequence[StoredEvent], tracking: Tracking | None) -> None:
        self._names: dict[bytes, UUID | str] = {}
        self._versions: dict[bytes, set[int]] = {}
        self._tracking = tracking
        self.first = self.last = 0
        self.ticket: Ticket | None = None
        for key, event in zip(keys, events, strict=True):
            self._names[key] = event.originator_id
            versions = self._versions.setdefault(key, set())
            if event.originator_version in versions:
                raise self._duplicate(key, event.originator_version)
            versions.add(event.originator_version)

    def wait(self) -> Committed:
        """Block until it is durable; raises why it is not."""
        assert self.ticket is not None
        return self.ticket.wait()

    def is_ahead(self, version: int) -> bool:
        """Return whether it may still be committed behind this version."""
        return self.first > version and self.ticket is not None and not self.ticket.done()

    def meets(self, other: _Insert) -> bool:
        """Return whether the two are not both to be recorded."""
        mine, theirs = self._tracking, other._tracking
        if mine is not None and theirs is not None and mine.application_name == theirs.application_name:
            return True
        return any(not versions.isdisjoint(other._versions.get(key, ())) for key, versions in self._versions.items())

    def refuse_recorded(self, index: OriginatorIndex) -> None:
        """Raise `IntegrityError` if some of it is recorded."""
        for key, versions in self._versions.items():
            if (version := index.find_recorded(key, versions)) is not None:
                raise self._duplicate(key, version)
        for application, position in index.tracking.items():
            self._refuse_tracked(application, position)

    def _refuse_tracked(self, application: str, position: int) -> None:
        mine = self._tracking
        if mine is not None and mine.application_name == application and mine.notification_id <= position:
            raise IntegrityError(
                f"{application}: position {mine.notification_id} is not greater than the tracked {position}"
            )

    def _duplicate(self, key: bytes, version: int) -> IntegrityError:
        return IntegrityError(f"version {version} of originator {self._names[key]} is recorded already")


def _limited(runs: Iterator[Run], limit: int | None) -> Iterator[Run]:
    """Yield the runs that hold the first `limit` events."""
    if limit is None:
        yield from runs
        return
    for run in runs:
        if limit <= 0:
            return
        yield run
        limit -= run[2]


def _groups(runs: Sequence[Run], *, desc: bool) -> Iterator[Sequence[Run]]:
    """Group runs that follow each other closely in the direction of reading."""
    start = 0
    for number in range(1, len(runs) + 1):
        if number < len(runs):
            earlier, later = (runs[number], runs[number - 1]) if desc else (runs[number - 1], runs[number])
            if 0 <= later[1] - (earlier[1] + earlier[2]) <= _NEAR:
                continue
        yield runs[start:number]
        start = number
