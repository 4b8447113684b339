"""Verify a store: every event is readable, as it was committed, and still there.

* Everything stored can be read, versions are contiguous, and bodies match their hashes.
* Every append is hashed again and compared with the session's hash tree.
* What a fork inherits, and what a scrub left, is compared with the head that was recorded then.
* Against a saved head: no session is gone, and no history up to that head has changed.
* `deep`: replay equals live, and every checkpoint equals a replay.

Nothing is written. What cannot be read is reported with its session and version, and the check goes
on with everything else. Of a stream whose key is not there the hashes are checked, the content is
not: a key that was destroyed is no fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from eventlog.codec.payload import is_encrypted, is_foreign
from eventlog.errors import DataError, EventlogError, NotFoundError, RetryError
from eventlog.history.ancestry import ancestry
from eventlog.history.catalog import as_said, entry_of, is_session
from eventlog.integrity.heads import SessionHead, StoreHead, session_head
from eventlog.integrity.scrub_ledger import read_ledger, scrub_fault
from eventlog.log.commit import Commit, Head
from eventlog.log.merkle_check import Mismatch, first_mismatch
from eventlog.maintenance.emptied import left_out
from eventlog.session.session import Session
from eventlog.store import Store
from projections.replay.projection import Projection
from projections.verify.deep_checks import deep_checks
from projections.verify.heads import encryption_fault, tombstone_fault
from projections.verify.scrubbed import unexplained
from projections.verify.streams import Problem, StreamChecks

__all__ = ["Problem", "SessionReport", "StoreReport", "verify"]

S = TypeVar("S")


class SessionReport(msgspec.Struct):
    """The extent and the faults of one session's verification."""

    session: str
    version: int = 0
    events: int = 0
    """Events read of its own stream; inherited events count with their own session."""
    bodies: int = 0
    """Distinct bodies that these events refer to, read and compared with their hash."""
    problems: list[Problem] = msgspec.field(default_factory=list[Problem])
    locked: bool = False
    """Whether it is encrypted and its key is not there: only its hashes were checked.

    False if its head was changed, because then the right key is not known.
    """
    is_session: bool = True
    """Whether it is a session: not a shelf, a name, or another program's stream."""
    erased: bool = False
    """Whether it was erased: what is left is its tombstone."""
    left_out: int = 0
    """Large texts of its own stream that were lost, and that a repair left out."""

    @property
    def sound(self) -> bool:
        """Return whether no fault was found."""
        return not self.problems

    @property
    def first_bad(self) -> int | None:
        """Return the first version with a fault, as far as known."""
        return min((fault.version for fault in self.problems if fault.version is not None), default=None)


class StoreReport(msgspec.Struct):
    """The faults of a store, and the report of each session."""

    problems: list[str] = msgspec.field(default_factory=list[str])
    """Faults outside of any session."""
    sessions: list[SessionReport] = msgspec.field(default_factory=list[SessionReport])

    @property
    def sound(self) -> bool:
        """Return whether no fault was found in what could be checked; see `locked`."""
        return not self.problems and all(report.sound for report in self.sessions)

    @property
    def locked(self) -> int:
        """Return the number of streams whose content was not checked: their keys are not there."""
        return sum(report.locked for report in self.sessions)


def verify(
    store: Store,
    *,
    session: str | None = None,
    against: StoreHead | None = None,
    deep: bool = False,
    progress_for: Callable[[str], Callable[[int, int], None]] | None = None,
) -> StoreReport:
    """Verify the whole store, or one session and the sessions it was forked from.

    `against` is an earlier head of this store. `progress_for(id)` is called for each session and
    returns its `on_progress(version, newest)`. Raises `NotFoundError` for a session that neither
    exists nor is in the earlier head. `session` is the id of the one session. `deep` reads every
    event and body, and replays.
    """
    report = StoreReport(store.log.probe())
    if report.problems:
        return report  # reading on could crash this process
    if session is None:
        report.problems += store.log.check()
        names = list(_names(store, report.problems))
    else:
        names = _lineage(store, session, against)
    saved = {} if against is None else against.by_session
    projections = _deep() if deep else []
    streams = StreamChecks(store, names)
    gone = [name for name in saved if name not in set(names) and session is None]
    for name in sorted([*names, *gone]) if session is None else names:
        on_progress = None if progress_for is None else progress_for(name)
        report.sessions.append(_session(streams, name, projections, on_progress, saved.get(name)))
    return report


