"""`show`: print the transcript of a session."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from projections.cli import output
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import reading_session
from projections.reports.wording import moment

if TYPE_CHECKING:
    from projections.transcript.transcript import TranscriptMessage, TranscriptPart

__all__ = ["run"]


def run(
    context: typer.Context,
    session: SESSION,
    *,
    newest_first: Annotated[bool, typer.Option("--newest-first", help="Print the newest message first.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Only the newest N messages [default: all].")
    ] = None,
    before: Annotated[
        int | None,
        typer.Option("--before", min=1, metavar="V", help="Only messages that began before version V."),
    ] = None,
    json: JSON = False,
) -> None:
    """Print the transcript of a session.

    --limit and --before print a page, which is read from the end of the history, however long that
    is. The last line (in JSON: `next`) says the --before of the next older page.
    """
    from projections.transcript.transcript import Transcript

    with reading_session(context, session) as handle:
        transcript = Transcript(handle)
        messages: Iterable[TranscriptMessage] = (
            message for message in transcript.newest_first() if before is None or message.version < before
        )
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
        for message in messages:
            _print(message)
        if more is not None:
            output.line(f"older messages: --before {more}")


def _print(message: TranscriptMessage) -> None:
    marks = [
        *([str(message.model)] if message.model is not None else []),
        *(name for name in ("synthetic", "summary", "removed") if getattr(message, name)),
        *(["compacted"] if message.covered is not None else []),
        *([f"failed: {message.error.name}"] if message.error is not None else []),
        *(["unfinished"] if message.role == "assistant" and message.finished is None else []),
    ]
    suffix = f"  [{', '.join(marks)}]" if marks else ""
    output.heading(f"{message.role}  version {message.version}  {moment(message.created)}{suffix}")
    for part in message.parts:
        _print_part(part)


def _print_part(part: TranscriptPart) -> None:
    suffix = f" [{', '.join(part.marks)}]" if part.marks else ""
    if part.kind == "text":
        output.block(part.text + suffix if suffix else part.text)
    elif part.kind == "reasoning":
        output.block(part.text.removesuffix("\n") + suffix if suffix else part.text, "~ ")
    elif part.kind == "tool":
        output.line(f"-> {part.tool}({part.input}) {part.status}{suffix}")
        if part.error:
            output.block(part.error, "<! ")
        if part.text:
            output.block(part.text, "<- ")
    else:
        named = " ".join(word for word in (part.title, part.mime, part.filename or "") if word)
        description = " ".join(word for word in (output.safe(named, one_line=True), part.text) if word)
        output.block(f"({part.kind}{': ' if description else ''}{description}){suffix}")
