"""Appends of our own event JSONL into a store: ids, times, versions and appends as they were, forks as forks.

A session is looked for under its own id (spec §13: a given session id is an identity), then under `ID~2`, `ID~3` …, which hold what
diverged.  What is stored already is compared event by event, times included:

* the file's stream ends while one still agrees: nothing is new;
* one has agreed to its end: the rest is appended to it;
* none agrees to its end: the one that agrees longest is forked at the last common version, and the fork gets the rest.  A fork's own
  first event shifts the later versions, so events that speak of versions are translated.

What the session's rules refuse is reported with its line, and ends that session.  Not here: reading the file (`format.py`),
foreign formats (`importers/reconcile.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.errors import CallError, NotFoundError, brief
from eventlog.importers.common.importer import Piece, Report, bounded_id
from eventlog.importers.event_jsonl.format import Restored
from eventlog.integrity.fork_anchor import portable
from eventlog.session.session import Session
from eventlog.store import Store, begin_session

__all__ = ["place"]


def place(store: Store, pieces: Iterable[Piece], report: Report) -> None:
    """Put what is new of the pieces into the store; `report` gets the sessions and the number of events added."""
    streams: dict[str, _Stream] = {}
    refused: set[str] = set()
    for piece in pieces:
        assert isinstance(piece, Restored)
        if piece.session in refused:
            continue
        try:
            stream = streams.get(piece.session)
            if stream is None:
                stream = streams[piece.session] = _begun(store, piece, streams)
            stream.take(piece)
        except CallError as error:
            report.skip(piece.line, f"{error}; the rest of session {brief(piece.session)} is not imported")
            refused.add(piece.session)
    report.sessions = [stream.stored().id for stream in streams.values() if stream.known]
    report.events = sum(stream.added for stream in streams.values())


class _Candidate:
    """A stored session that may be the file's, compared as far as it agrees; `after` is where its own versions begin."""

    def __init__(self, session: Session, stream: _Stream) -> None:
        self.session = session
        self.stream = stream
        self.recorded = session.events(stream.after)
        self.common = 0
        """How many of the stream's events agree."""
        self.shifts: list[int] = []
        """After how many of them the stored history has a fork's first event."""
        self.agrees = True
        self.ended = False

    def compare(self, time: int, event: ev.Event) -> None:
        """Take in the stream's next event."""
        found = next(self.recorded, None)
        while found is not None and self.common and isinstance(found.event, ev.SessionForked):
            self.shifts.append(self.common)
            found = next(self.recorded, None)
        if found is not None and (found.time, portable(found.event)) == (time, self.translate(event)):
            self.common += 1
            return
        self.agrees = False
        self.ended = found is None

    def version(self, version: int) -> int:
        """The stored version of one of the file's."""
        own = version - self.stream.base
        if own <= 0:
            return self.stream.inherited(version)
        return self.stream.after + own + sum(shift < own for shift in self.shifts)

    def translate(self, event: ev.Event) -> ev.Event:
        """The event with stored versions in it."""
        if isinstance(event, ev.RolledBack):
            return replace(event, to=self.version(event.to))
        if isinstance(event, ev.StepStarted) and event.view_version:
            return replace(event, view_version=self.version(event.view_version))
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
        """The same in the store."""
        self.free = ""
        self.candidates: list[_Candidate] = []
        self.chosen: _Candidate | None = None
        self.head = 0
        self.added = 0
        for wanted, session in _chain(store, name):
            if session is None:
                self.free = wanted
            elif session.version > after:
                self.candidates.append(_Candidate(session, self))

    @property
    def known(self) -> bool:
        """Whether the stream is in the store."""
        return self.chosen is not None or any(found.agrees and found.common for found in self.candidates)

    def stored(self) -> Session:
        """The session that holds the stream so far."""
        return self._best().session

    def inherited(self, version: int) -> int:
        """The stored version of one that the stream inherits."""
        return self.parent.version(version) if isinstance(self.parent, _Stream) else version

    def version(self, version: int) -> int:
        """The stored version of one of the file's."""
        return self._best().version(version)

    def _best(self) -> _Candidate:
        if self.chosen is not None:
            return self.chosen
        return next(found for found in self.candidates if found.agrees and found.common)

    def take(self, piece: Restored) -> None:
        """Compare or append."""
        place = 0
        if self.chosen is None:
            while place < len(piece.items) and self._agreed(*piece.items[place]):
                place += 1
            if place == len(piece.items):
                return
            place += self._choose(*piece.items[place])
        assert self.chosen is not None
        items = [(time, self.chosen.translate(event)) for time, event in piece.items[place:]]
        if items:
            session = self.chosen.session
            request = None if place else piece.request
            committed = session.append(items, bodies=piece.bodies, expected_version=self.head, request_id=request)
            self.head = committed.last
            self.added += len(items)

    def _agreed(self, time: int, event: ev.Event) -> bool:
        agreeing = [found for found in self.candidates if found.agrees]
        for found in agreeing:
            found.compare(time, self._here(event))
        return any(found.agrees for found in agreeing)

    def _choose(self, time: int, event: ev.Event) -> int:
        """Something is new: find or make the session that gets it; returns how many events that took."""
        best = max(self.candidates, key=lambda found: (found.common, found.ended), default=None)
        if best is None or not best.common:
            session = self._create(time, self._here(event))
            self.chosen = _Candidate(session, self)
            self.head = session.version
            self.added += 1
            return 1
        if not best.ended:
            at = self.after + best.common + len(best.shifts)
            info = best.session.info
            forked = ev.SessionForked(best.session.id, at, b"", info.title, info.scope, info.origin)
            session = begin_session(self.store, forked, id=self.free, time=time)
            shifts = [*best.shifts, best.common]
            best = _Candidate(session, self)
            best.shifts = shifts
            self.added += 1
        self.chosen = best
        self.head = best.session.version
        return 0

    def _create(self, time: int, event: ev.Event) -> Session:
        if isinstance(event, (ev.SessionStarted, ev.SessionForked)):
            return begin_session(self.store, event, id=self.free, time=time)
        raise CallError("a session that does not begin with its first event")

    def _here(self, event: ev.Event) -> ev.Event:
        """The event with its parent's name and version in this store."""
        if not isinstance(event, ev.SessionForked) or self.parent is None:
            return event
        parent = self.parent.stored() if isinstance(self.parent, _Stream) else self.parent
        return replace(portable(event), parent=parent.id, at=self.inherited(event.at))


def _begun(store: Store, piece: Restored, streams: dict[str, _Stream]) -> _Stream:
    """The stream that a session's first append begins."""
    event = piece.items[0][1]
    if not isinstance(event, ev.SessionForked):
        if piece.first != 1:
            raise CallError(f"a session that begins at version {piece.first} and is no fork")
        return _Stream(store, piece.session, 1, None, 0)
    parent = streams.get(event.parent)
    if event.at != piece.first - 1:
        raise CallError(f"a fork at version {event.at} that begins at version {piece.first}")
    if parent is None:
        return _Stream(store, piece.session, piece.first, store.session(event.parent), event.at)
    if not parent.known:
        raise NotFoundError("session", event.parent)
    return _Stream(store, piece.session, piece.first, parent, parent.version(event.at))


def _chain(store: Store, wanted: str) -> Iterator[tuple[str, Session | None]]:
    """The names a session may have here, each with what has it; the last one is free."""
    for number in count(1):
        name = wanted if number == 1 else bounded_id(f"{wanted}~{number}")
        try:
            session = store.session(name)
        except NotFoundError:
            yield name, None
            return
        yield name, session
