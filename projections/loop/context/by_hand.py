"""Changes that a user asks for: a prune, a compaction, an undoing of the newest change.

Each is done once for a request id; asked again, it needs no lease and has its first result.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from eventlog import events as ev
from eventlog.errors import RefusedError
from eventlog.session.context import undo_latest
from eventlog.session.failure import ROLLED_BACK
from eventlog.session.rollback import go_back
from eventlog.validation import require_or_none
from projections.loop.context.compaction_run import CompactionResult
from projections.loop.decision.loop_state import LoopState, UndoableChange
from projections.loop.decision.loop_state_projection import LoopStateProjection
from projections.loop.decision.steps import Compact, Prune
from projections.replay.loop import replay
from projections.window.compaction.record import SummaryRecord
from projections.window.prune.case import PrunePlan

if TYPE_CHECKING:
    from eventlog.log.commit import Committed
    from eventlog.session.executor import Request
    from eventlog.session.reader import SessionReader
    from eventlog.session.session import Session
    from projections.loop.context.window_state import WindowState


def prune(
    session: Session, state: WindowState, request_id: str | None, *, inside: bool, planner: str | None
) -> Prune | None:
    """Prune now; see `ContextWindow.prune`."""
    context, executor = session.context, session.executor

    def work(request: Request | None) -> Prune | None:
        step = state.prune_by_hand(inside=inside, planner=planner)
        if step is None:
            return None
        plan = step.plan
        if request is None:
            context.prune(plan.parts, arguments=plan.arguments, policy=plan.policy, freed=plan.freed)
            return step
        pruned = ev.Pruned(plan.parts, plan.policy, plan.freed, plan.arguments)
        return first(executor.commit([pruned], request=request))

    def first(known: Committed) -> Prune:
        (made,) = executor.reader.events(known.first - 1, known.last)
        assert isinstance(made.event, ev.Pruned)
        return Prune(PrunePlan(made.event.parts, made.event.freed, made.event.policy, made.event.arguments))

    if request_id is None:
        return work(None)
    return executor.once(f"a prune, inside={inside}, policy={planner}", request_id, work, first)


def compact(
    session: Session, state: WindowState, run: Callable[[Compact], CompactionResult], request_id: str | None
) -> CompactionResult:
    """Compact now; see `ContextWindow.compact`.  `run` carries out what is asked for."""
    require_or_none(str, request_id, "a request id is a str")
    if request_id is not None and (known := _result(session, request_id)) is not None:
        return known
    with session.lease():
        state.catch_up()
        agent, model = state.asks_as
        part = session.context.request_compaction(agent=agent, model=model, request_id=request_id)
        state.catch_up()
        asked = state.conversation.compactions.get(part)
        if asked is not None and asked.status == "requested":
            return run(Compact(part, asked.message, auto=False, overflow=False))
    assert request_id is not None  # another process was asked for it, and may have gone in the middle
    return _result(session, request_id) or CompactionResult(part, ROLLED_BACK)


def _result(session: Session, request_id: str) -> CompactionResult | None:
    """Return how the compaction of a request ended; None if it is new, or did not end."""
    known = session.store.log.request(session.id, request_id)
    if known is None:
        return None
    part = session.context.request_compaction(request_id=request_id)  # refused if the request was another
    before, covered, requests = 0, 0, Counter[str]()
    for span in session.reader.spans(known.first - 1):
        match span.item:
            case ev.CompactionStarted(part=name) as started if name == part:
                before = started.tokens_before or 0
            case ev.StepStarted(purpose="summary") as step:
                requests[step.message] += 1
                covered = msgspec.json.decode(step.render or "{}", type=SummaryRecord).covered
            case ev.CompactionFailed(part=name, reason=reason, summary=summary) if name == part:
                return CompactionResult(part, reason or "failed", summary, 0, requests[summary or ""], before)
            case ev.CompactionCompleted(part=name, summary=summary, tokens_after=after) if name == part:
                return CompactionResult(part, "", summary, covered, requests[summary], before, after or 0)
            case _:
                pass
    return None


def undo_newest(session: Session, state: WindowState, request_id: str | None) -> str:
    """Undo the newest prune, compaction or rollback in force; return which it was."""
    executor = session.executor

    def undo(request: Request | None) -> str:
        state.catch_up()
        newest = newest_change(session.reader, state.loop)
        with session.reader.deciding() as facts:
            rollback = facts.history.to_redo()
        if rollback is not None and (newest is None or rollback > newest.version):
            go_back(executor, lambda _facts: rollback - 1, request)
            return "rollback"
        if newest is None:
            raise RefusedError("there is nothing to undo", expected="a prune, a compaction or a rollback")
        if newest.kind == "compaction":
            undo_latest(executor, request)
            return "compaction"
        is_prune = newest.kind == "prune"  # else a provider's compaction: its targets are shown the messages again
        undone = ev.Restored(newest.parts, newest.arguments) if is_prune else ev.PartRemoved(newest.parts[0])
        return first(executor.commit([undone], request=request))

    def first(known: Committed) -> str:
        made, *_ = executor.reader.events(known.first - 1, known.first)
        if isinstance(made.event, ev.RolledBack):
            return "rollback"
        return "prune" if isinstance(made.event, ev.Restored) else "compaction"

    return executor.once("the undoing of the newest change", request_id, undo, first)


def newest_change(source: SessionReader, loop: LoopState) -> UndoableChange | None:
    """Return the newest prune or compaction in force.

    Reads the history if the state holds none: it keeps only the newest changes.
    """
    if not loop.changes:
        loop, _ = replay(LoopStateProjection(sys.maxsize), source)
    return loop.changes[-1] if loop.changes else None
