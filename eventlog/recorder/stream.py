"""Events of one application as one session of the log: inserting, selecting, tracking.

One insert is one append, so it is atomic over any number of originators, and its tracking position
is part of it.  The versions of the session are the notification ids; an insert that only tracks
takes one, which then no event has.  A check inside the commit (`_InsertCheck`) compares with what
other processes have committed: of two inserts of the same originator version, or of the same
tracking position, one is refused.

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

from eventlog.codec.payload import FOREIGN
from eventlog.errors import AlreadyExistsError, CallError, brief
from eventlog.log.contract import Append, Commit, Log
from eventlog.recorder.batch import Batch, key_of, pack, unpack
from eventlog.recorder.index import OriginatorIndex
from eventlog.recorder.index_table import Run

__all__ = ["RecorderStream"]

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
        self.name = f"eventsourcing:{purpose}:{application}"
        self._lock = RLock()
        self._index = OriginatorIndex(log, self.name)

    # --- inserting

    def insert(self, events: Sequence[StoredEvent], tracking: Tracking | None = None) -> Sequence[int]:
        """Append stored events and a tracking position, all or nothing; return notification ids.

        `IntegrityError` (theirs, as the check inside the commit says it) if one of the originator
        versions is there already, or the position is not greater than the tracked one.
        """
        if not events and tracking is None:
            return []
        known = {name: key_of(name) for name in {event.originator_id for event in events}}
        keys = [known[event.originator_id] for event in events]
        versions = [event.originator_version for event in events]
        check = _InsertCheck(keys, events, tracking)
        payload = pack(events, tracking)
        count = max(len(events), 1)
        while True:
            with self._lock:
                self._index.catch_up()
                check.refuse_recorded(self._index)
                seen = self._index.version
            now = time.time_ns() // 1_000_000
            append = Append(
                session=self.name,
                payload=payload,
                count=count,
                time=now,
                entry=None if seen else _ENTRY,
                creates_at=None if seen else 0,
                seen=seen,
                check=check,
            )
            try:
                committed = self.log.submit(append).wait()
            except AlreadyExistsError:
                continue  # another process began the stream: check against its events
            break
        first = committed.first
        with self._lock:
            if self._index.version == first - 1:
                commit = Commit(self.name, first, count, committed.position, 0, now, payload)
                tracked = None if tracking is None else (tracking.application_name, tracking.notification_id)
                self._index.add(commit, keys, versions, tracked)
        return list(range(first, first + len(events)))

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
                    batch = unpack(commit)
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
            for notification in unpack(commit).notifications(after, last, topics):
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


class _InsertCheck:
    """Check of an insert against what is recorded; raises `IntegrityError` if it conflicts."""

    __slots__ = ("_names", "_tracking", "_versions")

    def __init__(self, keys: Sequence[bytes], events: Sequence[StoredEvent], tracking: Tracking | None) -> None:
        self._names: dict[bytes, UUID | str] = {}
        self._versions: dict[bytes, set[int]] = {}
        self._tracking = tracking
        for key, event in zip(keys, events, strict=True):
            self._names[key] = event.originator_id
            versions = self._versions.setdefault(key, set())
            if event.originator_version in versions:
                raise self._duplicate(key, event.originator_version)
            versions.add(event.originator_version)

    def refuse_recorded(self, index: OriginatorIndex) -> None:
        """Compare with what is recorded before the commit."""
        for key, versions in self._versions.items():
            if (version := index.find_recorded(key, versions)) is not None:
                raise self._duplicate(key, version)
        for application, position in index.tracking.items():
            self._refuse_tracked(application, position)

    def __call__(self, others: Sequence[Commit]) -> None:
        """Compare, inside the commit, with the commits of other processes."""
        for commit in others:
            batch = unpack(commit)
            for key, version in zip(batch.keys(), batch.versions, strict=True):
                if version in self._versions.get(key, ()):
                    raise self._duplicate(key, version)
            if batch.tracking is not None:
                self._refuse_tracked(*batch.tracking)

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
