"""`recall`: print a part or message that the view no longer shows in full."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from click import argument, option

from projections.cli import output, times
from projections.cli.exits import UsageFault
from projections.cli.options import JSON, SESSION
from projections.cli.short_ids import ShortIds, part_named
from projections.cli.store_option import reading_session
from projections.cli.words import Context, flag, integer, paged_command
from projections.reports.wording import counted, moment

if TYPE_CHECKING:
    from projections.window.retrieval.covered import CoveredRange
    from projections.window.retrieval.recall import RecallResult

MOST = 50
"""Default of --most."""
RANGE = re.compile(r"(\d+)(?:-(\d+))?")


@paged_command
@SESSION
@argument("name", required=False, help="Id of a part or message, or its unique beginning or end.")
@option("--lines", metavar="A-B", help="Only lines A to B, or line A; the first is 1.")
@option("--bytes", metavar="A-B", help="Only bytes from A up to, not including, B; the first is 0.")
@option("--search", metavar="TEXT", help="Only the lines with this text.")
@flag("--regex", help="Take TEXT as a regular expression.")
@flag("--ignore-case", help="Ignore case in the search.")
@integer("--around", default=0, help="Also print N lines around each match.")
@integer("--most", least=1, default=MOST, help="Print at most N matches.")
@flag("--input", "call", help="Print the arguments of a tool call, not its result.")
@option("--covered", metavar="COMPACTION", help="List what this compaction, or its summary, covers.")
@JSON
def run(
    context: Context,
    session: str,
    name: str | None,
    *,
    lines: str | None,
    bytes: str | None,
    search: str | None,
    regex: bool,
    ignore_case: bool,
    around: int,
    most: int,
    call: bool,
    covered: str | None,
    json: bool,
) -> None:
    """Print a part or message in full, also if it left the view.

    Text leaves the view by truncation, pruning or compaction. With --lines, --bytes or --search
    only some of it is printed. With --covered the ids of everything that a compaction covers are
    listed instead.
    """
    from projections.window.retrieval.covered import covered_by
    from projections.window.retrieval.recall import recall

    refined = regex or ignore_case or around > 0 or most != MOST
    _check(name, covered, excerpt=(lines, bytes, search), call=call, refined=refined)
    with reading_session(context, session) as handle:
        if covered is not None:
            _print_covered(handle.id, covered_by(handle, part_named(handle, covered)), json=json)
            return
        result = recall(
            handle,
            part_named(handle, name or ""),
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
        output.document(_document(handle.id, result))
    elif search is None:
        output.block(result.text.removesuffix("\n"))
    else:
        _print_matches(result)


def _check(
    name: str | None,
    covered: str | None,
    *,
    excerpt: tuple[str | None, str | None, str | None],
    call: bool,
    refined: bool,
) -> None:
    """Refuse options that exclude each other."""
    asked = [
        option for option, value in zip(("--lines", "--bytes", "--search"), excerpt, strict=True) if value is not None
    ]
    if (name is None) == (covered is None):
        raise UsageFault("recall takes the NAME of a part or message, or --covered COMPACTION")
    if len(asked) > 1:
        raise UsageFault(f"{asked[0]} and {asked[1]} exclude each other: give one of them")
    if covered is not None and (asked or call):
        raise UsageFault("--covered lists ids; recall one of them by its NAME")
    if refined and excerpt[2] is None:
        raise UsageFault("--regex, --ignore-case, --around and --most are for --search TEXT")


def _range(option: str, text: str, *, alone: int) -> tuple[int, int]:
    """Return the two numbers of `A-B`; for `A` alone, A and A + `alone`."""
    matched = RANGE.fullmatch(text.strip())
    if matched is None:
        from eventlog.errors.base import brief

        raise UsageFault(f"{option} {brief(text)} is no range; give two numbers, as in {option} 10-20")
    first = int(matched[1])
    return first, first + alone if matched[2] is None else int(matched[2])


# -- excerpts ----------------------------------------------------------------------------------


def _document(session: str, result: RecallResult) -> dict[str, Any]:
    return {
        "session": session,
        "id": result.id,
        "kind": result.kind,
        "lines": result.lines,
        "bytes": result.size,
        "open": result.open,
        "text": result.text,
        "line_range": result.line_range,
        "byte_range": result.byte_range,
        "matches": [
            {"line": match.line, "at": match.at, "text": match.text, "before": match.before, "after": match.after}
            for match in result.matches
        ],
        "more": result.more,
        "parts": result.parts,
    }


def _print_matches(result: RecallResult) -> None:
    """Print matching lines as `number:`, the lines around them as `number-`, each line once."""
    shown: dict[int, tuple[str, str]] = {}
    for match in result.matches:
        first = match.line - len(match.before)
        for number, text in enumerate((*match.before, match.text, *match.after), first):
            if number == match.line:
                shown[number] = ":", text
            else:
                shown.setdefault(number, ("-", text))
    last = None
    for number, (mark, text) in sorted(shown.items()):
        if last is not None and number > last + 1 and len(shown) > len(result.matches):
            output.line("--")
        output.block(f"{number}{mark}{text}")
        last = number
    if result.more:
        output.note("there are more matches: --most shows more of them")
    elif not result.matches:
        output.note(f"no match in {counted(result.lines, 'line')}, {counted(result.size, 'byte')}")


# -- covered -----------------------------------------------------------------------------------


def _print_covered(session: str, covered: CoveredRange, *, json: bool) -> None:
    if json:
        import msgspec

        output.document({"session": session, **msgspec.to_builtins(covered)})
        return
    short = ShortIds(
        name for message in covered.messages for name in (message.id, *(part.id for part in message.parts))
    )
    rows = [
        (
            output.Cell(message.id, short.of(message.id)),
            "summary" if message.summary else message.role,
            output.Cell(moment(message.created), times.minute(message.created)),
            output.Cell(part.id, short.of(part.id)),
            *described,
        )
        for message in covered.messages
        for part in message.parts
        for described in ((part.kind, part.tool, part.title, "pruned" if part.pruned else ""),)
    ]
    output.table(
        ["message", "role", "created", "part", "kind", "tool", "title", "state"],
        rows,
        flexible=["title", "tool"],
        optional=["title", "created"],
        styles={"message": "dim", "role": "cyan", "created": "dim", "part": "yellow", "tool": "magenta"},
    )
    verb = "covers" if covered.status == "completed" else f"is {covered.status} and covers"
    summary = f"; its summary is {covered.summary}" if covered.summary else ""
    summary = f"; only {covered.target} can read it" if covered.target is not None else summary
    output.heading(f"compaction {covered.compaction} {verb} {counted(len(covered.messages), 'message')}{summary}")
