"""A session that people look at, and what is kept of it meanwhile: bounded, disposable.

A page of it has everything that was said. A transcript has the effective messages: those that a
rollback hides are read as the transcript of the moment before it, and stand where they were said.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from itertools import islice, pairwise
from threading import Lock, RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from eventlog.session.status import state_of
from projections.inspector.catalogue import Query
from projections.inspector.history import History
from projections.inspector.large_text import MOST, beginnings
from projections.inspector.window_series import WindowSeries
from projections.replay.checkpoints import Checkpoints
from projections.reports.audit import audit, audited_step
from projections.server.live_pages import number
from projections.transcript.message import TranscriptMessage
from projections.transcript.transcript import Transcript
from projections.view.options import DEFAULT
from projections.view.targets import PROJECTION, TargetFollower, state_for

if TYPE_CHECKING:
    from eventlog import Store
    from eventlog.codec.decoded import Recorded
    from eventlog.session.session import Session
    from projections.conversation.state import Conversation
    from projections.reports.audit import AuditedStep
    from projections.reports.step_requests import StepRequest

_ROOMS = 8
"""Sessions of which it is kept what was read."""
_COUNTED = 100
"""Sessions of which it is kept what was counted."""
_STATES = 2
"""States of earlier versions that are kept of each."""
_SLICE = 0.3
"""Seconds of checking requests, until the page asks for more."""
_NEAR = 50_000
"""Events whose replay a page waits for."""
_READERS = 4
"""Readers of a transcript that wait for their next page."""


class Told(NamedTuple):
    """A message, and the version as of which it was read."""

    message: TranscriptMessage
    at: int
    hidden: bool
    """Whether a rollback hides it."""


class Room:
    """One session: its handle, its history, states that were asked for.  Take `lock` first."""

    def __init__(self, store: Store, session: str) -> None:
        self.session: Session = store.session(session)
        self.lock: RLock = RLock()
        self.series: WindowSeries | None = None
        self.report_lock: RLock = RLock()
        self.report: tuple[object, dict[str, Any]] | None = None
        """The newest report on the window, and of which version and what was `gone`."""
        self.verdicts: Counter[str] = Counter()
        """How many requests match their digests, and how many do not, of those checked so far."""
        self._audit: Iterator[AuditedStep] | None = None
        self._history = self._new_history()
        self._gone: object = None
        """All that was `gone` when it was looked at last."""
        self._follower: TargetFollower | None = None
        self._states: OrderedDict[int, Conversation] = OrderedDict()
        self._readers: OrderedDict[tuple[int, int], Iterator[Told]] = OrderedDict()
        self._request: tuple[object, tuple[AuditedStep, StepRequest | None]] | None = None

    @property
    def history(self) -> History:
        """The history up to now."""
        self._history.catch_up(self.session)
        return self._history

    def _new_history(self) -> History:
        return History(self.session.store.host.models)

    def gone(self) -> object:
        """Return the records forgotten and the parts redacted by now, inherited ones included."""
        return self.session.reader.forgotten(), self.session.reader.redactions()

    def refresh(self) -> None:
        """Let go of all that has in it what was redacted or forgotten since it was read."""
        gone = self.gone()
        if gone != self._gone:
            self.rest()
            self.series, self.verdicts = None, Counter()
        self._gone = gone

    def rest(self) -> None:
        """Let go of all that was read of the session; what was counted stays."""
        self._history, self._follower, self._request, self._audit = self._new_history(), None, None, None
        self._states.clear()
        self._readers.clear()
        if self.series is not None and self.series.left:
            self.series = None

    def is_far(self) -> bool:
        """Whether the newest state takes a long replay: no checkpoint of it is near."""
        if self._follower is not None:
            return self.session.version - self._follower.version > _NEAR
        versions = Checkpoints(self.session.store.log).versions(PROJECTION, self.session.reader)
        return self.session.version - max(versions, default=0) > _NEAR

    def is_run(self) -> bool:
        """Whether a task runs the session, of any process."""
        store, head = self.session.store, self.session.store.log.head(self.session.id)
        return head is not None and state_of(store.registry, head, self.session.info) == "running"

    def redacted(self) -> set[str]:
        """The parts that must not be shown, inherited ones included."""
        return set(self.session.reader.redactions())

    def asked(self, query: Query, name: str = "at", default: int | None = None) -> int:
        """Return the version that a query names; by default the newest."""
        newest = self.session.version
        return number(query, name, default or newest, least=1, most=newest)

    def recorded(self, version: int) -> Recorded:
        """The event of a version."""
        return next(iter(self.session.events(after=version - 1, upto=version)))

    def state(self, at: int | None = None) -> Conversation:
        """The conversation behind the model's view right after a version, by default now."""
        if at is None or at == self.session.version:
            if self._follower is None:
                self._follower = TargetFollower(self.session.reader, Checkpoints(self.session.store.log))
            return self._follower.advance(DEFAULT)
        state = self._states.get(at)
        if state is None:
            state = self._states[at] = state_for(self.session, at, DEFAULT).state
            if len(self._states) > _STATES:
                self._states.popitem(last=False)
        self._states.move_to_end(at)
        return state

    def check(self) -> int:
        """Check the requests of more steps, for a fraction of a second; return how many are."""
        checked, steps, end = self.verdicts.total(), len(self.history.steps), monotonic() + _SLICE
        while checked < steps:
            step = next(self._audit, None) if self._audit is not None else None
            if step is None:  # none yet, or there were fewer steps when it began
                self._audit = audit(self.session, checked + 1, steps)
                step = next(self._audit)
            self.verdicts[step.verdict] += 1
            checked += 1
            if monotonic() > end:
                break
        return checked

    def request(self, number: int) -> tuple[AuditedStep, StepRequest | None]:
        """One step and its request; that of the last call is kept for its pages."""
        key = (number, self.session.version)
        if self._request is None or self._request[0] != key:
            self._request = key, audited_step(self.session, number)
        return self._request[1]

    def page(self, at: int, before: int | None, size: int) -> list[Told]:
        """The newest messages as of a version that began before another.

        The reader waits for the page after it, so that pages in order cost what they have.
        """
        reader = self._readers.pop((at, before), None) if before is not None else None
        if reader is None:
            reader = self._told((0, at), before or at + 1, hidden=False)
        found = list(islice(reader, size))
        if len(found) == size:
            self._readers[at, found[-1].message.version] = reader
            if len(self._readers) > _READERS:
                self._readers.popitem(last=False)
        return found

    def _told(self, within: tuple[int, int], before: int, *, hidden: bool) -> Iterator[Told]:
        """Yield the messages of these versions that began before a version, newest first."""
        low, at = within
        gaps = _gaps(self.session.reader.effective_ranges(at), low, at)
        gaps = [gap for gap in gaps if gap[0] < before and self.history.begins_within(*gap)]

        def filled(version: int) -> Iterator[Told]:
            while gaps and gaps[-1][0] > version:
                first, last = gaps.pop()
                yield from self._told((first - 1, last), min(before, last + 1), hidden=True)

        for message in Transcript(self.session, at, texts=beginnings(self.session, MOST)).newest_first(before):
            yield from filled(message.version)
            if message.version <= low:
                return
            yield Told(message, at, hidden)
        yield from filled(low)


