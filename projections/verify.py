"""Whether a store is sound: every frame and body can be read, versions are contiguous, and replay equals live.

Reading only; nothing is repaired.  What cannot be read is reported with its session and version, and the rest is
still looked at.  Anybody may import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import msgspec

from eventlog.codec import Span
from eventlog.deltas import DeltaRun
from eventlog.errors import DataError, EventlogError
from eventlog.session import Session
from eventlog.store import Store
from eventlog.values import Body
from projections.checkpoints import Checkpoints
from projections.projection import Projection, Source
from projections.replay import Follower, replay

__all__ = ["Problem", "SessionReport", "verify_session", "verify_store"]

S = TypeVar("S")

LOOKS = 8
"""At how many versions of a session the live state is compared with a replay."""


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong; `version` as far as it is known."""

    problem: str
    version: int | None = None


class SessionReport(msgspec.Struct):
    """What was looked at in one session, and what is wrong with it."""

    session: str
    version: int = 0
    events: int = 0
    """Events read, inherited ones included."""
    bodies: int = 0
    """Distinct large texts read and compared with their hash."""
    problems: list[Problem] = msgspec.field(default_factory=list[Problem])

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.problems


def verify_store(store: Store) -> list[str]:
    """Every commit and body of the store, also those that no session leads to: a line for each thing that is wrong."""
    return store.log.check()


def verify_session(
    store: Store, name: str, projections: Sequence[Projection[Any]], told: Callable[[int, int], None] | None = None
) -> SessionReport:
    """Look at one session; `told` hears of every span read: versions done, and all there are."""
    report = SessionReport(name)
    try:
        session = store.session(name)
        report.version = session.version
        _read(store, session, report, told)
        for projection in projections:
            _compare(projection, session, report)
            _checkpoints(projection, session, report)
    except DataError as error:
        report.problems.append(Problem(error.message, error.version))
    except EventlogError as error:
        report.problems.append(Problem(str(error)))
    return report


def _read(store: Store, session: Session, report: SessionReport, told: Callable[[int, int], None] | None) -> None:
    """Read every event and every body they refer to."""
    seen: set[bytes] = set()
    position = 0
    for span in session.spans(upto=report.version):
        if span.first != report.events + 1:
            report.problems.append(Problem(f"version {report.events + 1} is missing", report.events + 1))
        if span.position <= position:
            report.problems.append(Problem(f"position {span.position} does not come after {position}", span.first))
        count = span.last - span.first + 1
        report.events = span.last
        position = span.position + count - 1
        for body in _bodies(span):
            if body.digest not in seen:
                seen.add(body.digest)
                try:
                    store.text(body)
                except DataError as error:
                    report.problems.append(Problem(error.message, span.first))
        if told is not None:
            told(span.last, report.version)
    report.bodies = len(seen)
    if report.events != report.version:
        report.problems.append(
            Problem(f"the session is at version {report.version}, its last event at {report.events}", report.events + 1)
        )


def _bodies(span: Span) -> Iterator[Body]:
    if not isinstance(span.item, DeltaRun):
        yield from _within(span.item)


def _within(value: Any) -> Iterator[Body]:
    if isinstance(value, Body):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _within(getattr(value, name))
    elif isinstance(value, tuple):
        for item in cast("Any", value):
            yield from _within(item)


class _Growing:
    """A session as it was at an earlier version, which can be moved on: what a live reader sees, replayed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.id = session.id
        self.version = 0

    def spans(self, after: int = 0, upto: int | None = None) -> Iterator[Span]:
        """Every event of versions `after + 1 .. upto`."""
        return self._session.spans(after, self.version if upto is None else min(upto, self.version))

    def history(self, at: int | None = None, after: int = 0) -> Iterator[Span]:
        """The effective history right after version `at`."""
        version = self.version if at is None else at
        return self._session.history(version, after) if version else iter(())

    def effective_ranges(self, at: int | None = None) -> list[tuple[int, int]]:
        """The versions of the effective history."""
        version = self.version if at is None else at
        return self._session.effective_ranges(version) if version else []


def _compare(projection: Projection[S], session: Session, report: SessionReport) -> None:
    """Follow the session from its first event as a live reader would, and compare with replays on the way (promise 7)."""
    live = _Growing(session)
    follower = Follower(projection, live)
    for look in range(1, LOOKS + 1):
        live.version = max(report.version * look // LOOKS, 1)
        follower.advance()
        if projection.encode(follower.state) != projection.encode(replay(projection, session, live.version).state):
            report.problems.append(Problem(f"{projection.name}: replay differs from live", live.version))
            return


def _checkpoints(projection: Projection[S], session: Session, report: SessionReport) -> None:
    """Compare every usable checkpoint with a replay from the first event."""
    source: Source = session
    kept = Checkpoints(session.store.log)
    for version, state in kept.valid(projection, source, report.version, report.version):
        if projection.encode(state) != projection.encode(replay(projection, source, version).state):
            report.problems.append(Problem(f"{projection.name}: the checkpoint differs from a replay", version))
