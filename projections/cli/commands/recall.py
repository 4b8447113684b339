"""`recall`: print a part or message that the view no longer shows in full."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click
from click import argument, option

from projections.cli import output, times
from projections.cli.exits import Fault
from projections.cli.short_ids import part_named, short_ids_of
from projections.cli.store_option import reading_session
from projections.cli.words import command, flag, integer
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog import Session
    from projections.window.retrieval.covered import CoveredRange
    from projections.window.retrieval.recall import RecallResult

_MOST = 50
"""Default of --most."""


class _Range(click.ParamType[tuple[int, int]]):
    """Two numbers `A-B`; `A` alone stands for A and A + `alone`."""

    name = "range"

    def __init__(self, alone: int) -> None:
        self._alone = alone

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Return the two numbers of a word."""
        matched = re.fullmatch(r"(\d+)(?:-(\d+))?", value.strip())
        if matched is None:
            from eventlog.errors.base import brief

            self.fail(f"{brief(value)} is no range; give two numbers, as in 10-20", param, ctx)
        first = int(matched[1])
        return first, first + self._alone if matched[2] is None else int(matched[2])


@command(reading_session, pages=True)
@argument("name", required=False, help="Id of a part or message, or its unique beginning or end.")
@option("--lines", type=_Range(0), metavar="A-B", help="Only lines A to B, or line A; the first is 1.")
@option("--bytes", type=_Range(1), metavar="A-B", help="Only bytes from A up to, not including, B; the first is 0.")
@option("--search", metavar="TEXT", help="Only the lines with this text.")
@flag("--regex", help="Take TEXT as a regular expression.")
@flag("--ignore-case", help="Ignore case in the search.")
@integer("--around", "context", default=0, help="Also print N lines around each match.")
@integer("--most", least=1, default=_MOST, help="Print at most N matches.")
@flag("--input", "call", help="Print the arguments of a tool call, not its result.")
@option("--covered", metavar="COMPACTION", help="List what this compaction, or its summary, covers.")
def recall(session: Session, name: str | None, *, call: bool, covered: str | None, json: bool, **excerpt: Any) -> None:
    """Print a part or message in full, also if it left the view.

    Text leaves the view by truncation, pruning or compaction. With --lines, --bytes or --search
    only some of it is printed; in a message a line before each part names it, and counts, too. With
    --covered the ids of everything that a compaction covers are listed instead.
    """
    from projections.window.retrieval import recall as recalling
    from projections.window.retrieval.covered import covered_by

    _check(name, covered, call=call, **excerpt)
    if covered is not None:
        _print_covered(session.id, covered_by(session, part_named(session, covered)), json=json)
        return
    part = part_named(session, name or "")
    result = recalling.recall(session, part, field="input" if call else "output", **excerpt)
    if json:
        output.document(_document(session.id, result))
    elif excerpt["search"] is None:
        output.block(result.text.removesuffix("\n"))
    else:
        _print_matches(result)


def _check(name: str | None, covered: str | None, *, call: bool, **excerpt: Any) -> None:
    """Refuse options that exclude each other."""
    if (name is None) == (covered is None):
        raise Fault("recall takes the NAME of a part or message, or --covered COMPACTION")
    if covered is not None and (call or any(excerpt[kind] is not None for kind in ("lines", "bytes", "search"))):
        raise Fault("--covered lists ids; recall one of them by its NAME")
    refined = excerpt["regex"] or excerpt["ignore_case"] or excerpt["context"] or excerpt["most"] != _MOST
    if refined and excerpt["search"] is None:
        raise Fault("--regex, --ignore-case, --around and --most are for --search TEXT")


def _document(session: str, result: RecallResult) -> dict[str, Any]:
    document = {"session": session, **output.fields(result), "bytes": result.size}
    del document["size"]
    return document


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


def _print_covered(session: str, covered: CoveredRange, *, json: bool) -> None:
    if json:
        output.document({"session": session, **output.fields(covered)})
        return
    short = short_ids_of(covered.messages)
    rows = [
        (
            short.cell(message.id),
            "summary" if message.summary else message.role,
            times.cell(message.created),
            short.cell(part.id),
            part.kind,
            part.tool,
            part.title,
            "pruned" if part.pruned else "",
        )
        for message in covered.messages
        for part in message.parts
    ]
    output.table(
        ["message", "role", "created", "part", "kind", "tool", "title", "state"],
        rows,
        flexible=["title", "tool"],
        optional=["title", "created"],
    )
    verb = "covers" if covered.status == "completed" else f"is {covered.status} and covers"
    summary = f"; its summary is {covered.summary}" if covered.summary else ""
    summary = f"; only {covered.target} can read it" if covered.target is not None else summary
    output.heading(f"compaction {covered.compaction} {verb} {counted(len(covered.messages), 'message')}{summary}")
