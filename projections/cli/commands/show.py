"""`show`: the transcript, all that was said with its marks, whole or page by page from its end."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from projections.cli import output
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import reading, session_of

if TYPE_CHECKING:
    from projections.transcript.transcript import TranscriptMessage, TranscriptPart

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("show")(_show)


def _show(
    context: typer.Context,
    session: SESSION,
    *,
    newest_first: Annotated[bool, typer.Option("--newest-first", help="The newest message first.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Only the newest N messages [default: all].")
    ] = None,
    before: Annotated[
        int | None,
        typer.Option(
            "--before", min=1, metavar="V", help="Only messages that began before version V: the page before."
        ),
    ] = None,
    json: JSON = False,
) -> None:
    """Print a session's transcript.

    With --limit a page of it, read from the end, whatever the length of the history; `next` of its JSON (the last
    line otherwise) is the --before of the page before it.
    """
    from projections.transcript.transcript import Transcript

    with reading(context) as store:
        handle = session_of(store, session)
        transcript = Transcript(handle)
        found: Iterable[TranscriptMessage] = (
            said for said in transcript.newest_first() if before is None or said.version < before
        )
        more = None
        if limit is not None:
            page = list(islice(found, limit + 1))
            more = page[limit - 1].version if len(page) > limit else None
            found = page[:limit]
        if not newest_first:
            found = list(found)[::-1]
        if json:
            messages = [_plain(said) for said in found]
            output.document({"session": handle.id, "version": transcript.version, "messages": messages, "next": more})
            return
        for said in found:
            _print(said)
        if more is not None:
            output.line(f"older messages: --before {more}")


def _plain(said: TranscriptMessage) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = {name: getattr(said, name) for name in said.__struct_fields__}
    plain["parts"] = [{name: getattr(part, name) for name in part.__struct_fields__} for part in said.parts]
    plain["model"] = None if said.model is None else str(said.model)
    if said.error is not None:
        plain["error"] = {name: getattr(said.error, name) for name in said.error.__struct_fields__}
    return {name: msgspec.to_builtins(value) for name, value in plain.items()}


def _print(said: TranscriptMessage) -> None:
    marks = [
        *([str(said.model)] if said.model is not None else []),
        *(name for name in ("synthetic", "summary", "removed") if getattr(said, name)),
        *(["compacted"] if said.covered is not None else []),
        *([f"failed: {said.error.name}"] if said.error is not None else []),
        *(["unfinished"] if said.role == "assistant" and said.finished is None else []),
    ]
    suffix = f"  [{', '.join(marks)}]" if marks else ""
    output.heading(f"{said.role}  version {said.version}  {output.moment(said.created)}{suffix}")
    for part in said.parts:
        _print_part(part)


def _print_part(part: TranscriptPart) -> None:
    names = ("synthetic", "ignored", "removed", "redacted", "pruned", "open")
    marks = [name for name in names if getattr(part, name)]
    suffix = f" [{', '.join(marks)}]" if marks else ""
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
        said = " ".join(word for word in (output.safe(named, one_line=True), part.text) if word)
        output.block(f"({part.kind}{': ' if said else ''}{said}){suffix}")
