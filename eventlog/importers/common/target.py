"""One session of a file, and the session in the store that gets what is new of it.

Stored sessions that may be the file's are compared with it at once, event by event:

* the file ends while one still agrees: nothing is new;
* one has agreed to its end: the rest is appended to it;
* none agrees to its end: the one that agrees longest is forked at the last common version, and the
  fork gets the rest, but no usage of a call that one of them has: a call is counted once.

What a redacted part has in the file is neither compared nor appended.

Appends are at the version that was compared, and wait for none before them until `settle`. Another
import that comes between is a `ConflictError`; behind `finish`, what it appended is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import TypeAlias, cast

from eventlog import events as ev
from eventlog.append.bulk import BulkAppender
from eventlog.codec.decoded import Recorded
from eventlog.codec.redaction import blank, bodies_of, untitled
from eventlog.errors import AlreadyExistsError, ArgumentValueError, CallError, ConflictError, NotFoundError
from eventlog.errors.base import brief
from eventlog.history.ancestry import forked_from
from eventlog.history.catalog import TITLES, SessionInfo, entry_of
from eventlog.importers.common.candidate import BEGINNING, Candidate, Comparable, Place, repeated, subject_of
from eventlog.importers.common.importer import Report, bounded_id
from eventlog.session.session import Session
from eventlog.session_store import begin_session
from eventlog.store import Store

BATCH_EVENTS = 1_000
BATCH_BYTES = 4 * 1024 * 1024
_ENDS = (ev.StepFinished, ev.MessageFinished, ev.ForeignKept)
"""Events that are others once a later document has more of their message."""

Timed: TypeAlias = tuple[int, ev.Event]
"""UTC milliseconds and the event."""


class Target:
    """One of the file's sessions, and the stored sessions it is compared with.

    `is_same` says which sessions of its name are compared, `comparable` what of their events.
    Stored events of the types `beside` may stand between the file's.
    """

    def __init__(
        self,
        store: Store,
        wanted: str,
        report: Report,
        is_same: Callable[[SessionInfo], bool],
        comparable: Comparable,
        *,
        place: Place = BEGINNING,
        beside: tuple[type[ev.Base], ...] = (),
    ) -> None:
        self.store = store
        self.wanted = wanted
        self.report = report
        self.place = place
        self.snapshot: list[Timed] | None = None
        self._beside = beside
        self._comparable = comparable
        self._redacted: frozenset[str] = frozenset()
        """Parts that are redacted in one of the sessions, or where it was forked from."""
        self.free: str
        taken, self.free = taken_and_free(store, wanted)
        self.candidates: list[Candidate] = [self._candidate(info.id) for info in taken if is_same(info)]
        self._look_for_redactions()
        self.chosen: Candidate | None = None
        """Session that gets the events, once something is new."""
        self._items: list[Timed] = []
        self._bodies: dict[bytes, bytes] = {}
        self._weight = 0
        self._head = 0
        self._taken = 0
        """Number of the file's events so far, those that wait included."""
        self._bulk: BulkAppender | None = None
        self._is_bulk = True
        self._spent: set[ev.Event] = set()
        """Usages that sessions of the file have: a fork of one has none of them again."""
        self._compacted: list[ev.Event] = []
        """Compactions that were completed since `finish`."""

    def _candidate(self, name: str) -> Candidate:
        def comparable(time: int, event: ev.Event) -> object:
            return self._comparable(time, self._shown(event))

        return Candidate(self.store, name, self.place, comparable, self._beside)

    def _look_for_redactions(self) -> None:
        heads = (head for found in self.candidates for head, _ in forked_from(self.store.log, found.name))
        self._redacted = frozenset(part for head in heads for part in entry_of(head).redacted)

    def _shown(self, event: ev.Event) -> ev.Event:
        """Return the event without the content of redacted parts, and without a redacted title."""
        if not self._redacted:
            return event
        shown = untitled(event) if TITLES in self._redacted else event
        return cast("ev.Event", blank(shown, self._redacted, digests=True))

    def require_scope(self, scope: str | None) -> None:
        """Raise `ArgumentValueError` if a stored session that is compared has another scope."""
        require_scope(self.store, [found.name for found in self.candidates], scope)

    def _once(self, event: ev.Event) -> ev.Event:
        """Return the event, without a usage that another session of the file has."""
        return repeated(event) if isinstance(event, ev.UsageRecorded) and event in self._spent else event

    def found(self) -> Candidate | None:
        """Return the session that holds everything so far, None if none does."""
        return self.chosen or next((found for found in self.candidates if found.agrees and found.common), None)

    def name(self) -> str:
        """Return the session's id in the store, as far as it is known."""
        found = self.found()
        return self.wanted if found is None else found.name

    # -- events ------------------------------------------------------------------------------------

    def add(
        self, items: Sequence[Timed], bodies: Mapping[bytes, bytes], weight: int, snapshot: list[Timed] | None = None
    ) -> None:
        """Compare or append some events; `weight` is that of their bodies."""
        self.snapshot = snapshot
        self._hold(bodies, [*items, *(snapshot or ())])
        self._weight += weight
        self._add(items, BATCH_EVENTS)
        if self.chosen is None and not snapshot:
            self._bodies, self._weight = {}, 0  # all of it is stored
        elif self._weight >= BATCH_BYTES:
            self.flush()

    def add_append(self, items: Sequence[Timed], bodies: Mapping[bytes, bytes], request: str | None) -> None:
        """Compare an append of the file, or append it as one, with its request id if all is new."""
        is_new = self.chosen is not None
        self._hold(bodies, items)
        self._add(items, len(items) + 1)
        self.flush(request if is_new or len(self._items) == len(items) else None)

    def _hold(self, bodies: Mapping[bytes, bytes], items: Sequence[Timed]) -> None:
        """Keep the bodies of these events, but for those that redacted parts alone have."""
        if self._redacted:
            shown = {body.digest for _, event in items for body in bodies_of(self._shown(event))}
            hidden = {body.digest for _, event in items for body in bodies_of(event)} - shown
            bodies = {digest: data for digest, data in bodies.items() if digest not in hidden}
        self._bodies.update(bodies)

    def _add(self, items: Sequence[Timed], most: int) -> None:
        for place, (time, event) in enumerate(items):
            self._taken += 1
            if self.chosen is None:
                if self._agreed(time, event):
                    continue
                if self.snapshot and self._is_older(self.snapshot, items[place:]):
                    self.snapshot = None
                    return
                self._choose(time, event)
            else:
                self._items.append((time, event))
            if len(self._items) >= most:
                self.flush()

    def _agreed(self, time: int, event: ev.Event) -> bool:
        agreeing = [found for found in self.candidates if found.agrees]
        for found in agreeing:
            found.compare(time, event)
        return any(found.agrees for found in agreeing)

    def _best(self) -> Candidate | None:
        """Return the session that agreed longest."""
        return max(self.candidates, key=lambda found: (found.common, found.ended), default=None)

    def _is_older(self, snapshot: list[Timed], rest: Sequence[Timed]) -> bool:
        """Whether a document is older than a session, which has its rest in a completed message."""
        best = self._best()
        if best is None or best.common == 0 or best.ended or snapshot[0][0] >= _newest(best.snapshots()):
            return False
        stored = {self._shown(stored.event) for stored in best.stored(best.base)}
        best.agrees = all(isinstance(event, _ENDS) or self._shown(event) in stored for _, event in rest)
        return best.agrees

    def _choose(self, time: int, new: ev.Event) -> None:
        """Find or make the session that gets the new events, `new` first."""
        best = self._best()
        if best is None or best.common == 0:
            if not isinstance(new, (ev.SessionStarted, ev.SessionForked)):
                raise CallError("a session that does not begin with its first event")
            above = self.store.log.head(new.parent) if isinstance(new, ev.SessionForked) else None
            if above is not None and TITLES in entry_of(above).redacted:
                new = cast("ev.SessionForked", untitled(new))
            begin_free(self.store, new, self.free, time)  # a parent may come with a later file
            self.chosen = self._candidate(self.free)
            self.report.events += 1
            self._head = self.place.after + 1
            return
        self._head = best.read
        if self._beside and (len(self.candidates) > 1 or not best.ended):
            self._spent = {
                stored.event
                for found in self.candidates
                for stored in found.stored(0)
                if isinstance(stored.event, ev.UsageRecorded) and stored.event.message is not None
            }
        if not best.ended:
            info = self.store.info(best.name)
            event = ev.SessionForked(info.id, best.base, b"", info.title, info.scope, info.origin)
            begin_free(self.store, event, self.free, time)
            fork = self._candidate(self.free)
            fork.inherit(best)
            self._head, best = best.base + 1, fork
            self.report.events += 1
        self.chosen = best
        self._items.append((time, new))

    # -- appending ---------------------------------------------------------------------------------

    def flush(self, request: str | None = None) -> None:
        """Append what is waiting."""
        while self._items:
            assert self.chosen is not None
            waiting, self._items = self._items, []
            items = waiting
            if self.chosen.is_shifted:
                items = [(time, self.chosen.translate(event)) for time, event in waiting]
            if self._redacted:
                items = [(time, self._shown(event)) for time, event in items]
            if self._spent:
                items = [(time, self._once(event)) for time, event in items]
            try:
                self._append(self.chosen, items, request)
            except ConflictError:
                if self.snapshot is not None or self._is_bulk:
                    raise
                self._taken -= len(waiting)
                self.go_on()
                self._add(waiting, BATCH_EVENTS)
            else:
                self.report.events += len(items)
        self._bodies, self._weight = {}, 0

    def _append(self, chosen: Candidate, items: list[Timed], request: str | None) -> None:
        session, head = chosen.session, self._head
        if self._is_bulk and self._bulk is None:
            self._bulk = session.executor.bulk(decoded=False)
            if self._bulk is not None and self._bulk.version != head:
                raise ConflictError(session.id, head, self._bulk.version)
        if self._bulk is None:
            committed = session.append(items, bodies=self._bodies, expected_version=head, request_id=request)
            self._head = committed.last
        else:
            self._bulk.append(items, self._bodies, request)
            self._head = self._bulk.version
            self._compacted += [event for _, event in items if type(event) is ev.CompactionCompleted]

    def settle(self) -> None:
        """Make durable what was appended."""
        if self._bulk is not None:
            self._bulk.wait()

    def stored_version(self, version: int) -> tuple[Candidate, int]:
        """Return the session that holds everything so far, and the file's version there."""
        self.flush()
        self.settle()
        found = self.found()
        assert found is not None
        return found, found.version(version)

    def finish(self) -> None:
        """Append what is waiting, and of the snapshot what is not what was last said.

        A file that is shorter than what is stored is an older one, or, if its snapshot is newer,
        one that lost its end: a fork.
        """
        self.flush()
        self.settle()
        if self.snapshot:
            self._add_snapshot(self.snapshot)
            self.settle()
        if self._bulk is not None and self.chosen is not None:
            self.chosen.session.executor.leave_checkpoint(self._compacted)
        self._bulk, self._is_bulk, self._compacted = None, False, []

    def _add_snapshot(self, snapshot: list[Timed]) -> None:
        agreeing = [found for found in self.candidates if found.agrees]
        found = self.chosen or next((found for found in agreeing if found.is_at_end()), None)
        if found is None:
            if snapshot[0][0] <= max((_newest(found.snapshots()) for found in agreeing), default=0):
                return
            self._choose(*snapshot[0])
            found = self.chosen
            assert found is not None
        stored = [self._shown(stored.event) for stored in found.snapshots()]
        latest = {subject_of(event): event for event in stored}
        titles = [event for event in stored if isinstance(event, ev.SessionRenamed)]
        known = [*latest.values(), *titles]  # a title that the file said before may have been changed here
        self._items = [(time, event) for time, event in snapshot if self._shown(event) not in known]
        if self._items:
            self.chosen = found
            self._head = self.store.info(found.name).version
            self.flush()

    def go_on(self) -> None:
        """Compare what follows with what is stored behind what is common so far."""
        if self.chosen is not None:
            self.chosen.common, self.chosen.read, self.chosen.agrees = self._taken, self._head, True
            self.candidates, self.chosen = [self.chosen], None
        self._look_for_redactions()
        for found in self.candidates:
            found.go_on()


