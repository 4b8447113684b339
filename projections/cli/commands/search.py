"""`search`: find what was said in the sessions of the store."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from projections.cli import output, times
from projections.cli.options import JSON
from projections.cli.store_option import reading, session_of
from projections.reports.wording import counted, moment

if TYPE_CHECKING:
    from eventlog import SearchHit

__all__ = ["run"]


def run(
    context: typer.Context,
    words: Annotated[
        list[str], typer.Argument(metavar="WORDS", help="Words, all in one text; phrases as '\"in quotes\"'.")
    ],
    *,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="SESSION", help="Only this session, with what it inherited."),
    ] = None,
    scope: Annotated[str | None, typer.Option(metavar="SCOPE", help="Only sessions of this scope.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Only user, assistant, reasoning, call or result; may be repeated."),
    ] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only calls and results of this tool.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"Only what was said since: {times.TIME}.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only what was said before this time.")] = None,
    rolled_back: Annotated[
        bool | None,
        typer.Option("--rolled-back/--effective", help="Only what a rollback hides, or only the rest."),
    ] = None,
    ranked: Annotated[bool, typer.Option("--ranked", help="The best hits first, not the newest.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Hits on a page.")] = 20,
    cursor: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="The page after that one, with the same words and options.")
    ] = None,
    json: JSON = False,
) -> None:
    """Find what was said: messages, reasoning, calls and results.

    Also finds what left the view. The first search of a store makes its index, which takes a
    while if the store is large.
    """
    since_when, until_when = times.since("--since", since), times.since("--until", until)
    with reading(context) as store:
        page = store.search(
            " ".join(words),
            session=None if session is None else session_of(store, session).id,
            scope=scope,
            kinds=kind or None,  # type: ignore[arg-type]  # checked where they are used
            tool=tool,
            since=since_when,
            until=until_when,
            rolled_back=rolled_back,
            ranked=ranked,
            cursor=cursor,
            limit=limit,
            wait=None,
        )
    if json:
        output.document({"hits": list(map(_record, page.hits)), "next": page.next})
        return
    for hit in page.hits:
        _print(hit)
    if not page.hits:
        output.line("nothing found")
    elif page.next is None:
        output.line(counted(len(page.hits), "hit") if cursor is None else "no more hits")
    else:
        output.line(f"more: --cursor {page.next}")


def _record(hit: SearchHit) -> dict[str, Any]:
    names = ("session", "version", "time", "kind", "message", "part", "tool", "snippet", "before", "after")
    found = [list(place) for place in hit.found]
    marks = {"rolled_back": hit.rolled_back, "removed": hit.removed}
    return {name: getattr(hit, name) for name in names} | {"found": found} | marks


def _print(hit: SearchHit) -> None:
    marks = [mark for mark, is_set in (("rolled back", hit.rolled_back), ("removed", hit.removed)) if is_set]
    who = f"{hit.kind} {hit.tool}" if hit.tool else hit.kind
    output.heading("  ".join([hit.session, f"version {hit.version}", who, moment(hit.time), *marks]))
    pieces: list[str] = ["…" if hit.before else ""]
    end = 0
    for first, last in hit.found:
        pieces += [_plain(hit.snippet[end:first]), _bold(_plain(hit.snippet[first:last]))]
        end = last
    pieces += [_plain(hit.snippet[end:]), "…" if hit.after else ""]
    sys.stdout.write(f"  {''.join(pieces).strip()}\n")


def _plain(text: str) -> str:
    """Return a piece of a text on one line, without what a terminal would act on."""
    line = " ".join(text.split()) if text.strip() else " " * bool(text)
    before, after = " " * text[:1].isspace(), " " * text[-1:].isspace()
    return output.safe(f"{before}{line}{after}" if text.strip() else line, one_line=True)


def _bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if output.terminal() else text
