"""What of an import is new: the events of a file are compared with the stored ones, and the rest appended (spec §13).

A file's session is looked for under its name, then `name~2`, `name~3` …, which are its continuations; what has
another origin is somebody else's and is passed over.  All of them are compared with the file at once, event by event:

* the file ends while one still agrees: nothing is new;
* one has agreed to its end: the rest is appended to it;
* none agrees to its end (the file changed, or the session was continued natively): the one that agrees longest is
  forked at the last common version, and the fork, which has the same origin, gets the rest.  It is found again the
  next time.

Times and the origin's path are not compared: a file that was moved or copied is the same.  Pieces speak of versions
as if they had been imported into an empty session; a fork's own first event shifts the later ones, so versions are
translated.

Not here: reading files (`claude_code.py` and its neighbours), deciding what may follow (`admission.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

import msgspec

from eventlog import events as ev
from eventlog.deltas import DeltaRun
from eventlog.errors import NotFoundError
from eventlog.importers.base import Piece, Report, bounded_id
from eventlog.listing import SessionInfo
from eventlog.reader import ancestry, spans
from eventlog.session import Session
from eventlog.store import Store
from eventlog.values import Origin

__all__ = ["reconcile"]

BATCH_EVENTS = 1_000
BATCH_BYTES = 4 * 1024 * 1024
SNAPSHOT = (ev.SessionRenamed, ev.SessionArchived, ev.ForeignKept)
"""What `Piece.snapshot` may hold; of `ForeignKept` not what is kept of a record (`line:…`, `lines:…`), which is history."""


def reconcile(store: Store, pieces: Iterable[Piece], report: Report) -> None:
    """Append what is new of `pieces`; `report` gets the ids of the sessions and the number of events added."""
    targets: dict[str, _Target] = {}
    names: dict[str, str] = {}
    for piece in pieces:
        target = targets.get(piece.session)
        if target is None:
            first = piece.items[0][1]
            if isinstance(first, ev.SessionForked):
                names[piece.session] = _branch(store, piece, first, targets[first.parent], report)
                continue
            assert isinstance(first, ev.SessionStarted)
            target = targets[piece.session] = _Target(store, piece, _here(first, names))
        target.take(piece)
        names[piece.session] = target.name()
    for target in targets.values():
        target.finish()
        names[target.wanted] = target.name()
        report.events += target.added
    report.sessions = [names.get(name, name) for name in report.sessions]


def _here(started: ev.SessionStarted, names: dict[str, str]) -> ev.SessionStarted:
    """The event with its parent's name in this store."""
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


def _chain(store: Store, wanted: str) -> Iterator[tuple[str, SessionInfo | None]]:
    """The names a foreign session may have here, each with what has it; the last one is free."""
    for number in count(1):
        name = wanted if number == 1 else bounded_id(f"{wanted}~{number}")
        try:
            info = store.info(name)
        except NotFoundError:
            yield name, None
            return
        yield name, info


def _branch(store: Store, piece: Piece, forked: ev.SessionForked, parent: _Target, report: Report) -> str:
    """The session that keeps a branch the file left; made if it is not there."""
    source, at = parent.settled(forked.at)
    free = ""
    for name, info in _chain(store, piece.session):
        if info is None:
            free = name
        elif _same_origin(info, forked.origin) and (info.fork_of, info.forked_at) == (source.name, at):
            return name
    event = ev.SessionForked(source.name, at, b"", forked.title, store.info(source.name).scope, forked.origin)
    _fork(source.session(), event, free, piece.items[0][0])
    report.events += 1
    return free


def _fork(session: Session, event: ev.SessionForked, name: str, time: int) -> None:
    session.store.begin(event, id=name, time=time)


