"""`asked`: list the calls that wait for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from projections.cli import output, times
from projections.cli.options import JSON, OPTIONAL_SESSION
from projections.cli.short_ids import ShortIds
from projections.cli.store_option import reading, reading_session
from projections.cli.words import Context, paged_command
from projections.reports.wording import moment

if TYPE_CHECKING:
    from eventlog import AskedCall, Session, Store


@paged_command
@OPTIONAL_SESSION
@JSON
def run(context: Context, session: str | None, *, json: bool) -> None:
    """List the calls that wait for a person, the oldest first.

    `eventlog answer` says whether one may run. A `task` call waits for the calls of the session
    that the last column names.
    """
    found: list[tuple[str, AskedCall]] = []
    if session is not None:
        with reading_session(context, session) as handle:
            found = [(handle.id, call) for call in handle.asked_calls()]
    else:
        with reading(context) as store:
            found = [(handle.id, call) for handle in _waiting(store) for call in handle.asked_calls()]
    found.sort(key=lambda entry: entry[1].time)
    if json:
        output.document({"calls": [_row(name, call) for name, call in found]})
        return
    if not found and output.terminal():
        output.note("no call waits for a person")
        return
    short, parts = ShortIds(name for name, _ in found), ShortIds(call.part for _, call in found)
    output.table(
        ["session", "call", "asked", "tool", "arguments", "reason", "waits for"],
        (
            (
                output.Cell(name, short.of(name)),
                output.Cell(call.part, parts.of(call.part)),
                output.Cell(moment(call.time), times.minute(call.time)),
                call.tool,
                call.arguments,
                call.reason,
                call.session or "",
            )
            for name, call in found
        ),
        flexible=["arguments", "reason", "waits for"],
        optional=["waits for", "asked"],
        styles={"session": "yellow", "call": "yellow", "asked": "dim", "tool": "magenta"},
    )


def _waiting(store: Store) -> Iterator[Session]:
    """Yield the sessions of a store in which a person's answers are due."""
    store.unfinished()  # so that a list knows which have open work, and reads no other
    cursor = None
    while True:
        page = store.newest_sessions(cursor=cursor, limit=200)
        for info in page.sessions:
            if info.state != "waiting" and not info.locked:
                yield store.session(info.id)
        cursor = page.next
        if cursor is None:
            return


def _row(session: str, call: AskedCall) -> dict[str, object]:
    return {
        "session": session,
        "message": call.message,
        "call": call.call,
        "part": call.part,
        "tool": call.tool,
        "arguments": call.arguments,
        "reason": call.reason,
        "time": call.time,
        "waits_for": call.session,
    }