def _gaps(ranges: list[tuple[int, int]], low: int, at: int) -> list[tuple[int, int]]:
    """Return the versions after `low` and up to `at` that are in no range.

    A gap that is all of them was forgotten: the events before a rollback end with its own range.
    """
    edges = [(low, low), *((first, last) for first, last in ranges if last > low), (at + 1, at + 1)]
    found = [(last + 1, first - 1) for (_, last), (first, _) in pairwise(edges) if last + 1 < first]
    return [gap for gap in found if gap != (low + 1, at)]


class Rooms:
    """The rooms that were entered last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._rooms: OrderedDict[str, Room] = OrderedDict()

    def enter(self, session: str) -> Room:
        """Return the room of a session; `NotFoundError` if there is none, or it was erased."""
        self._store.session(session)
        with self._lock:
            room = self._rooms.get(session)
            is_new = room is None
            if room is None:
                room = self._rooms[session] = Room(self._store, session)
                if len(self._rooms) > _COUNTED:
                    self._rooms.popitem(last=False)
            self._rooms.move_to_end(session)
            others = [*islice(reversed(self._rooms.values()), _ROOMS, None)] if is_new else []
        for other in others:
            if other.lock.acquire(blocking=False):  # else it is in use
                try:
                    other.rest()
                finally:
                    other.lock.release()
        return room