class _Candidate:
    """A stored session that may be the file's, compared as far as it agrees."""

    def __init__(self, store: Store, name: str, *, snapshots: bool) -> None:
        self.store = store
        self.name = name
        self._snapshots = snapshots
        self._session: Session | None = None
        self.stored = _stored(store, name)
        self.common = 0
        """How many of the file's events agree."""
        self.shifts: list[int] = []
        """After how many of the file's events the stored history has one that is not compared."""
        self.agrees = True
        self.ended = False

    def session(self) -> Session:
        """The handle; taken only to write, because it loads the session's state."""
        if self._session is None:
            self._session = self.store.session(self.name)
        return self._session

    def compare(self, event: ev.Event) -> None:
        """Take in the file's next event."""
        stored = self._next()
        if stored is not None and _plain(self.translate(event)) == _plain(stored):
            self.common += 1
            return
        self.agrees = False
        self.ended = stored is None

    def at_end(self) -> bool:
        """Whether nothing is stored beyond what was compared; asked once, when the file is at its end."""
        return self._next() is None

    def told(self) -> int:
        """When the newest snapshot was taken, in UTC milliseconds."""
        stored = spans(self.store.log, ancestry(self.store.log, self.name), 0, self.store.info(self.name).version)
        return max(
            (span.time for span in stored if isinstance(span.item, SNAPSHOT) and _is_snapshot(span.item)), default=0
        )

    def _next(self) -> ev.Event | None:
        """The next stored event that is compared."""
        for stored in self.stored:
            if not isinstance(stored, ev.SessionForked) and not (self._snapshots and _is_snapshot(stored)):
                return stored
            self.shifts.append(self.common)
        return None

    def version(self, version: int) -> int:
        """The stored version of the file's version."""
        return version + sum(shift < version for shift in self.shifts)

    def translate(self, event: ev.Event) -> ev.Event:
        """The event with stored versions in it."""
        if self.shifts and isinstance(event, ev.RolledBack):
            return ev.RolledBack(self.version(event.to))
        return event


def _stored(store: Store, name: str) -> Iterator[ev.Event]:
    """The events of a session, inherited ones included, one by one."""
    for span in spans(store.log, ancestry(store.log, name), 0, store.info(name).version):
        if isinstance(span.item, DeltaRun):
            yield from span.item.deltas()
        else:
            yield span.item


def _plain(event: ev.Event) -> ev.Event:
    """The event without what two imports of one session may differ in."""
    if isinstance(event, ev.SessionStarted) and event.origin is not None:
        origin = msgspec.structs.replace(event.origin, path="")
        return msgspec.structs.replace(event, origin=origin, parent=None)
    return event


def _is_snapshot(event: ev.Event) -> bool:
    """Whether the event may be of a snapshot, in a format that has them."""
    return isinstance(event, SNAPSHOT) and not (isinstance(event, ev.ForeignKept) and event.of.startswith("line"))


def _is_tail(event: ev.Event) -> bool:
    """Whether the event keeps the records at the end of a stream that no batch has yet."""
    return isinstance(event, ev.ForeignKept) and event.of.startswith("tail:")


def _about(event: ev.Event) -> tuple[type, str]:
    """What an event of a snapshot speaks of: of those about one thing the latest counts."""
    return type(event), event.of if isinstance(event, ev.ForeignKept) else ""


