"""`search`: find what was said in the sessions of the store."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from click import argument, option

from projections.cli import output, times
from projections.cli.exits import UsageFault
from projections.cli.next_page import note_more
from projections.cli.options import JSON
from projections.cli.short_ids import ShortIds, session_of
from projections.cli.store_option import reading
from projections.cli.words import Context, command, flag, integer
from projections.reports.wording import counted, moment

if TYPE_CHECKING:
    from eventlog import SearchHit

_SPACES = re.compile(r"\s+")
_KINDS = ("user", "assistant", "reasoning", "call", "result")


def _kinds(text: str) -> list[str]:
    """Return kinds that are given between commas."""
    kinds = [kind.strip() for kind in text.split(",")]
    if not all(kind in _KINDS for kind in kinds):
        raise UsageFault(f"--kind takes {', '.join(_KINDS)}; several between commas")
    return kinds


@command
@argument("words", nargs=-1, required=True, help='Words, all in one text; "several in quotes" are a phrase.')
@option("--session", metavar="SESSION", help="Only this session, with what it inherited.")
@option("--scope", metavar="SCOPE", help="Only sessions of this scope.")
@option("--kind", metavar="KINDS", help="Only user, assistant, reasoning, call or result; several with commas.")
@option("--tool", metavar="NAME", help="Only calls and results of this tool.")
@option("--since", metavar="TIME", help=f"Only what was said since: {times.TIME}.")
@option("--until", metavar="TIME", help="Only what was said before this time.")
@option("--rolled-back/--effective", default=None, help="Only what a rollback hides, or only the rest.")
@flag("--ranked", help="The best hits first, not the newest.")
@integer("--limit", "-n", least=1, default=20, help="Hits on a page.")
@option("--cursor", metavar="CURSOR", help="The page after that one, with the same words and options.")
@JSON
def run(
    context: Context,
    words: list[str],
    *,
    session: str | None,
    scope: str | None,
    kind: str | None,
    tool: str | None,
    since: str | None,
    until: str | None,
    rolled_back: bool | None,
    ranked: bool,
    limit: int,
    cursor: str | None,
    json: bool,
) -> None:
    """Find what was said: messages, reasoning, calls and results.

    Also finds what left the view. The first search of a store makes its index, which takes a
    while if the store is large.
    """
    since_when, until_when = times.since("--since", since), times.since("--until", until)
    with reading(context) as store:
        page = store.search(
            " ".join(f'"{word}"' if " " in word and '"' not in word else word for word in words),
            session=None if session is None else session_of(store, session).id,
            scope=scope,
            kinds=None if kind is None else cast("Any", _kinds(kind)),
            tool=tool,
            since=since_when,
            until=until_when,
            rolled_back=rolled_back,
            ranked=ranked,
            cursor=cursor,
            limit=limit,
            wait=None,
        )
        short = ShortIds(head.session for head in store.log.heads()) if output.terminal() and not json else None
    if json:
        output.document({"hits": list(map(_record, page.hits)), "next": page.next})
        return
    for hit in page.hits:
        if short is None:
            _print(hit, hit.session, moment(hit.time))
        else:
            _print(hit, short.of(hit.session), times.minute(hit.time))
    if not page.hits:
        phrases = "; several words in quotes are a phrase" if any(" " in word for word in words) else ""
        output.note(f"nothing was found{phrases}" if cursor is None else "no more hits")
    elif page.next is not None:
        note_more(len(page.hits), "hit", page.next, by_cursor=cursor is not None)
    else:
        output.note(counted(len(page.hits), "hit"))


def _record(hit: SearchHit) -> dict[str, Any]:
    names = ("session", "version", "time", "kind", "message", "part", "tool", "snippet", "before", "after")
    found = [list(place) for place in hit.found]
    marks = {"rolled_back": hit.rolled_back, "removed": hit.removed}
    return {name: getattr(hit, name) for name in names} | {"found": found} | marks


def _print(hit: SearchHit, session: str, time: str) -> None:
    marks = [mark for mark, is_set in (("rolled back", hit.rolled_back), ("removed", hit.removed)) if is_set]
    who = f"{hit.kind} {hit.tool}" if hit.tool else hit.kind
    output.heading("  ".join([session, f"version {hit.version}", who, time, *marks]))
    pieces = [("  …" if hit.before else "  ", "")]
    end = 0
    for first, last in hit.found:
        pieces += [(_line(hit.snippet[end:first]), ""), (_line(hit.snippet[first:last]), "bold")]
        end = last
    output.draw(*pieces, (_line(hit.snippet[end:]) + "…" * hit.after, ""))


def _line(text: str) -> str:
    """Return a piece of a text as a part of a line."""
    return _SPACES.sub(" ", text)
