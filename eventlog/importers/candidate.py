"""Comparison of a stored session with a file's, event by event.

How calls and messages end follows from the records, and older versions of this program derived it
differently: they dropped a result that stands before its call, for one.  So in the formats that
store a remainder for each record, these endings may stand in other places or be missing.  An ending
that the file has and the store lacks is *owed*, and appended at the end.  All other events must be
equal, one by one; of a record's remainder all but the indexes of the events with its texts.

Versions in the file's events are those of an import into an empty session; `version` translates
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec

from eventlog import events as ev
from eventlog.codec.bodies import body_text
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import NotFoundError
from eventlog.history.streams import ancestry, spans
from eventlog.importers.common.json_lines import is_array
from eventlog.importers.event_jsonl.format import bodies_of
from eventlog.session.session import Session
from eventlog.state.state import State
from eventlog.store import Store
from eventlog.values import Content

__all__ = ["SNAPSHOT", "Candidate", "Timed", "is_snapshot", "stored_events"]

SNAPSHOT = (ev.SessionRenamed, ev.SessionArchived, ev.ForeignKept)
"""Events that `ImportBatch.snapshot` may hold; the remainders of records are history."""

ENDINGS = (ev.ToolCompleted, ev.ToolFailed, ev.ToolProgress, ev.StepFinished, ev.MessageFinished, ev.TodosSet)
"""Endings of calls, steps and messages; progress of calls, and lists their results set."""

Timed: TypeAlias = tuple[int, ev.Event]


class Candidate:
    """One stored session, compared with the file's."""

    def __init__(self, store: Store, name: str, *, snapshots: bool) -> None:
        self.store = store
        self.name = name
        self._snapshots = snapshots
        self._session: Session | None = None
        self._stored = stored_events(store, name)
        self._ahead: ev.Event | None = None
        """Next stored event, once `_peek` has read it."""
        self.common = 0
        """Number of the file's events that agree, those in `gap` included."""
        self.moves: list[tuple[int, int]] = []
        """(version, by): the file's versions from this one on are so much greater here."""
        self.agrees = True
        self.ended = False
        self.base = 0
        """Number of stored versions that agree: where a fork would begin."""
        self.read = 0
        """Number of stored versions that were read: where an append to all of them goes on."""
        self.gap: list[Timed] = []
        """Endings of the file since the last event that agrees; the store may have others."""
        self.bodies: dict[bytes, bytes] = {}
        """Packed bodies that `gap` and `owed` refer to."""
        self.owed: dict[object, Timed] = {}
        """Endings of the file that are not stored in their place, by what they end.

        Some may be stored behind it, where a rollback may hide them again. So the session's state
        says which are missing.
        """
        self._extra: dict[object, ev.Event] = {}
        """Endings that only the store has, by what they end."""

    def session(self) -> Session:
        """Open the session, which loads its state; only for writing."""
        if self._session is None:
            self._session = self.store.session(self.name)
        return self._session

    # -- comparing -------------------------------------------------------------------------------

    def compare(self, time: int, event: ev.Event, bodies: Mapping[bytes, bytes]) -> None:
        """Compare the file's next event; `bodies` has the bodies it refers to."""
        stored = self._peek()
        if not self.gap and stored is not None and _comparable(self.translate(event)) == _comparable(stored):
            self._agree()
            return
        if self._may_differ(event) and stored is not None:
            self.gap.append((time, event))
            self.bodies.update((body.digest, bodies[body.digest]) for body in bodies_of(event) if body.digest in bodies)
            self.common += 1
            return
        extra = self._drain()
        stored = self._peek()
        if stored is not None:
            before = len(self.moves)
            self.move(self.common, len(extra) - len(self.gap))
            if self._same(self.translate(event), stored, bodies):
                self._note_endings(*self._unequal(extra))
                self._agree()
                return
            del self.moves[before:]
        else:
            left, extra = self._unequal(extra)
            self.move(self.common, len(extra))
            self._note_endings([], extra)
            self.gap = left
        self.agrees = False
        self.ended = stored is None

    def finish(self) -> None:
        """End the comparison: the file has no more events."""
        self._note_endings(*self._unequal(self._drain()))

    def _agree(self) -> None:
        self._ahead = None
        self.common += 1
        self.base = self.read

    def _may_differ(self, event: ev.Event) -> bool:
        return not self._snapshots and isinstance(event, ENDINGS)

    def _drain(self) -> list[ev.Event]:
        """Remove and return the endings that are stored next."""
        found: list[ev.Event] = []
        while (stored := self._peek()) is not None and self._may_differ(stored):
            found.append(stored)
            self._ahead = None
        return found

    def _unequal(self, extra: list[ev.Event]) -> tuple[list[Timed], list[ev.Event]]:
        """Return the endings that only the file has, and those that only the store has."""
        said = [event for _, event in self.gap]
        return [timed for timed in self.gap if timed[1] not in extra], [
            stored for stored in extra if stored not in said
        ]

    def _note_endings(self, said: list[Timed], extra: list[ev.Event]) -> None:
        self.gap = []
        for stored in extra:
            about = _subject(stored)
            owed = self.owed.get(about)
            if owed is None or (_is_interruption(stored) and not _is_interruption(owed[1])):
                self._extra[about] = stored
            elif owed[1] != stored:
                del self.owed[about]
        for time, event in said:
            about = _subject(event)
            stored_one = self._extra.get(about)
            if stored_one is None or (_is_interruption(stored_one) and not _is_interruption(event)):
                self.owed[about] = (time, event)
            else:
                del self._extra[about]

    def _same(self, event: ev.Event, stored: ev.Event, bodies: Mapping[bytes, bytes]) -> bool:
        if _comparable(event) == _comparable(stored):
            return True
        if not isinstance(event, ev.ForeignKept) or not isinstance(stored, ev.ForeignKept) or self._snapshots:
            return False
        if event.of != stored.of or not event.of.startswith("line:") or event.of.count(":") > 1:
            return False
        return _parse_remainder(self._text(event.data, bodies)) == _parse_remainder(self._text(stored.data, {}))

    def _text(self, content: Content, bodies: Mapping[bytes, bytes]) -> str:
        packed = None if isinstance(content, str) else bodies.get(content.digest)
        if isinstance(content, str) or packed is None:
            return self.store.text(content, self.name)
        return body_text(content, packed)

    def at_end(self) -> bool:
        """Whether nothing is stored beyond what was compared."""
        return self._peek() is None

    def snapshot_time(self) -> int:
        """Return the time of the newest snapshot, in UTC milliseconds."""
        stored = spans(self.store.log, ancestry(self.store.log, self.name), 0, self.store.info(self.name).version)
        return max(
            (span.time for span in stored if isinstance(span.item, SNAPSHOT) and is_snapshot(span.item)), default=0
        )

    def _peek(self) -> ev.Event | None:
        """Return the next stored event without consuming it."""
        while self._ahead is None:
            stored = next(self._stored, None)
            if stored is None:
                return None
            self.read += 1
            if isinstance(stored, ev.SessionForked) or (self._snapshots and is_snapshot(stored)):
                self.move(self.common + 1, 1)
            else:
                self._ahead = stored
        return self._ahead

    # -- appending -------------------------------------------------------------------------------

    def version(self, version: int) -> int:
        """Return the stored version of the file's version."""
        return version + sum(by for since, by in self.moves if since <= version)

    def move(self, since: int, by: int) -> None:
        """Note that the file's versions from `since` on are `by` greater here."""
        if by:
            self.moves.append((since, by))

    def translate(self, event: ev.Event) -> ev.Event:
        """Return the event with stored versions."""
        if self.moves and isinstance(event, ev.RolledBack):
            return ev.RolledBack(self.version(event.to))
        return event

    def has(self, event: ev.Event) -> bool:
        """Whether a file's event that comes now is stored in another place: endings only."""
        stored = self._extra.get(_subject(event)) if self._extra and isinstance(event, ENDINGS) else None
        return stored is not None and (not _is_interruption(stored) or _is_interruption(event))

    def inherit(self, other: Candidate) -> None:
        """Begin as a fork of `other` at the last event that agrees.

        The file's next event comes at the fork's head.
        """
        agreed = other.common - len(other.gap)
        self.common, self.gap, self.bodies = other.common, other.gap, other.bodies
        self.owed, self._extra = other.owed, other._extra
        self.moves = [(since, by) for since, by in other.moves if since <= agreed]
        self.move(agreed + 1, 1)

    def owing(self, session: Session) -> list[Timed]:
        """Return the owed endings that a session's effective history still lacks."""
        if not self.owed:
            return []
        with session.reader.deciding() as state:
            return [(time, event) for time, event in self.owed.values() if _is_open(state, event)]


