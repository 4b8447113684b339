"""`erase`: erase a session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from click import Choice, option

from projections.cli import output
from projections.cli.confirm import confirm
from projections.cli.exits import UsageFault
from projections.cli.options import JSON, REASON, SESSION, YES
from projections.cli.short_ids import session_of
from projections.cli.store_option import writing
from projections.cli.words import Context, command
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog import Store
    from eventlog.maintenance.erase import ErasurePlan

__all__ = ["run"]

_Choice: TypeAlias = Literal["refuse", "keep", "cascade"]
"""Treatment of the sessions that depend on the erased one."""
_LISTED = 5
"""How many ids an obstacle names."""


@command
@SESSION
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
    context: Context, session: str, *, forks: _Choice, subsessions: _Choice, reason: str, yes: bool, json: bool
) -> None:
    """Erase a session, so that it can no longer be read.

    All that stands in the way is named at once, with the option that removes it; then it asks. The
    store keeps the session's id, the root of its hash tree, the time and the reason, so that
    `eventlog verify --against` can tell an erasure from a loss. `eventlog vacuum` then removes the
    content from the files.
    """
    from eventlog.maintenance.erase import plan_erasure

    with writing(context) as store:
        name = session_of(store, session).id
        if name != session:
            output.note(f"{session} is taken for session {name}")
        plan = plan_erasure(store, name, forks=forks, subsessions=subsessions)
        obstacles = list(_obstacles(store, plan))
        if obstacles:
            raise UsageFault(f"session {name} is not erased: {'; '.join(obstacles)}")
        confirm(f"{counted(len(plan.erased), 'session')} will be erased", *_described(store, plan), yes=yes)
        erased = store.erase(name, forks=forks, subsessions=subsessions, reason=reason)
    output.answer({"session": name, "erased": list(erased)}, *(f"{each} is erased" for each in erased), json=json)


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
