"""`verify`, `head` and `prove`: check the store, and what it was at an earlier head."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click import option

from projections.cli import output
from projections.cli.exits import Exit, Fault, FileFault
from projections.cli.short_ids import session_of
from projections.cli.store_option import Context, reading
from projections.cli.words import OPTIONAL_SESSION, SESSION, command, flag, integer
from projections.reports.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog import Store, StoreHead
    from projections.verify.verify import SessionReport, StoreReport

_AGAINST = option("--against", metavar="FILE", help="File with an earlier output of `eventlog head --json`.")


@command(pages=True)
@OPTIONAL_SESSION
@flag("--deep", help="Also compare live views and every checkpoint with a replay.")
@_AGAINST
def verify(context: Context, session: str | None, *, deep: bool, against: str | None, json: bool) -> Exit:
    """Check that every event is readable and as it was committed.

    Without SESSION the whole store is checked, data that belongs to no session included. With
    --against the history up to the saved head must be unchanged. Exit code 1 if there is a fault; a
    key that is not there is none: the last line says whose content was not checked.
    """
    from eventlog.errors import DamagedError
    from projections.verify import verify as verifying

    saved = _saved_head(against)
    try:
        with reading(context) as store, output.progress("verify") as on_progress:
            if session is not None and not (saved is not None and session in saved.by_session):
                session = _id_of(store, session)
            sessions, begun = 1 if session is not None else sum(1 for _ in store.log.heads()), count()

            def progress_for(_: str) -> Callable[[int, int], None]:
                place = next(begun), sessions  # of one session the bar shows events
                return lambda version, newest: on_progress(*(place if sessions > 1 else (version, newest)))

            report = verifying.verify(store, session=session, against=saved, deep=deep, progress_for=progress_for)
    except DamagedError as error:
        report = verifying.StoreReport([str(error)])
    reports = [_session_report(each) for each in report.sessions]
    code = Exit.OK if report.sound else Exit.FAULTS
    with output.verdict(code):
        document = {"sound": report.sound, "locked": report.locked, "store": report.problems, "sessions": reports}
        output.answer(document, *_lines(report), json=json)
    return code


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
    names = ("sound", "version", "events", "bodies", "first_bad", "problems", "locked", "erased", "left_out")
    return {"id": report.session, **output.fields(report, *names)}


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
    verdict = faults if not report.sound else "no fault" if report.locked else "all sound"
    if report.locked:
        kinds = {each.is_session for each in sessions if each.locked}
        noun = "session" if kinds == {True} else "stream"
        verdict += f"; content of {counted(report.locked, noun)} not checked: no key"
    erased = sum(each.is_session and each.erased for each in sessions)
    own = sum(each.is_session for each in sessions) - erased
    others = sum(not each.is_session for each in sessions)
    read = [counted(own, "session"), counted(events, "event"), counted(bodies, "body")]
    if others:  # shelves, names, and what other programs keep here
        read.insert(1, counted(others, "other stream"))
    if erased:
        read.insert(1, f"{erased} erased")
    if left := sum(each.left_out for each in sessions):
        verdict += f"; a repair left out {counted(left, 'lost text')}"
    lines.append(f"{', '.join(read)} read: {verdict}")
    return lines


@command(reading)
def head(store: Store, *, json: bool) -> None:
    """Print the digest of the store's history, to keep elsewhere.

    Keep it where those who can write the store cannot write: later it shows whether the history was
    changed. With --json the heads of all sessions are printed, too, which `eventlog verify
    --against` needs to name the change.
    """
    found = store.head()
    output.answer(found.document(), found.digest, json=json)


@command(reading)
@SESSION
@integer("--version", least=1, required=True, metavar="V", help="The version to prove.")
@_AGAINST
def prove(store: Store, session: str, *, version: int, against: str | None, json: bool) -> None:
    """Prove that an event is in the store's history.

    The proof (--json) convinces a reader who has only the head of the store: the file
    projections/verify/check_proof.py checks it and needs nothing but Python. With --against it also
    proves that the session's history at that head is the beginning of its history now.
    """
    from projections.verify import prove as proving

    saved = _saved_head(against)
    proof = proving.prove(store, session_of(store, session), version, saved)
    lines = [
        f"version {version} is in append {proof['index'] + 1} of {proof['size']} of session {proof['session']}",
        f"root of the session {proof['root']}",
        f"head of the store   {proof['store']['root']}",
    ]
    if saved is not None:
        lines.append(f"continues the head  {saved.digest}")
    output.answer(proof, *lines, json=json)


def _saved_head(name: str | None) -> StoreHead | None:
    """Return the head in the file of this name; None for None."""
    from eventlog import StoreHead
    from eventlog.errors import CallError

    if name is None:
        return None
    if re.fullmatch("[0-9a-f]{64}", name) and not Path(name).exists():
        raise Fault("--against takes a file with the output of `eventlog head --json`, not a digest")
    try:
        return StoreHead.parse(Path(name).read_bytes())
    except CallError as error:
        raise FileFault(name, error) from error
