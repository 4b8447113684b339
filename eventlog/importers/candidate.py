"""Comparison of a stored session with a file's, event by event.

Versions in the file's events are those of an import into an empty session.  The store has events
between them that the file has not: a fork's own first event, and snapshots, which are compared as a
whole.  `Candidate.version` translates versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.decoded import Recorded
from eventlog.history.ancestry import ancestry, spans
from eventlog.session.session import Session
from eventlog.store import Store

__all__ = ["Candidate", "subject_of"]

SNAPSHOT = (ev.SessionRenamed, ev.SessionArchived, ev.ForeignKept)
"""Events that `ImportBatch.snapshot` may hold; the remainders of records are history."""


class Candidate:
    """One stored session, compared with the file's."""

    def __init__(self, store: Store, name: str, *, snapshots: bool) -> None:
        self.store = store
        self.name = name
        self._snapshots = snapshots
        self._events = self._stored()
        self._shifts: list[int] = []
        """The file's versions from each of these on are one greater here."""
        self.common: int = 0
        """Number of the file's events that agree."""
        self.base: int = 0
        """Number of stored versions that agree: where a fork would begin."""
        self.read: int = 0
        """Number of stored versions that were read: where an append to all of them goes on."""
        self.agrees: bool = True
        self.ended: bool = False

    @cached_property
    def session(self) -> Session:
        """The session, which loads its state; only for writing."""
        return self.store.session(self.name)

    def compare(self, event: ev.Event) -> None:
        """Compare the file's next event."""
        stored = self._next()
        if stored is not None and _comparable(self.translate(event)) == _comparable(stored):
            self.common += 1
            self.base = self.read
        else:
            self.agrees = False
            self.ended = stored is None

    def go_on(self) -> None:
        """Compare what follows with what is stored by now, if all has agreed so far."""
        if self.agrees:
            self.base = self.read
            self._events = self._stored(self.read)

    def is_at_end(self) -> bool:
        """Whether nothing is stored beyond what was compared; ends the comparison."""
        return self._next() is None

    def version(self, version: int) -> int:
        """Return the stored version of the file's version."""
        return version + sum(since <= version for since in self._shifts)

    def translate(self, event: ev.Event) -> ev.Event:
        """Return the event with stored versions."""
        return replace(event, to=self.version(event.to)) if isinstance(event, ev.RolledBack) else event

    def inherit(self, other: Candidate) -> None:
        """Begin as a fork of `other` at the last event that agrees."""
        self._shifts = [*(since for since in other._shifts if since <= other.common), other.common + 1]

    def snapshot(self) -> dict[tuple[type, str], Recorded]:
        """Return the newest stored snapshot: the latest event about each thing."""
        return {subject_of(stored.event): stored for stored in self._stored() if _is_snapshot(stored.event)}

    def _stored(self, after: int = 0) -> Iterator[Recorded]:
        """Yield the events of the session after a version, inherited ones included."""
        log = self.store.log
        for span in spans(log, ancestry(log, self.name), after, self.store.info(self.name).version):
            yield from span.events()

    def _next(self) -> ev.Event | None:
        """Return the next stored event that the file may have, too."""
        for stored in self._events:
            self.read += 1
            event = stored.event
            if not isinstance(event, ev.SessionForked) and not (self._snapshots and _is_snapshot(event)):
                return event
            self._shifts.append(self.common + 1)
        return None


def subject_of(event: ev.Event) -> tuple[type, str]:
    """Return what a snapshot's event is about; only the latest about one thing counts."""
    return type(event), event.of if isinstance(event, ev.ForeignKept) else ""


def _is_snapshot(event: ev.Event) -> bool:
    """Whether the event may be of a snapshot, in a format that has them."""
    return isinstance(event, SNAPSHOT) and not (isinstance(event, ev.ForeignKept) and event.of.startswith("line"))


def _comparable(event: ev.Event) -> ev.Event:
    """Return the event without fields in which two imports of one session may differ."""
    if isinstance(event, ev.SessionStarted) and event.origin is not None:
        return replace(event, origin=replace(event.origin, path=""), parent=None)
    return event
