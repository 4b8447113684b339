"""`events`: print every event of a session."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from projections.cli import output, times
from projections.cli.exits import UsageFault
from projections.cli.options import JSON, SESSION
from projections.cli.short_ids import session_of
from projections.cli.store_option import reading
from projections.cli.words import Context, integer, paged_command
from projections.reports.wording import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eventlog import Session, Store
    from eventlog.codec.decoded import Recorded


@paged_command
@SESSION
@integer("--from", "first", least=1, default=1, metavar="V", help="First version.")
@integer("--to", "last", least=1, metavar="V", help="Last version [default: the newest].")
@JSON
def run(context: Context, session: str, *, first: int, last: int | None, json: bool) -> None:
    """Print every event of a session in order.

    Inherited events, and events that a rollback hides, are printed, too. With --json each event is
    an object on a line of its own, so that a history of any length can be streamed.
    """
    from eventlog.errors import NotFoundError
    from projections.reports.event_json import event_kind, event_record, event_summary

    if last is not None and last < first:
        raise UsageFault(f"--to {last} is before --from {first}: no version is in between")
    with reading(context) as store:
        handle = session_of(store, session)
        if first > handle.version:
            raise NotFoundError("version", str(first), session=handle.id)
        drawn = output.terminal()
        digits = len(str(last or handle.version)) if drawn else 7
        for recorded in (
            _with_cursors(store, handle, first, last) if json else handle.events(after=first - 1, upto=last)
        ):
            if json:
                output.document(event_record(recorded))
                continue
            time = times.second(recorded.time) if drawn else moment(recorded.time)
            summary = f"{event_kind(recorded.event):<25} {event_summary(recorded.event, short=drawn)}"
            output.draw((f"{recorded.version:>{digits}}  {time}  {summary}".rstrip(), ""), cut_at=output.columns())


def _with_cursors(store: Store, session: Session, first: int, last: int | None) -> Iterator[Recorded]:
    """Yield the events of a session, with cursors where it did not inherit them."""
    newest = session.version if last is None else min(last, session.version)
    base = session.version - session.info.events
    if first <= base:
        yield from session.events(after=first - 1, upto=min(base, newest))
    own = store.subscribe(max(first - 1, base), session=session.id, timeout=0)
    yield from takewhile(lambda recorded: recorded.version <= newest, own)
