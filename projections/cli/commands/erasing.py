"""`erase`, `expire` and `redact`: remove sessions and parts, after a question."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import click
from click import Choice, argument, option

from projections.cli import output
from projections.cli.confirm import confirm
from projections.cli.exits import Fault
from projections.cli.short_ids import part_named, session_of
from projections.cli.store_option import session_items, writing, writing_session
from projections.cli.times import DURATION
from projections.cli.words import DRY_RUN, command, flag, integer
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog import Session, Store
    from eventlog.maintenance.erase import ErasurePlan

_Choice: TypeAlias = Literal["refuse", "keep", "cascade"]
"""Treatment of the sessions that depend on the erased one."""
_NAMED = 5
"""How many ids an obstacle names."""
_LISTED = 20
"""How many sessions a question lists."""
_REASON = option("--reason", default="", help="Why; the text is recorded.")
_YES = flag("--yes", "-y", help="Erase without asking; needed without a terminal.")


@command(writing)
@argument(
    "session",
    required=False,
    shell_complete=session_items,
    help="Id of a session, or its beginning or end if that is unique.",
)
@option("--scope", metavar="SCOPE", help="All sessions of this scope, as a user or a tenant, instead of one.")
@option(
    "--forks",
    type=Choice(get_args(_Choice)),
    default="refuse",
    help="If it has forks: refuse, keep them with their history, or erase them, too.",
)
@option(
    "--subsessions",
    type=Choice(get_args(_Choice)),
    default="refuse",
    help="If it has sub-sessions: refuse, keep or erase them.",
)
@_REASON
@_YES
def erase(store: Store, session: str | None, *, scope: str | None, yes: bool, json: bool, **how: Any) -> None:
    """Erase a session, or all sessions of a scope, for good.

    All that stands in the way is named at once, with the option that removes it; then it asks. The
    store keeps the ids, the roots of their hash trees, the time and the reason, so that `eventlog
    verify --against` can tell an erasure from a loss. The content is out of the files, or rows,
    when the command ends. What it does not reach is listed.
    """
    from eventlog.history.session_page import sessions_of
    from eventlog.maintenance.erase import plan_erasure
    from eventlog.maintenance.erase_scope import out_of_reach

    if (session is None) is (scope is None):
        raise Fault("name one SESSION to erase, or a --scope")
    what = f"the scope {scope}"
    if session is None:
        names = sessions_of(store.log, scope or "")
    else:
        names = [session_of(store, session).id]
        what = f"session {names[0]}"
        if names[0] != session:
            output.note(f"{session} is taken for {what}")
    plan = plan_erasure(store, names, forks=how["forks"], subsessions=how["subsessions"])
    obstacles = list(_obstacles(store, plan))
    if obstacles:
        raise Fault(f"{what} is not erased: {'; '.join(obstacles)}")
    confirm(f"{counted(len(plan.erased), 'session')} will be erased", *_described(store, plan.erased), yes=yes)
    if scope is None:
        erased = store.erase(names[0], **how)
        document: dict[str, Any] = {"session": names[0], "erased": erased}
    else:
        done = store.erase_scope(scope, **how)
        erased = done.erased
        document = {"scope": scope, "erased": erased, "kept": done.kept}
    left = list(out_of_reach(store.log))
    lines = [f"{each} is erased" for each in erased] or [f"{what} has no sessions"]
    reach = ["out of reach are:", *(f"  {each}" for each in left)] if erased else []
    output.answer(document | {"out_of_reach": left}, *lines, *reach, json=json)


def _obstacles(store: Store, plan: ErasurePlan) -> Iterator[str]:
    """Yield what stands in the way, with what removes it."""
    from projections.cli.holders import runner

    if plan.forks:
        yield f"it has {counted(len(plan.forks), 'fork')} ({_listed(plan.forks)}): give --forks keep or cascade"
    if plan.subsessions:
        which = _listed(plan.subsessions)
        yield (f"it has {counted(len(plan.subsessions), 'sub-session')} ({which}): give --subsessions keep or cascade")
    if plan.running and (plan.forks or plan.subsessions):  # alone it is an error that names who runs it
        for name in plan.running[:_NAMED]:
            yield f"{name} is run by {runner(store, name) or 'another program'}: stop that program"


def _described(store: Store, names: tuple[str, ...]) -> Iterator[str]:
    for name in names[:_LISTED]:
        info = store.info(name)
        yield f"  {name}  {info.title or 'without a title'}, {counted(info.messages, 'message')}"
    if len(names) > _LISTED:
        yield f"  and {len(names) - _LISTED} more"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")


class _Size(click.ParamType[int]):
    """A number of bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the bytes that a word says."""
        matched = re.fullmatch(r"(\d{1,15})([kmg]?)b?", value.lower())
        if matched is None:
            from eventlog.errors.base import brief

            self.fail(f"{brief(value)} is no size; give a number, and K, M or G, as in 500M", param, ctx)
        return int(matched[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[matched[2]]


@command(writing)
@option("--age", type=DURATION, metavar="TIME", help=f"Keep sessions with an event in this time: {DURATION.says}.")
@integer("--count", help="Keep N sessions; sub-sessions do not count.")
@option("--size", type=_Size(), metavar="BYTES", help="Keep so many bytes of events and texts, as in 500M (or K, G).")
@option("--scope", metavar="SCOPE", help="Consider only the sessions of this scope.")
@DRY_RUN
@_YES
def expire(store: Store, *, dry_run: bool, yes: bool, json: bool, **limits: Any) -> None:
    """Erase the least recently used sessions, down to given limits.

    Whole sessions are erased until the store is within all limits given. Sub-sessions are erased
    with their session; forks are kept with their history; a session that a program is running
    stays. Lists them and asks, before it erases any.
    """
    result = store.expire(**limits, dry_run=True)
    if result.erased and not dry_run:
        question = f"{counted(len(result.erased), 'session')} will be erased"
        confirm(question, *_described(store, result.erased), yes=yes)
        result = store.expire(**limits)
    output.answer(
        {"erased": result.erased, "running": result.running, "dry_run": dry_run},
        *(f"{name} would be erased" if dry_run else f"{name} is erased" for name in result.erased),
        f"{counted(len(result.erased), 'session')} {'would be erased' if dry_run else 'erased'}",
        *(f"{name} is being run, and {'would stay' if dry_run else 'stays'}" for name in result.running),
        json=json,
    )


@command(writing_session)
@argument("part", help="Id of the part; `eventlog show --json` lists them.")
@_REASON
@option("--search/--no-search", default=True, help="List other places with the same text.")
@_YES
def redact(session: Session, part: str, *, reason: str, search: bool, yes: bool, json: bool) -> None:
    """Hide a part in every view of its session and its forks.

    The part is hidden at every version, earlier ones included. Other places with the same text are
    listed, so that they can be redacted, too. `eventlog scrub` then removes the content from the
    files. Asks first: a redaction cannot be undone.
    """
    from projections.reports.event_json import kind_named

    name = part_named(session, part)
    confirm(f"part {name} of {session.id} will be hidden for good", *_content(session, name), yes=yes)
    result = session.redact(name, reason, search=search)
    occurrences = [{**output.fields(place), "kind": kind_named(place.kind)} for place in result.occurrences]
    output.answer(
        {"part": result.part, "session": result.session, "occurrences": occurrences},
        f"{result.part} of {result.session} is redacted",
        *(["The same text, or a line of it, is also in:"] if occurrences else []),
        json=json,
    )
    if occurrences and not json:
        rows = [(place["session"], place["version"], place["kind"], place["part"]) for place in occurrences]
        output.table(["session", "version", "event", "part"], rows, numbers=["version"])


def _content(session: Session, part: str) -> Iterator[str]:
    """Yield the first words of what will be hidden, if there are any."""
    from eventlog.errors import EventlogError
    from projections.view.opening_words import opening
    from projections.window import recall

    with suppress(EventlogError):  # what can be redacted need not be a text
        yield f"  {opening(recall(session, part).text)}"
