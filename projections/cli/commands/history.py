"""`show`, `tail` and `events`: the messages and the events of a session."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from projections.cli import output, times
from projections.cli.exits import Exit, Fault
from projections.cli.message_text import MessagePrinter
from projections.cli.screen import columns, draw, is_terminal
from projections.cli.short_ids import session_of, short_ids_of
from projections.cli.store_option import reading, reading_session
from projections.cli.words import SESSION, command, flag, integer
from projections.reports.wording import moment

if TYPE_CHECKING:
    from eventlog import Session, Store
    from eventlog.codec.decoded import Recorded
    from projections.transcript.message import TranscriptMessage


@command(reading_session, pages=True)
@flag("--newest-first", help="Print the newest message first.")
@integer("--limit", "-n", least=1, help="Only the newest N messages [default: all].")
@integer("--before", least=1, metavar="V", help="Only messages that began before version V.")
@flag("--full", help="Print all lines of a result on a terminal, too.")
def show(
    session: Session, *, newest_first: bool, limit: int | None, before: int | None, full: bool, json: bool
) -> None:
    """Print the transcript of a session.

    --limit and --before print a page, which is read from the end of the history, however long that
    is. A note after it (in JSON: `next`) has the --before of the next older page.
    """
    from projections.transcript.transcript import Transcript

    transcript = Transcript(session)
    messages: Iterable[TranscriptMessage] = transcript.newest_first(before)
    more = None
    if limit is not None:
        page = list(islice(messages, limit + 1))
        more = page[limit - 1].version if len(page) > limit else None
        messages = page[:limit]
    if not newest_first:
        messages = list(messages)[::-1]
    if json:
        from projections.transcript.message_json import message_json, page_json

        output.document(page_json(session.id, transcript.version, map(message_json, messages), more))
        return
    if is_terminal():
        messages = list(messages)
    printer = MessagePrinter(short_ids_of(messages if is_terminal() else ()), whole=full)
    for message in messages:
        printer.message(message)
    if more is not None:
        output.note(f"older messages: --before {more}")


@command(reading)
@SESSION
@integer("--limit", "-n", default=10, help="Begin with the newest N messages; with --json, events.")
@flag("--follow", "-f", help="Go on with what happens, in any process, until Ctrl-C.")
def tail(store: Store, session: str, *, limit: int, follow: bool, json: bool) -> Exit:
    """Print the newest messages of a session, and follow it.

    With --follow text is printed as it streams, once it is committed. With --json each event is an
    object on a line of its own, as `eventlog events --json` prints it.
    """
    from projections.reports.event_json import event_record
    from projections.transcript.transcript import Transcript

    handle = session_of(store, session)
    version = handle.version
    if json:
        for recorded in handle.events(after=max(version - limit, 0), upto=version):
            output.document(event_record(recorded))
    else:
        messages = Transcript(handle, version).page(limit)[::-1]
        printer = MessagePrinter(short_ids_of(messages))
        for message in messages:
            printer.message(message)
    try:
        if follow:
            _follow(store, handle, version, json=json)
    except KeyboardInterrupt:  # the way to end it
        return Exit.INTERRUPTED
    return Exit.OK


def _follow(store: Store, session: Session, version: int, *, json: bool) -> None:
    """Print what happens until the session is erased."""
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


@command(reading, pages=True)
@SESSION
@integer("--from", "first", least=1, default=1, metavar="V", help="First version.")
@integer("--to", "last", least=1, metavar="V", help="Last version [default: the newest].")
def events(store: Store, session: str, *, first: int, last: int | None, json: bool) -> None:
    """Print every event of a session in order.

    Inherited events, and events that a rollback hides, are printed, too. With --json each event is
    an object on a line of its own, so that a history of any length can be streamed.
    """
    from eventlog.errors import NotFoundError
    from projections.reports.event_json import event_kind, event_record, event_summary

    if last is not None and last < first:
        raise Fault(f"--to {last} is before --from {first}: no version is in between")
    handle = session_of(store, session)
    if first > handle.version:
        raise NotFoundError("version", str(first), session=handle.id)
    drawn = is_terminal()
    digits = len(str(last or handle.version)) if drawn else 7
    for recorded in _with_cursors(store, handle, first, last) if json else handle.events(after=first - 1, upto=last):
        if json:
            output.document(event_record(recorded))
            continue
        time = times.second(recorded.time) if drawn else moment(recorded.time)
        summary = f"{event_kind(recorded.event):<25} {event_summary(recorded.event, short=drawn)}"
        draw((f"{recorded.version:>{digits}}  {time}  {summary}".rstrip(), ""), cut_at=columns())


def _with_cursors(store: Store, session: Session, first: int, last: int | None) -> Iterator[Recorded]:
    """Yield the events of a session, with cursors where it did not inherit them."""
    newest = session.version if last is None else min(last, session.version)
    base = session.version - session.info.events
    if first <= base:
        yield from session.events(after=first - 1, upto=min(base, newest))
    own = store.subscribe(max(first - 1, base), session=session.id, timeout=0)
    yield from takewhile(lambda recorded: recorded.version <= newest, own)
