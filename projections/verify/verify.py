"""Whether a store is sound, and still the one whose head was kept.

Everything stored can be read, versions are contiguous, every append is the one that was committed (it is hashed anew, and
compared with the session's hash tree), and bodies are what their hashes say.  Against a kept head: no session is gone, and
the history that each had then is the beginning of today's.  A fork keeps a head of what it inherited, and a scrub of what it left:
these are compared, too.  `deep`: replay equals live, and every checkpoint equals a replay.

Reading only; nothing is repaired.  What cannot be read is reported with its session and version, and the rest is
still looked at.  What forks share is read once (`streams.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from eventlog.codec.decoded import Span, Stretch
from eventlog.codec.payload import is_foreign, is_sealed
from eventlog.errors import DataError, EventlogError, NotFoundError
from eventlog.history.catalog import entry_of
from eventlog.history.streams import ancestry
from eventlog.integrity.heads import SessionHead, StoreHead, session_head
from eventlog.integrity.scrub_ledger import recorded, remains_fault
from eventlog.log.contract import Commit, Head
from eventlog.log.merkle_check import Fault, first_fault
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.validation import require, require_or_none
from projections.replay.checkpoints import Checkpoints
from projections.replay.loop import Follower, hide_inherited, replay
from projections.replay.projection import Projection, Source
from projections.verify.scrubbed import unexplained
from projections.verify.sealed_heads import seal_fault
from projections.verify.streams import Problem, Streams
from projections.verify.tombstones import tombstone_fault

__all__ = ["Problem", "SessionReport", "StoreReport", "verify", "verify_session", "verify_store"]

S = TypeVar("S")

LOOKS = 8
"""At how many versions of a session the live state is compared with a replay."""


class SessionReport(msgspec.Struct):
    """What was looked at in one session, and what is wrong with it."""

    session: str
    version: int = 0
    events: int = 0
    """Events read of its own stream; inherited ones count with the session whose stream has them."""
    bodies: int = 0
    """Distinct large texts that these name, read and compared with their hash."""
    problems: list[Problem] = msgspec.field(default_factory=list[Problem])
    locked: bool = False
    """Whether it is encrypted and its key is not there: its hashes were looked at, and nothing was read.

    Not where its head was changed, so that nobody can say which key would be needed.
    """

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.problems

    @property
    def first_bad(self) -> int | None:
        """The first version that something is wrong with, as far as it is known."""
        return min((found.version for found in self.problems if found.version is not None), default=None)


class StoreReport(msgspec.Struct):
    """What was looked at in a store, and what is wrong with it."""

    problems: list[str] = msgspec.field(default_factory=list[str])
    """What is wrong outside of any session."""
    sessions: list[SessionReport] = msgspec.field(default_factory=list[SessionReport])

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.problems and all(report.sound for report in self.sessions)


def verify(
    store: Store,
    *,
    session: str | None = None,
    against: StoreHead | None = None,
    deep: bool = False,
    telling: Callable[[str], Callable[[int, int], None]] | None = None,
) -> StoreReport:
    """Look at the whole store, or at one session and those it was forked from.

    `against` is a head of this store that was kept elsewhere.  `telling` is given each session's id, and returns whom to tell
    of every span read: versions done, and all there are.  `NotFoundError` if there is no such session, nor was one.
    """
    report = StoreReport(store.log.probe())
    if report.problems:
        return report  # to read on could end this process
    if session is None:
        report.problems += store.log.check()
        names = list(_names(store, report.problems))
    else:
        names = _lineage(store, session, against)
    kept = {} if against is None else against.by_session
    projections = _deep() if deep else []
    streams = Streams(store, names)
    gone = [name for name in kept if name not in set(names) and session is None]
    for name in sorted([*names, *gone]) if session is None else names:
        told = None if telling is None else telling(name)
        report.sessions.append(_session(streams, name, projections, told, kept.get(name)))
    return report


def verify_store(store: Store) -> list[str]:
    """Every commit and body of the store, also those that no session leads to: a line for each thing that is wrong."""
    return store.log.probe() or store.log.check()


def verify_session(
    store: Store,
    name: str,
    projections: Sequence[Projection[Any]] = (),
    told: Callable[[int, int], None] | None = None,
    *,
    kept: SessionHead | None = None,
) -> SessionReport:
    """Look at one session; `told` hears of every span read: versions done, and all there are.

    `projections` are folds whose live state and checkpoints are compared with replays, and with them the checkpoints of
    command state; without any, only what is stored is looked at.  `kept` is an earlier head of the session.
    """
    require(Store, store, "a session is looked at in its Store")
    require(str, name, "an id is a str")
    require_or_none(SessionHead, kept, "a kept head is a SessionHead")
    return _session(Streams(store, [name]), name, projections, told, kept)


def _session(
    streams: Streams,
    name: str,
    projections: Sequence[Projection[Any]],
    told: Callable[[int, int], None] | None,
    kept: SessionHead | None,
) -> SessionReport:
    store, report = streams.store, SessionReport(name)
    head = _try(report, partial(store.log.head, name))
    unsealed = _try(report, partial(seal_fault, store.log.engine, name))
    _add(report, unsealed)
    if head is None:
        if not report.problems and kept is None:
            report.problems.append(Problem("there is no such session"))
        elif not report.problems:
            report.problems.append(Problem("the session is gone, and the kept head has it", 1))
        return report
    _try(report, partial(_tree, store, head, report, kept))
    if is_foreign(head):
        report.version = report.events = head.version
        return report
    if session_head(head).erased:  # a tombstone; of its events only those are there that a fork inherited
        report.version = head.version
        _add(report, _try(report, partial(tombstone_fault, store, head)))
        return report
    if is_sealed(head.entry):
        report.version, report.locked = head.version, unsealed is None
        return report
    if head.gone:
        report.problems.append(Problem("the events are gone, and the session was not erased", 1))
        return report
    session = _try(report, partial(store.session, name))
    if session is None:
        return report
    _add(report, _try(report, partial(_inherited, streams, head)))
    _try(report, partial(_read, streams, session, report, told))
    for projection in projections:
        _try(report, partial(_compare, projection, session, report))
        _try(report, partial(_checkpoints, projection, session, report))
    if projections:
        _try(report, partial(_state, session, report))
    return report


def _deep() -> list[Projection[Any]]:
    from projections.transcript.transcript import TranscriptProjection
    from projections.view.model_view import ModelViewProjection  # only for those who ask for it

    return [TranscriptProjection(), ModelViewProjection()]


def _try(report: SessionReport, look: Callable[[], S]) -> S | None:
    """What a look gives, or None and an entry in the report, once for each fault however often it is met."""
    try:
        return look()
    except DataError as error:
        problem = Problem(error.message, error.version)
    except EventlogError as error:
        problem = Problem(str(error))
    if problem not in report.problems:
        report.problems.append(problem)
    return None


def _add(report: SessionReport, fault: Fault | None) -> None:
    if fault is not None:
        report.problems.append(Problem(fault.problem, fault.version))


def _names(store: Store, problems: list[str]) -> Iterator[str]:
    """The sessions, those whose heads cannot be read and those behind them included."""
    after = ""
    while True:
        try:
            for head in store.log.heads(after):
                yield head.session
                after = head.session
        except DataError as error:
            if error.session is None or error.session <= after:
                problems.append(str(error))
                return
            yield error.session
            after = error.session
        else:
            return


def _lineage(store: Store, session: str, against: StoreHead | None) -> list[str]:
    """The session, and those it was forked from, nearest first; one that is gone only if the kept head has it."""
    try:
        return [stream.session for stream in reversed(ancestry(store.log, session))]
    except NotFoundError:
        if store.log.head(session) is None and (against is None or session not in against.by_session):
            raise
    except EventlogError:
        pass
    return [session]  # it is erased, gone, damaged or no conversation: it is looked at by itself


def _tree(store: Store, head: Head, report: SessionReport, kept: SessionHead | None) -> None:
    """Hash every append anew (promise 11)."""
    erased = session_head(head).erased
    emptied: list[Commit] = []
    ends: list[Commit] = []
    epoch = 0

    def read() -> Iterator[Commit]:
        nonlocal epoch
        for commit in store.log.read(head.session, 0, head.version):
            if commit.emptied:
                emptied.append(commit)
            ends[1:] = [commit]
            epoch = max(epoch, commit.epoch)
            yield commit

    fault = first_fault(head, read(), None if kept is None else kept.grown)
    if fault is not None:
        report.problems.append(Problem(fault.problem, fault.version))
    elif ends and (ends[0].time, ends[-1].time, ends[-1].position + ends[-1].count - 1) != (
        head.created,
        head.updated,
        head.position,
    ):
        report.problems.append(Problem("its head says another time or place of its first or last event"))
    if epoch > head.lease.epoch:
        report.problems.append(Problem(f"its lease has epoch {head.lease.epoch}, its events were written in {epoch}"))
    if kept is not None and kept.erased and not erased:
        report.problems.append(Problem("the session was erased, and is there again"))
    if kept is not None and erased and not kept.erased and kept.appends >= head.appends:
        report.problems.append(Problem("the session is erased, and no event says so", head.version))
    if emptied:
        _add(report, remains_fault(recorded(store.log.engine).get(head.session), emptied))
    if not erased and (found := unexplained(store, head.session, emptied)) is not None:
        report.problems.append(Problem("the append lost its content, and no redaction says so", found.first))


def _inherited(streams: Streams, head: Head) -> Fault | None:
    """Compare what a fork inherited with the head that it keeps of it."""
    fault = streams.changed(head)
    return None if fault is None else fault._replace(problem=f"inherited: {fault.problem}")


def _read(streams: Streams, session: Session, report: SessionReport, told: Callable[[int, int], None] | None) -> None:
    """Read every event and every body they refer to, what others have read excepted, and compare the totals in the head."""
    report.version = session.version
    head = streams.store.log.head(session.id)
    if head is None:
        return
    problems = [*streams.inherited(head)]
    reading = streams.reading(head)
    reading.read_on(report.version, None if told is None else lambda version: told(version, report.version))
    report.events, report.bodies = reading.events, reading.bodies
    problems += reading.problems(report.version)
    if head.version == reading.version and (entry_of(head), head.messages) != (reading.entry, reading.messages):
        problems.append(Problem("what lists of sessions show of it is not what its events say"))
    report.problems += (problem for problem in dict.fromkeys(problems) if problem not in report.problems)


class _Growing:
    """A session as it was at an earlier version, which can be moved on: what a live reader sees, replayed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.id = session.id
        self.version = 0

    def stretches(self, after: int = 0, upto: int | None = None) -> Iterator[Stretch]:
        """Every event of versions `after + 1 .. upto`, append by append."""
        return self._session.reader.stretches(after, self.version if upto is None else min(upto, self.version))

    def history(self, at: int | None = None, after: int = 0) -> Iterator[Span]:
        """The effective history right after version `at`."""
        version = self.version if at is None else at
        return self._session.history(version, after) if version else iter(())

    def effective_ranges(self, at: int | None = None) -> list[tuple[int, int]]:
        """The versions of the effective history."""
        version = self.version if at is None else at
        return self._session.reader.effective_ranges(version) if version else []


