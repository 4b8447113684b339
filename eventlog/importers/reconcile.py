"""Appends what is new of an import: compares a file's events with the stored sessions.

A file's session is looked for under its name, then `name~2`, `name~3` …, which are its
continuations; sessions with another origin are skipped.  All of them are compared with the file at
once, event by event:

* the file ends while one still agrees: nothing is new;
* one has agreed to its end: the rest is appended to it;
* none agrees to its end, because the file changed or the session was continued natively: the one
  that agrees longest is forked at the last common version, and the fork, which has the same origin,
  gets the rest.  The next import finds the fork.

Appends are at the version that was compared. If another import was first, what it appended is
compared with what was to be appended; `ConflictError` if it began the session, or the snapshot of
the session changed.

Times and the origin's path are not compared: a file that was moved or copied is the same file.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from eventlog import events as ev
from eventlog.errors import ConflictError
from eventlog.history.catalog import SessionInfo
from eventlog.importers.candidate import Candidate, subject_of
from eventlog.importers.common.free_names import begin_free, taken_and_free
from eventlog.importers.common.importer import ImportBatch, Report
from eventlog.store import Store
from eventlog.values import Origin

__all__ = ["Reconciliation", "reconcile"]

BATCH_EVENTS = 1_000
BATCH_BYTES = 4 * 1024 * 1024


def reconcile(store: Store, batches: Iterable[ImportBatch], report: Report) -> None:
    """Append what is new of `batches`; `report` gets the session ids and the event count."""
    found = Reconciliation(store, report)
    found.take(batches)
    found.finish()
    report.sessions = found.stored_ids(report.sessions)


class Reconciliation:
    """The sessions of one file, compared batch by batch; `report` gets the event count."""

    def __init__(self, store: Store, report: Report) -> None:
        self._store = store
        self._report = report
        self._targets: dict[str, _Target] = {}
        self._names: dict[str, str] = {}

    def take(self, batches: Iterable[ImportBatch]) -> None:
        """Compare batches, and append what is new; some of it may wait for `finish`."""
        for batch in batches:
            target = self._targets.get(batch.session)
            if target is None:
                first = batch.items[0][1]
                if isinstance(first, ev.SessionForked):
                    parent = self._targets[first.parent]
                    self._names[batch.session] = _branch(self._store, batch, first, parent, self._report)
                    continue
                assert isinstance(first, ev.SessionStarted)
                started = _with_parent(first, self._names)
                target = self._targets[batch.session] = _Target(self._store, batch, started, self._report)
            target.add(batch)
            self._names[batch.session] = target.name()

    def finish(self) -> None:
        """Append what waits. Batches may follow, of a format without snapshots."""
        for target in self._targets.values():
            target.finish()
            self._names[target.wanted] = target.name()

    def go_on(self) -> None:
        """Regard what others have appended meanwhile: the next batches are compared with it."""
        for target in self._targets.values():
            target.go_on()

    def stored_ids(self, sessions: Iterable[str]) -> list[str]:
        """Return the ids that sessions of the file have in the store."""
        return [self._names.get(name, name) for name in sessions]


def _with_parent(started: ev.SessionStarted, names: dict[str, str]) -> ev.SessionStarted:
    """Return the event with its parent's name in this store."""
    if started.parent is None or started.parent not in names:
        return started
    return msgspec.structs.replace(started, parent=names[started.parent])


def _same_origin(info: SessionInfo, origin: Origin | None) -> bool:
    found = info.origin
    return (
        found is not None
        and origin is not None
        and (found.format, found.foreign_id) == (origin.format, origin.foreign_id)
    )


def _branch(store: Store, batch: ImportBatch, forked: ev.SessionForked, parent: _Target, report: Report) -> str:
    """Return the session that keeps an abandoned branch; it is made if it is absent."""
    source, at = parent.stored_version(forked.at)
    taken, free = taken_and_free(store, batch.session)
    for info in taken:
        if _same_origin(info, forked.origin) and (info.fork_of, info.forked_at) == (source.name, at):
            return info.id
    event = ev.SessionForked(source.name, at, b"", forked.title, store.info(source.name).scope, forked.origin)
    begin_free(store, event, free, batch.items[0][0])
    report.events += 1
    return free