def stored_events(store: Store, name: str) -> Iterator[ev.Event]:
    """Yield the events of a session, inherited ones included."""
    for span in spans(store.log, ancestry(store.log, name), 0, store.info(name).version):
        if isinstance(span.item, DeltaRun):
            yield from span.item.deltas()
        else:
            yield span.item


def is_snapshot(event: ev.Event) -> bool:
    """Whether the event may be of a snapshot, in a format that has them."""
    return isinstance(event, SNAPSHOT) and not (isinstance(event, ev.ForeignKept) and event.of.startswith("line"))


def _comparable(event: ev.Event) -> ev.Event:
    """Return the event without fields in which two imports of one session may differ."""
    if isinstance(event, ev.SessionStarted) and event.origin is not None:
        origin = msgspec.structs.replace(event.origin, path="")
        return msgspec.structs.replace(event, origin=origin, parent=None)
    return event


def _parse_remainder(data: str) -> object:
    """Parse a record's remainder, without the indexes of the events that have its texts."""
    rest, moved = json.loads(data)
    return rest, [(path, field) for path, (_, field) in moved] if is_array(moved) else moved


def _subject(event: ev.Event) -> object:
    """Return what an ending ends: a call, a step or a message."""
    match event:
        case ev.ToolCompleted() | ev.ToolFailed():
            return "call", event.part
        case ev.StepFinished():
            return "step", event.part
        case ev.MessageFinished():
            return "message", event.message
        case _:
            return event


def _is_interruption(event: ev.Event) -> bool:
    return isinstance(event, ev.ToolFailed) and event.interrupted


def _is_open(state: State, event: ev.Event) -> bool:
    """Whether what an ending ends is effective, and has no end but an interruption.

    Never for progress, which is over, and for todos, which newer ones may have replaced.
    """
    try:
        if isinstance(event, (ev.ToolCompleted, ev.ToolFailed)):
            status = state.status(state.part(event.part))
            return status == "running" or (status == "interrupted" and not _is_interruption(event))
        if isinstance(event, ev.StepFinished):  # its id cannot be used again, even when a rollback hides it
            return event.message in state.open_messages() and not state.has_part(event.part)
        if isinstance(event, ev.MessageFinished):
            return event.message in state.open_messages()
    except NotFoundError:
        return False
    return False
