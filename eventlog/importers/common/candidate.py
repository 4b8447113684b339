"""Comparison of a stored session with a file's, event by event.

Versions in the file's events are those of an import into an empty session.  The store has events
between them that the file has not: a fork's own first event, what was noted beside the
conversation, and snapshots, which are compared as a whole.  `Candidate.version` translates
versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.decoded import Recorded
from eventlog.events.message import CORRECTION
from eventlog.history.ancestry import ancestry, spans
from eventlog.history.catalog import QUIET_EVENTS
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Tokens, Usage

BESIDE: tuple[type[ev.Base], ...] = (
    *QUIET_EVENTS,
    ev.Custom,
    ev.InterruptRequested,
    ev.Pinned,
    ev.SettingsSet,
    ev.TodosSet,
    ev.Unpinned,
    ev.UsageRecorded,
)
"""Events that leave a conversation as it was: the file goes on behind them."""

SNAPSHOT = (ev.SessionRenamed, ev.SessionArchived, ev.ForeignKept)
"""Events that `ImportBatch.snapshot` may hold; the remainders of records are history."""

Comparable: TypeAlias = Callable[[int, ev.Event], object]
"""Returns of a time and an event what must be equal in the file and in the store."""


class Place(NamedTuple):
    """Where a session begins: behind a version of the file, and behind one of the store."""

    base: int = 0
    after: int = 0
    inherited: Callable[[int], int] = int
    """Returns the stored version of a version up to `base`."""
    is_shifted: bool = False
    """Whether some stored versions up to there are not those of the file."""


BEGINNING = Place()


class Candidate:
    """One stored session, compared with the file's."""

    def __init__(
        self, store: Store, name: str, place: Place, comparable: Comparable, beside: tuple[type[ev.Base], ...]
    ) -> None:
        """Begin at a place; stored events of the types `beside` may stand between the file's."""
        self.store = store
        self.name = name
        self.place = place
        self._comparable = comparable
        self._beside = beside
        self._events = self.stored(place.after)
        self._shifts: list[int] = []
        """The file's own versions from each of these on are one greater here."""
        self.common: int = 0
        """Number of the file's events that agree."""
        self.base: int = place.after
        """Stored version up to which all agrees: where a fork would begin."""
        self.read: int = place.after
        """Stored version that was read last: where an append to all of them goes on."""
        self.agrees: bool = True
        self.ended: bool = False

    @cached_property
    def session(self) -> Session:
        """The session, which loads its state; only for writing."""
        return self.store.session(self.name)

    @property
    def is_shifted(self) -> bool:
        """Whether some stored versions are not those of the file."""
        return bool(self._shifts) or self.place.is_shifted

    def compare(self, time: int, event: ev.Event) -> None:
        """Compare the file's next event."""
        wanted = self._comparable(time, self.translate(event))
        stored = self._next(wanted)
        if stored == wanted:
            self.common += 1
            self.base = self.read
        else:
            self.agrees = False
            self.ended = stored is None

    def go_on(self) -> None:
        """Compare what follows with what is stored by now, if all has agreed so far."""
        if self.agrees:
            self.base = self.read
            self._events = self.stored(self.read)

    def is_at_end(self) -> bool:
        """Whether nothing is stored beyond what was compared; ends the comparison."""
        return self._next() is None

    def version(self, version: int) -> int:
        """Return the stored version of the file's version."""
        own = version - self.place.base
        if own <= 0:
            return self.place.inherited(version)
        return self.place.after + own + sum(since <= own for since in self._shifts)

    def translate(self, event: ev.Event) -> ev.Event:
        """Return the event with stored versions."""
        if not self.is_shifted:
            return event
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

    def inherit(self, other: Candidate) -> None:
        """Begin as a fork of `other` at the last event that agrees."""
        self._shifts = [*(since for since in other._shifts if since <= other.common), other.common + 1]

    def snapshots(self) -> list[Recorded]:
        """Return the stored snapshots; the latest event about each thing counts."""
        return [stored for stored in self.stored(0) if _is_snapshot(stored.event)]

    def stored(self, after: int) -> Iterator[Recorded]:
        """Yield the events of the session after a version, inherited ones included."""
        log = self.store.log
        for span in spans(log, ancestry(log, self.name), after, self.store.info(self.name).version):
            yield from span.events()

    def _next(self, wanted: object = None) -> object:
        """Return the next stored event that is `wanted`, or that the file has to have, too."""
        for stored in self._events:
            self.read += 1
            event, found = stored.event, self._comparable(stored.time, stored.event)
            is_own = isinstance(event, ev.SessionForked) and self.common > 0
            if isinstance(wanted, ev.UsageRecorded) and found == repeated(wanted):
                return wanted
            if found == wanted or not (is_own or (isinstance(event, self._beside) and not _is_record(event))):
                return found
            self._shifts.append(self.common + 1)
        return None


def repeated(event: ev.UsageRecorded) -> ev.UsageRecorded:
    """Return the usage of a call that another session of the file has: nothing more."""
    return replace(event, usage=Usage(Tokens(), Decimal(0)), purpose=CORRECTION, failed=False)


def subject_of(event: ev.Event) -> tuple[type, str]:
    """Return what a snapshot's event is about; only the latest about one thing counts."""
    return type(event), event.of if isinstance(event, ev.ForeignKept) else ""


def _is_snapshot(event: ev.Event) -> bool:
    """Whether the event may be of a snapshot, in a format that has them."""
    return isinstance(event, SNAPSHOT) and not _is_record(event)


def _is_record(event: ev.Event) -> bool:
    return isinstance(event, ev.ForeignKept) and event.of.startswith("line")
