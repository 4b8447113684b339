"""`recall`: reading again what the view no longer shows, and what a compaction covers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from projections.cli import output
from projections.cli.exits import UsageFault
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import reading, session_of
from projections.reports.wording import counted

if TYPE_CHECKING:
    from projections.window.retrieval.covered import CoveredRange
    from projections.window.retrieval.recall import RecallResult

__all__ = ["register"]

MOST = 50
"""Matches shown unless told otherwise."""
RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("recall")(_recall)


def _recall(
    context: typer.Context,
    session: SESSION,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Id of a part or a message, as the view's marker says.")
    ] = None,
    *,
    lines: Annotated[
        str | None, typer.Option("--lines", metavar="A-B", help="Lines A to B, or line A; the first is 1.")
    ] = None,
    bytes: Annotated[
        str | None,
        typer.Option("--bytes", metavar="A-B", help="Bytes from A up to B, which is left out; the first is 0."),
    ] = None,
    search: Annotated[str | None, typer.Option("--search", metavar="TEXT", help="The lines with this text.")] = None,
    regex: Annotated[bool, typer.Option("--regex", help="TEXT is a regular expression.")] = False,
    ignore_case: Annotated[bool, typer.Option("--ignore-case", help="Search whatever the case.")] = False,
    around: Annotated[
        int, typer.Option("--around", min=0, metavar="N", help="Lines shown before and after each that matches.")
    ] = 0,
    most: Annotated[int, typer.Option("--most", min=1, metavar="N", help="Matches shown.")] = MOST,
    call: Annotated[bool, typer.Option("--input", help="The arguments of a tool call, not its result.")] = False,
    covered: Annotated[
        str | None,
        typer.Option("--covered", metavar="COMPACTION", help="List what this compaction (or its summary) covers."),
    ] = None,
    json: JSON = False,
) -> None:
    """Print the whole of a part or a message, also one that was truncated, pruned or covered by a compaction.

    Or a range of it, or where something stands in it; or, with --covered, the ids of all that a compaction covers.
    """
    from projections.window.retrieval.covered import covered_by
    from projections.window.retrieval.recall import recall

    refined = regex or ignore_case or around > 0 or most != MOST
    _check(name, covered, excerpt=(lines, bytes, search), call=call, refined=refined)
    with reading(context) as store:
        handle = session_of(store, session)
        if covered is not None:
            _show_covered(handle.id, covered_by(handle, covered), json=json)
            return
        found = recall(
            handle,
            name or "",
            lines=None if lines is None else _range("--lines", lines, alone=0),
            bytes=None if bytes is None else _range("--bytes", bytes, alone=1),
            search=search,
            regex=regex,
            ignore_case=ignore_case,
            context=around,
            most=most,
            field="input" if call else "output",
        )
    if json:
        output.document(_plain(handle.id, found))
    elif search is None:
        output.block(found.text.removesuffix("\n"))
    else:
        _print_matches(found)


def _check(
    name: str | None,
    covered: str | None,
    *,
    excerpt: tuple[str | None, str | None, str | None],
    call: bool,
    refined: bool,
) -> None:
    """Refuse options that do not go together."""
    asked = [
        option for option, value in zip(("--lines", "--bytes", "--search"), excerpt, strict=True) if value is not None
    ]
    if (name is None) == (covered is None):
        raise UsageFault("recall takes the NAME of a part or message, or --covered COMPACTION")
    if len(asked) > 1:
        raise UsageFault(f"{asked[0]} and {asked[1]} do not go together: ask for one of them")
    if covered is not None and (asked or call):
        raise UsageFault("--covered lists ids; recall one of them by its NAME")
    if refined and excerpt[2] is None:
        raise UsageFault("--regex, --ignore-case, --around and --most are for --search TEXT")


def _range(option: str, text: str, *, alone: int) -> tuple[int, int]:
    """Two numbers from `A-B`; from `A` alone, A and A + `alone`."""
    found = RANGE.fullmatch(text.strip())
    if found is None:
        from eventlog.errors import brief

        raise UsageFault(f"{option} {brief(text)} is no range; give two numbers, as in {option} 10-20")
    first = int(found[1])
    return first, first + alone if found[2] is None else int(found[2])


# -- excerpts ----------------------------------------------------------------------------------


def _plain(session: str, found: RecallResult) -> dict[str, Any]:
    return {
        "session": session,
        "id": found.id,
        "kind": found.kind,
        "lines": found.lines,
        "bytes": found.size,
        "open": found.open,
        "text": found.text,
        "line_range": found.line_range,
        "byte_range": found.byte_range,
        "matches": [
            {"line": match.line, "at": match.at, "text": match.text, "before": match.before, "after": match.after}
            for match in found.matches
        ],
        "more": found.more,
        "parts": found.parts,
    }


def _print_matches(found: RecallResult) -> None:
    """The matching lines with `:` behind their numbers, those around them with `-`; each line once."""
    shown: dict[int, tuple[str, str]] = {}
    for match in found.matches:
        first = match.line - len(match.before)
        for number, text in enumerate((*match.before, match.text, *match.after), first):
            if number == match.line:
                shown[number] = ":", text
            else:
                shown.setdefault(number, ("-", text))
    last = None
    for number, (mark, text) in sorted(shown.items()):
        if last is not None and number > last + 1 and len(shown) > len(found.matches):
            output.line("--")
        output.block(f"{number}{mark}{text}")
        last = number
    if found.more:
        output.note("there are more matches: --most shows more of them")
    elif not found.matches:
        output.note(f"no match in {counted(found.lines, 'line')}, {counted(found.size, 'byte')}")


# -- covered -----------------------------------------------------------------------------------


def _show_covered(session: str, found: CoveredRange, *, json: bool) -> None:
    if json:
        import msgspec

        output.document({"session": session, **msgspec.to_builtins(found)})
        return
    rows = [
        (message.id, "summary" if message.summary else message.role, output.moment(message.created), part.id, *said)
        for message in found.messages
        for part in message.parts
        for said in ((part.kind, part.tool, part.title, "pruned" if part.pruned else ""),)
    ]
    output.table(["message", "role", "created", "part", "kind", "tool", "title", "state"], rows, folded=["title"])
    verb = "covers" if found.status == "completed" else f"is {found.status} and covers"
    summary = f"; its summary is {found.summary}" if found.summary else ""
    output.heading(f"compaction {found.compaction} {verb} {counted(len(found.messages), 'message')}{summary}")
