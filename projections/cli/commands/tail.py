"""`tail`: print the newest messages of a session, and follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.cli import output
from projections.cli.exits import Exit
from projections.cli.options import JSON, SESSION
from projections.cli.short_ids import session_of
from projections.cli.store_option import reading
from projections.cli.words import Context, command, flag, integer

if TYPE_CHECKING:
    from eventlog import Session, Store


@command
@SESSION
@integer("--limit", "-n", default=10, help="Begin with the newest N messages; with --json, events.")
@flag("--follow", "-f", help="Go on with what happens, in any process, until Ctrl-C.")
@JSON
def run(context: Context, session: str, *, limit: int, follow: bool, json: bool) -> Exit:
    """Print the newest messages of a session, and follow it.

    With --follow text is printed as it streams, once it is committed. With --json each event is an
    object on a line of its own, as `eventlog events --json` prints it.
    """
    with reading(context) as store:
        handle = session_of(store, session)
        version = handle.version
        if json:
            _print_events(handle, max(version - limit, 0), version)
        else:
            _print_messages(handle, version, limit)
        if not follow:
            return Exit.OK
        try:
            _follow(store, handle, version, json=json)
        except KeyboardInterrupt:  # the way to end it
            return Exit.INTERRUPTED
    return Exit.OK


def _print_events(session: Session, after: int, upto: int) -> None:
    from projections.reports.event_json import event_record

    for recorded in session.events(after=after, upto=upto):
        output.document(event_record(recorded))


def _print_messages(session: Session, version: int, limit: int) -> None:
    from projections.cli.message_text import MessagePrinter, short_ids_of
    from projections.transcript.transcript import Transcript

    messages = Transcript(session, version).page(limit)[::-1]
    printer = MessagePrinter(short_ids_of(messages))
    for message in messages:
        printer.message(message)


def _follow(store: Store, session: Session, version: int, *, json: bool) -> None:
    """Print what happens until the session is erased."""
    import sys

    from eventlog.events import SessionErased
    from projections.cli.live_text import LivePrinter
    from projections.reports.event_json import event_record

    printer = LivePrinter(session)
    sys.stdout.flush()
    try:
        for recorded in store.subscribe(version, session=session.id):
            if json:
                output.document(event_record(recorded))
                sys.stdout.flush()
            else:
                printer.event(recorded)
            if isinstance(recorded.event, SessionErased):
                return
    finally:
        printer.end()