class _Target:
    """One of the file's sessions, and where its events go."""

    def __init__(self, store: Store, piece: Piece, started: ev.SessionStarted) -> None:
        self.store = store
        wanted = self.wanted = piece.session
        self.snapshot: list[tuple[int, ev.Event]] | None = None
        snapshots = self._snapshots = piece.snapshot is not None
        self.started = started
        self.added = 0
        self.candidates: list[_Candidate] = []
        self.free = ""
        self.chosen: _Candidate | None = None
        """Where events are appended, once something is new."""
        self.items: list[tuple[int, ev.Event]] = []
        self.bodies: dict[bytes, bytes] = {}
        self.weight = 0
        self.head = 0
        for name, info in _chain(store, wanted):
            if info is None:
                self.free = name
            elif _same_origin(info, started.origin):
                self.candidates.append(_Candidate(store, name, snapshots=snapshots))

    def name(self) -> str:
        """The session's id in the store, as far as it is known."""
        if self.chosen is not None:
            return self.chosen.name
        return next((found.name for found in self.candidates if found.agrees), self.wanted)

    def take(self, piece: Piece) -> None:
        """Compare or append a piece's events."""
        self.snapshot = piece.snapshot
        items = iter(piece.items)
        if self.chosen is None:
            for time, event in items:
                if not self._compare(event):
                    self._choose(time, event)
                    break
        if self.chosen is None:
            if piece.snapshot:
                self.bodies.update(piece.bodies)
            return
        self.bodies.update(piece.bodies)
        self.weight += piece.weight
        for time, event in items:
            self.items.append((time, self.chosen.translate(event)))
            if len(self.items) >= BATCH_EVENTS:
                self.flush()
        if self.weight >= BATCH_BYTES:
            self.flush()

    def _compare(self, event: ev.Event) -> bool:
        agreed = False
        for candidate in self.candidates:
            if candidate.agrees:
                candidate.compare(event)
                agreed = agreed or candidate.agrees
        return agreed

    def _choose(self, time: int, new: ev.Event) -> None:
        """Something is new: find or make the session that gets it, `new` first."""
        best = max(self.candidates, key=lambda found: (found.common, found.ended), default=None)
        if best is None or best.common == 0:
            started = self.started
            self.store.begin(  # not `create_session`: its parent may come with a later file
                ev.SessionStarted(
                    started.title,
                    started.scope,
                    started.directory,
                    started.agent,
                    started.model,
                    started.parent,
                    started.origin,
                ),
                id=self.free,
                time=time,
            )
            self.chosen = _Candidate(self.store, self.free, snapshots=self._snapshots)
            self.added += 1
            self.head = 1
            return
        if not best.ended:
            at = best.version(best.common)
            info = self.store.info(best.name)
            event = ev.SessionForked(info.id, at, b"", info.title, info.scope, self.started.origin)
            _fork(best.session(), event, self.free, time)
            shifts, best = [*best.shifts, best.common], _Candidate(self.store, self.free, snapshots=self._snapshots)
            best.shifts = shifts
            self.added += 1
        self.chosen = best
        self.head = self.store.info(best.name).version
        self.items.append((time, best.translate(new)))

    def settled(self, version: int) -> tuple[_Candidate, int]:
        """What holds everything so far, and what the file's version is there."""
        self.flush()
        found = self.chosen or next(candidate for candidate in self.candidates if candidate.agrees)
        return found, found.version(version)

    def finish(self) -> None:
        """Append what is waiting, and of the snapshot what is not what was last said.

        A file that is shorter than what is stored is an older one, or, if its snapshot is newer, one that lost its end: a fork.
        """
        self.flush()
        if not self.snapshot:
            return
        agreeing = [found for found in self.candidates if found.agrees]
        found = self.chosen or next((found for found in agreeing if found.at_end()), None)
        if found is None:
            if all(_is_tail(event) for _, event in self.snapshot):
                return
            if self.snapshot[0][0] <= max(found.told() for found in agreeing):
                return
            self._choose(*self.snapshot[0])
            found = self.chosen
            assert found is not None
        latest = {_about(event): event for event in _stored(self.store, found.name) if _is_snapshot(event)}
        self.items = [(time, event) for time, event in self.snapshot if latest.get(_about(event)) != event]
        if self.items:
            self.chosen = found
            self.head = self.store.info(found.name).version
            self.flush()

    def flush(self) -> None:
        """Append what is waiting."""
        if not self.items:
            return
        assert self.chosen is not None
        committed = self.chosen.session().append(self.items, bodies=self.bodies, expected_version=self.head)
        self.head = committed.last
        self.added += len(self.items)
        self.items, self.bodies, self.weight = [], {}, 0