def _newest(snapshots: list[Recorded]) -> int:
    """Return the time of the newest one; titles may be given here."""
    return max((stored.time for stored in snapshots if isinstance(stored.event, ev.ForeignKept)), default=0)


def require_scope(store: Store, names: Iterable[str], scope: str | None) -> None:
    """Raise `ArgumentValueError` if one of these sessions has another scope."""
    for info in map(store.info, () if scope is None else names):
        if info.scope != scope:
            raise ArgumentValueError(
                f"session {brief(info.id)} is stored with the scope {brief(info.scope)}, not {brief(scope)}, and a scope "
                "never changes: import the file with that scope, without one, or into another store"
            )


def taken_and_free(store: Store, wanted: str) -> tuple[list[SessionInfo], str]:
    """Return the sessions that have the names of an imported one, and the first free name."""
    taken: list[SessionInfo] = []
    for number in count(1):
        name = wanted if number == 1 else bounded_id(f"{wanted}~{number}")
        try:
            taken.append(store.info(name))
        except NotFoundError:
            return taken, name
    raise AssertionError


def begin_free(store: Store, first: ev.SessionStarted | ev.SessionForked, id: str, time: int) -> Session:
    """Begin a session under a free name; `ConflictError` if another import has it now."""
    try:
        return begin_session(store, first, id=id, time=time)
    except AlreadyExistsError:
        raise ConflictError(id, 0, store.info(id).version) from None