def _session(
    streams: StreamChecks,
    name: str,
    projections: Sequence[Projection[Any]],
    on_progress: Callable[[int, int], None] | None,
    against: SessionHead | None,
) -> SessionReport:
    store, report = streams.store, SessionReport(name)
    head = _try(report, partial(store.log.head, name))
    changed_head = _try(report, partial(encryption_fault, store.log.engine, name))
    _add(report, changed_head)
    if head is None:
        if not report.problems and against is None:
            report.problems.append(Problem("there is no such session"))
        elif not report.problems:
            report.problems.append(Problem("the session is gone, and the saved head has it", 1))
        return report
    report.is_session = is_session(head)
    _try(report, partial(_tree, store, head, report, against))
    if session_head(head).erased:  # a tombstone; only events that a fork inherits are left
        report.version, report.erased = head.version, True
        _add(report, _try(report, partial(tombstone_fault, store, head)))
        return report
    if is_encrypted(head.entry):
        report.version, report.locked = head.version, changed_head is None
        return report
    if is_foreign(head):
        report.version = report.events = head.version
        return report
    if head.gone:
        report.problems.append(Problem("the events are gone, and the session was not erased", 1))
        return report
    session = _try(report, lambda: Session(store, store.registry.get(name)))
    if session is None:
        return report
    _add(report, _try(report, partial(_inherited, streams, head)))
    _try(report, partial(_read, streams, session, report, on_progress))
    if projections:
        for check in deep_checks(session, streams.of(head), head, projections, report.version):
            _try(report, partial(check, report.problems))
    return report


def _deep() -> list[Projection[Any]]:
    from projections.transcript.transcript import TranscriptProjection
    from projections.view.targets import ModelViewProjection

    return [TranscriptProjection(), ModelViewProjection()]


def _try(report: SessionReport, check: Callable[[], S]) -> S | None:
    """Run a check; report an error of it once, and return None then."""
    try:
        return check()
    except RetryError:  # says nothing of what is stored: a key service or a server is away
        raise
    except DataError as error:
        problem = Problem(error.message, error.version)
    except EventlogError as error:
        problem = Problem(str(error))
    if problem not in report.problems:
        report.problems.append(problem)
    return None


def _add(report: SessionReport, fault: Mismatch | None) -> None:
    if fault is not None:
        report.problems.append(Problem(fault.problem, fault.version))


def _names(store: Store, problems: list[str]) -> Iterator[str]:
    """Yield all sessions, those whose heads cannot be read included."""
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
    """Return the session and its ancestors, nearest first.

    A session that is gone is returned if the saved head has it.
    """
    try:
        return [stream.session for stream in reversed(ancestry(store.log, session))]
    except NotFoundError:
        if store.log.head(session) is None and (against is None or session not in against.by_session):
            raise
    except EventlogError:
        pass
    return [session]  # erased, gone, damaged or without a conversation: verified by itself


def _tree(store: Store, head: Head, report: SessionReport, against: SessionHead | None) -> None:
    """Hash every append again and compare with the hash tree."""
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

    fault = first_mismatch(head, read(), None if against is None else against.grown)
    if fault is not None:
        report.problems.append(Problem(fault.problem, fault.version))
    elif ends and (ends[0].time, ends[-1].time, ends[-1].position + ends[-1].count - 1) != (
        head.created,
        head.updated,
        head.position,
    ):
        report.problems.append(Problem("its head has another time or position of its first or last event"))
    if epoch > head.lease.epoch:
        report.problems.append(Problem(f"its lease has epoch {head.lease.epoch}, its events were written in {epoch}"))
    if against is not None and against.erased and not erased:
        report.problems.append(Problem("the session was erased, and is there again"))
    if against is not None and erased and not against.erased and against.appends >= head.appends:
        report.problems.append(Problem("the session is erased, and no event says so", head.version))
    report.left_out = len({digest for commit in emptied for digest in left_out(commit)})
    recorded = read_ledger(store.log.engine).get(head.session) if emptied else None
    if emptied and not (erased and recorded is None):  # a server empties rows at an erasure, without a record
        _add(report, scrub_fault(recorded, emptied))
    if not erased and (append := unexplained(store, head.session, emptied)) is not None:
        report.problems.append(Problem("the append lost its content, and no redaction says so", append.first))


def _inherited(streams: StreamChecks, head: Head) -> Mismatch | None:
    """Compare what a fork inherits with the head that it recorded."""
    fault = streams.changed(head)
    return None if fault is None else fault._replace(problem=f"inherited: {fault.problem}")


def _read(
    streams: StreamChecks, session: Session, report: SessionReport, on_progress: Callable[[int, int], None] | None
) -> None:
    """Read every event and body that was not read before, and compare the head's totals."""
    report.version = session.version
    head = streams.store.log.head(session.id)
    if head is None:
        return
    problems = [*streams.inherited(head)]
    check = streams.of(head)
    check.read_on(report.version, None if on_progress is None else lambda version: on_progress(version, report.version))
    report.events, report.bodies = check.events, check.bodies
    problems += check.problems(report.version)
    if head.version == check.version and (as_said(entry_of(head)), head.messages) != (check.entry, check.messages):
        problems.append(Problem("its catalog entry is not what its events say"))
    report.problems += (problem for problem in dict.fromkeys(problems) if problem not in report.problems)