class _Target:
    """One of the file's sessions, and the stored sessions it is compared with."""

    def __init__(self, store: Store, batch: ImportBatch, started: ev.SessionStarted, report: Report) -> None:
        self.store = store
        self.report = report
        self.wanted = batch.session
        self.snapshot: list[tuple[int, ev.Event]] | None = None
        self._snapshots = batch.snapshot is not None
        self.started = started
        taken, self.free = taken_and_free(store, self.wanted)
        self.candidates = [self._candidate(info.id) for info in taken if _same_origin(info, started.origin)]
        self.chosen: Candidate | None = None
        """Session that gets the events, once something is new."""
        self.items: list[tuple[int, ev.Event]] = []
        self.bodies: dict[bytes, bytes] = {}
        self.weight = 0
        self.head = 0
        self.taken = 0
        """Number of the file's events so far, those that wait included."""

    def _candidate(self, name: str) -> Candidate:
        return Candidate(self.store, name, snapshots=self._snapshots)

    def name(self) -> str:
        """Return the session's id in the store, as far as it is known."""
        if self.chosen is not None:
            return self.chosen.name
        return next((found.name for found in self.candidates if found.agrees), self.wanted)

    def add(self, batch: ImportBatch) -> None:
        """Compare or append the events of a batch."""
        self.snapshot = batch.snapshot
        if self.chosen is not None or batch.snapshot:
            self.bodies.update(batch.bodies)
            self.weight += batch.weight
        self._add(batch.items, batch)
        if self.weight >= BATCH_BYTES:
            self.flush()

    def _add(self, items: Iterable[tuple[int, ev.Event]], batch: ImportBatch | None = None) -> None:
        for time, event in items:
            self.taken += 1
            if self.chosen is None:
                if self._agreed(event):
                    continue
                self._choose(time, event)
                if batch is not None and not batch.snapshot:
                    self.bodies.update(batch.bodies)
                    self.weight += batch.weight
            else:
                self.items.append((time, event))
            if len(self.items) >= BATCH_EVENTS:
                self.flush()

    def _agreed(self, event: ev.Event) -> bool:
        agreeing = [found for found in self.candidates if found.agrees]
        for found in agreeing:
            found.compare(event)
        return any(found.agrees for found in agreeing)

    def _choose(self, time: int, new: ev.Event) -> None:
        """Find or make the session that gets the new events, `new` first."""
        best = max(self.candidates, key=lambda found: (found.common, found.ended), default=None)
        if best is None or best.common == 0:
            begin_free(self.store, self.started, self.free, time)  # a parent may come with a later file
            self.chosen = self._candidate(self.free)
            self.report.events += 1
            self.head = 1
            return
        self.head = best.read
        if not best.ended:
            info = self.store.info(best.name)
            event = ev.SessionForked(info.id, best.base, b"", info.title, info.scope, self.started.origin)
            begin_free(self.store, event, self.free, time)
            fork = self._candidate(self.free)
            fork.inherit(best)
            self.head, best = best.base + 1, fork
            self.report.events += 1
        self.chosen = best
        self.items.append((time, new))

    def stored_version(self, version: int) -> tuple[Candidate, int]:
        """Return the session that holds everything so far, and the file's version there."""
        self.flush()
        found = self.chosen or next(candidate for candidate in self.candidates if candidate.agrees)
        return found, found.version(version)

    def finish(self) -> None:
        """Append what is waiting, and of the snapshot what is not what was last said.

        A file that is shorter than what is stored is an older one, or, if its snapshot is newer,
        one that lost its end: a fork.
        """
        self.flush()
        if not self.snapshot:
            return
        agreeing = [found for found in self.candidates if found.agrees]
        found = self.chosen or next((found for found in agreeing if found.is_at_end()), None)
        if found is None:
            newest = [stored.time for found in agreeing for stored in found.snapshot().values()]
            if self.snapshot[0][0] <= max(newest, default=0):
                return
            self._choose(*self.snapshot[0])
            found = self.chosen
            assert found is not None
        head = self.store.info(found.name).version
        latest = {subject: stored.event for subject, stored in found.snapshot().items()}
        self.items = [(time, event) for time, event in self.snapshot if latest.get(subject_of(event)) != event]
        if self.items:
            self.chosen = found
            self.head = head
            self.flush()

    def flush(self) -> None:
        """Append what is waiting."""
        while self.items:
            assert self.chosen is not None
            items = [(time, self.chosen.translate(event)) for time, event in self.items]
            try:
                committed = self.chosen.session.append(items, bodies=self.bodies, expected_version=self.head)
            except ConflictError:
                if self.snapshot is not None:
                    raise
                waiting, self.items = self.items, []
                self.taken -= len(waiting)
                self.go_on()
                self._add(waiting)
            else:
                self.head = committed.last
                self.report.events += len(self.items)
                self.items = []
        self.bodies, self.weight = {}, 0

    def go_on(self) -> None:
        """Compare what follows with what is stored behind what is common so far."""
        if self.chosen is not None:
            self.chosen.common, self.chosen.read, self.chosen.agrees = self.taken, self.head, True
            self.candidates, self.chosen = [self.chosen], None
        for found in self.candidates:
            found.go_on()
