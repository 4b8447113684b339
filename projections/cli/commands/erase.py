"""`erase`: erase a session, or all sessions of a scope."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from click import Choice, argument, option

from projections.cli import output
from projections.cli.confirm import confirm
from projections.cli.exits import UsageFault
from projections.cli.options import JSON, REASON, YES
from projections.cli.short_ids import session_of
from projections.cli.store_option import session_items, writing
from projections.cli.words import Context, command
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog import Store
    from eventlog.maintenance.erase import ErasurePlan

_Choice: TypeAlias = Literal["refuse", "keep", "cascade"]
"""Treatment of the sessions that depend on the erased one."""
_LISTED = 5
"""How many ids an obstacle names."""


@command
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
@REASON
@YES
@JSON
def run(
    context: Context,
    session: str | None,
    *,
    scope: str | None,
    forks: _Choice,
    subsessions: _Choice,
    reason: str,
    yes: bool,
    json: bool,
) -> None:
    """Erase a session, or all sessions of a scope, for good.

    All that stands in the way is named at once, with the option that removes it; then it asks. The
    store keeps the ids, the roots of their hash trees, the time and the reason, so that `eventlog
    verify --against` can tell an erasure from a loss. The content is out of the files, or rows,
    when the command ends. What it does not reach is listed.
    """
    from eventlog.maintenance.erase import plan_erasure
    from eventlog.maintenance.erase_scope import out_of_reach, sessions_of

    if (session is None) is (scope is None):
        raise UsageFault("name one SESSION to erase, or a --scope")
    with writing(context) as store:
        what = f"the scope {scope}"
        if session is None:
            names = sessions_of(store, scope or "")
        else:
            names = [session_of(store, session).id]
            what = f"session {names[0]}"
            if names[0] != session:
                output.note(f"{session} is taken for {what}")
        plan = plan_erasure(store, names, forks=forks, subsessions=subsessions)
        obstacles = list(_obstacles(store, plan))
        if obstacles:
            raise UsageFault(f"{what} is not erased: {'; '.join(obstacles)}")
        confirm(f"{counted(len(plan.erased), 'session')} will be erased", *_described(store, plan), yes=yes)
        if scope is None:
            erased = store.erase(names[0], forks=forks, subsessions=subsessions, reason=reason)
            document: dict[str, Any] = {"session": names[0], "erased": list(erased)}
        else:
            done = store.erase_scope(scope, forks=forks, subsessions=subsessions, reason=reason)
            erased = done.erased
            document = {"scope": scope, "erased": list(erased), "kept": list(done.kept)}
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
        for name in plan.running[:_LISTED]:
            yield f"{name} is run by {runner(store, name) or 'another program'}: stop that program"


def _described(store: Store, plan: ErasurePlan) -> Iterator[str]:
    for name in plan.erased[:_LISTED]:
        info = store.info(name)
        yield f"  {name}  {info.title or 'without a title'}, {counted(info.messages, 'message')}"
    if len(plan.erased) > _LISTED:
        yield f"  and {len(plan.erased) - _LISTED} more"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