def _compare(projection: Projection[S], session: Session, report: SessionReport) -> None:
    """Follow the session from its first event as a live reader would, and compare with replays on the way (promise 7)."""
    live = _Growing(session)
    follower = Follower(projection, live)
    for look in range(1, LOOKS + 1):
        live.version = max(report.version * look // LOOKS, 1)
        follower.advance()
        hide_inherited(projection, follower.state, session.reader, live.version)
        if projection.encode(follower.state) != projection.encode(
            replay(projection, session.reader, live.version).state
        ):
            report.problems.append(Problem(f"{projection.name}: replay differs from live", live.version))
            return


def _checkpoints(projection: Projection[S], session: Session, report: SessionReport) -> None:
    """Compare every usable checkpoint with a replay from the first event."""
    source: Source = session.reader
    kept = Checkpoints(session.store.log)
    for version, state in kept.valid(projection, source, report.version, report.version):
        state = hide_inherited(projection, state, source, version)  # noqa: PLW2901 - the same, as it is to be shown now
        if projection.encode(state) != projection.encode(replay(projection, source, version).state):
            report.problems.append(Problem(f"{projection.name}: the checkpoint differs from a replay", version))


def _state(session: Session, report: SessionReport) -> None:
    """The same for the checkpoints of command state, which opening for writing begins with."""
    for version in session.reader.wrong_checkpoints(report.version):
        report.problems.append(Problem("command state: the checkpoint differs from a replay", version))
