"""`show`: print the transcript of a session."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from projections.cli import output
from projections.cli.message_text import MessagePrinter, short_ids_of
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import reading_session
from projections.cli.words import Context, flag, integer, paged_command

if TYPE_CHECKING:
    from projections.transcript.message import TranscriptMessage


@paged_command
@SESSION
@flag("--newest-first", help="Print the newest message first.")
@integer("--limit", "-n", least=1, help="Only the newest N messages [default: all].")
@integer("--before", least=1, metavar="V", help="Only messages that began before version V.")
@flag("--full", help="Print all lines of a result on a terminal, too.")
@JSON
def run(
    context: Context, session: str, *, newest_first: bool, limit: int | None, before: int | None, full: bool, json: bool
) -> None:
    """Print the transcript of a session.

    --limit and --before print a page, which is read from the end of the history, however long that
    is. A note after it (in JSON: `next`) has the --before of the next older page.
    """
    from projections.transcript.transcript import Transcript

    with reading_session(context, session) as handle:
        transcript = Transcript(handle)
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

            output.document(page_json(handle.id, transcript.version, map(message_json, messages), more))
            return
        if output.terminal():
            messages = list(messages)
        printer = MessagePrinter(short_ids_of(messages if output.terminal() else ()), whole=full)
        for message in messages:
            printer.message(message)
        if more is not None:
            output.note(f"older messages: --before {more}")
