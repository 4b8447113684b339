"""`verify`: check that every event is readable and as it was committed."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from projections.cli import output
from projections.cli.exits import Exit
from projections.cli.options import AGAINST, JSON, OPTIONAL_SESSION
from projections.cli.saved_head import saved_head
from projections.cli.short_ids import session_of
from projections.cli.store_option import reading
from projections.cli.words import Context, flag, paged_command
from projections.reports.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog import Store
    from projections.verify.verify import SessionReport, StoreReport


@paged_command
@OPTIONAL_SESSION
@flag("--deep", help="Also compare live views and every checkpoint with a replay.")
@AGAINST
@JSON
def run(context: Context, session: str | None, *, deep: bool, against: str | None, json: bool) -> Exit:
    """Check that every event is readable and as it was committed.

    Without SESSION the whole store is checked, data that belongs to no session included. With
    --against the history up to the saved head must be unchanged. Exit code 1 if there is a fault.
    """
    from eventlog.errors import DamagedError
    from projections.verify.verify import StoreReport, verify

    saved = saved_head(against)
    try:
        with reading(context) as store, output.progress("verify") as on_progress:
            if session is not None and not (saved is not None and session in saved.by_session):
                session = _id_of(store, session)
            sessions, begun = 1 if session is not None else sum(1 for _ in store.log.heads()), count()

            def progress_for(_: str) -> Callable[[int, int], None]:
                place = next(begun), sessions  # of one session the bar shows events
                return lambda version, newest: on_progress(*(place if sessions > 1 else (version, newest)))

            report = verify(store, session=session, against=saved, deep=deep, progress_for=progress_for)
    except DamagedError as error:
        report = StoreReport([str(error)])
    reports = [_session_report(each) for each in report.sessions]
    output.answer({"sound": report.sound, "store": report.problems, "sessions": reports}, *_lines(report), json=json)
    return Exit.FAULTS if not report.sound else Exit.OK


def _id_of(store: Store, session: str) -> str:
    """Return the id of the session.

    An erased session, and one without a conversation, is found by its whole id only.
    """
    from eventlog.errors import NotFoundError

    try:
        return session_of(store, session).id
    except NotFoundError:
        if store.log.head(session) is None:
            raise
        return session


def _session_report(report: SessionReport) -> dict[str, Any]:
    return {
        "id": report.session,
        "sound": report.sound,
        "version": report.version,
        "events": report.events,
        "bodies": report.bodies,
        "first_bad": report.first_bad,
        "problems": [{"version": fault.version, "problem": fault.problem} for fault in report.problems],
        "locked": report.locked,
        "erased": report.erased,
    }


def _lines(report: StoreReport) -> list[str]:
    sessions = report.sessions
    lines = [f"store: {problem}" for problem in report.problems]
    for each in sessions:
        for fault in each.problems:
            place = "" if fault.version is None else f" at version {fault.version}"
            lines.append(f"{each.session}{place}: {fault.problem}")
    lines += [
        f"{each.session}: its key is not there: its hashes are right, and no content was read"
        for each in sessions
        if each.locked and each.sound
    ]
    faulty = sum(not each.sound for each in sessions)
    events, bodies = sum(each.events for each in sessions), sum(each.bodies for each in sessions)
    faults = f"{faulty} with faults" if faulty else f"{counted(len(report.problems), 'fault')} of the store"
    verdict = "all sound" if report.sound else faults
    erased = sum(each.is_session and each.erased for each in sessions)
    own = sum(each.is_session for each in sessions) - erased
    others = sum(not each.is_session for each in sessions)
    read = [counted(own, "session"), counted(events, "event"), counted(bodies, "body")]
    if others:  # shelves, names, and what other programs keep here
        read.insert(1, counted(others, "other stream"))
    if erased:
        read.insert(1, f"{erased} erased")
    lines.append(f"{', '.join(read)} read: {verdict}")
    return lines
