"""`search`: find what was said in the sessions of the store."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click
from click import argument, option

from projections.cli import output, times
from projections.cli.screen import draw, is_terminal
from projections.cli.short_ids import ShortIds, session_of
from projections.cli.store_option import reading
from projections.cli.words import command, flag, integer
from projections.reports.wording import DAMAGE_ADVICE, counted, moment

if TYPE_CHECKING:
    from eventlog import SearchHit, Store

_KINDS = ("user", "assistant", "reasoning", "call", "result")


def _kinds(ctx: click.Context, param: click.Parameter, text: str | None) -> list[str] | None:
    """Return kinds that are given between commas."""
    kinds = None if text is None else [kind.strip() for kind in text.split(",")]
    if not set(kinds or ()) <= set(_KINDS):
        raise click.BadParameter(f"give of {', '.join(_KINDS)}; several between commas", ctx, param)
    return kinds


@command(reading)
@argument("words", nargs=-1, required=True, help='Words, all in one text; "several in quotes" are a phrase.')
@option("--session", metavar="SESSION", help="Only this session, with what it inherited.")
@option("--scope", metavar="SCOPE", help="Only sessions of this scope.")
@option(
    "--kind",
    "kinds",
    callback=_kinds,
    metavar="KINDS",
    help="Only user, assistant, reasoning, call or result; several with commas.",
)
@option("--tool", metavar="NAME", help="Only calls and results of this tool.")
@option("--since", type=times.TIME, metavar="TIME", help=f"Only what was said since: {times.TIME.says}.")
@option("--until", type=times.TIME, metavar="TIME", help="Only what was said before this time.")
@option("--rolled-back/--effective", default=None, help="Only what a rollback hides, or only the rest.")
@flag("--ranked", help="The best hits first, not the newest.")
@integer("--limit", "-n", least=1, default=20, help="Hits on a page.")
@option("--cursor", metavar="CURSOR", help="The page after that one, with the same words and options.")
def search(
    store: Store, words: list[str], *, session: str | None, cursor: str | None, json: bool, **options: Any
) -> None:
    """Find what was said: messages, reasoning, calls and results.

    Also finds what left the view. The first search of a store makes its index, which takes a
    while if the store is large.
    """
    page = store.search(
        " ".join(f'"{word}"' if " " in word and '"' not in word else word for word in words),
        session=None if session is None else session_of(store, session).id,
        cursor=cursor,
        wait=None,
        **options,
    )
    if json:
        output.document({"hits": list(map(output.fields, page.hits)), "next": page.next, "damaged": page.damaged})
        return
    short = ShortIds(head.session for head in store.log.heads()) if is_terminal() else None
    for hit in page.hits:
        if short is None:
            _print(hit, hit.session, moment(hit.time))
        else:
            _print(hit, short.of(hit.session), times.minute(hit.time))
    for name in page.damaged:
        output.note(f"session {name}: what is damaged is not searched; {DAMAGE_ADVICE}")
    if not page.hits:
        phrases = "; several words in quotes are a phrase" if any(" " in word for word in words) else ""
        output.note(f"nothing was found{phrases}" if cursor is None else "no more hits")
    elif page.next is not None:
        output.note_more(len(page.hits), "hit", page.next, by_cursor=cursor is not None)
    else:
        output.note(counted(len(page.hits), "hit"))


def _print(hit: SearchHit, session: str, time: str) -> None:
    marks = [mark for mark, is_set in (("rolled back", hit.rolled_back), ("removed", hit.removed)) if is_set]
    who = f"{hit.kind} {hit.tool}" if hit.tool else hit.kind
    output.heading("  ".join([session, f"version {hit.version}", who, time, *marks]))
    pieces = [("  …" if hit.before else "  ", "")]
    end = 0
    for first, last in hit.found:
        pieces += [(_line(hit.snippet[end:first]), ""), (_line(hit.snippet[first:last]), "bold")]
        end = last
    draw(*pieces, (_line(hit.snippet[end:]) + "…" * hit.after, ""))


def _line(text: str) -> str:
    """Return a piece of a text as a part of a line."""
    return re.sub(r"\s+", " ", text)
