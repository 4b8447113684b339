"""Carry out a compaction: select, summarise, check the summary, complete or fail.

`next_step.py` decides to compact.  The pure pieces are in `compaction/`: `selection.py`,
`request.py`.  Events are appended through the session's ordinary
commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from eventlog import events as ev
from eventlog.errors.base import giving_way_to
from eventlog.values import MessageError, Model
from projections.loop.context.continuation import continuation_events, tokens_after
from projections.loop.context.summary_run import SummaryFailure, SummaryRun, judge
from projections.loop.decision.loop_state import NOTHING
from projections.window.compaction.summarizer import Summarizer
from projections.window.policy.hooks import Hooks

if TYPE_CHECKING:
    from eventlog.session.session import Session
    from projections.loop.decision.situation import Situation
    from projections.loop.decision.steps import Compact


class CompactionResult(msgspec.Struct, frozen=True):
    """How a compaction ended.  `reason` is "" if it is in force now."""

    part: str
    reason: str = ""
    summary: str | None = None
    """The summary message."""
    covered: int = 0
    """Messages that it covers; none if it failed."""
    requests: int = 0
    """Requests it took to summarise them."""
    tokens_before: int = 0
    tokens_after: int = 0

    @property
    def completed(self) -> bool:
        """Whether it is in force."""
        return not self.reason


def run_compaction(
    session: Session,
    now: Situation,
    version: int,
    step: Compact,
    *,
    summarizer: Summarizer,
    hooks: Hooks,
    model: Model | None,
) -> CompactionResult:
    """Carry out the compaction that `step` names; a failure is recorded as one.

    `now` is the situation right after `version`. What the summariser raises is a failed compaction,
    and what interrupts the program (not an `Exception`) an aborted one, raised again. Errors of the
    store are raised as they are.
    """
    asked = now.summarisable.messages[step.message]
    before = now.request()
    selection = now.selection(step.message)
    if selection is None:
        session.context.fail_compaction(step.part, NOTHING)
        return CompactionResult(step.part, NOTHING)
    run = SummaryRun(
        session,
        now,
        version,
        selection,
        marker=step.message,
        summarizer=summarizer,
        hooks=hooks,
        model=model,
        since=asked.version,
    )
    session.context.start_compaction(
        step.part,
        through=selection.through,
        tail=selection.tail,
        kept=selection.kept,
        tokens_before=before,
        model=model,
        prompt_digest=run.prompt_digest,
    )
    with session.assistant(
        None if run.is_offline else model,
        reply_to=step.message,
        agent="compaction",
        mode="compaction",
        summary=True,
        view=version,
    ) as reply:
        try:
            text = run.write(reply)
            after = tokens_after(now, step, selection, text)
            judge(text, after, now.largest)
        except SummaryFailure as failed:
            reply.abort(failed.error)
            session.context.fail_compaction(step.part, str(failed), summary=reply.id)
            return CompactionResult(step.part, str(failed), reply.id, 0, run.requests, before)
        except BaseException as error:
            with giving_way_to(error, "compaction"):
                reply.abort(MessageError("aborted"))
                session.context.fail_compaction(step.part, "aborted", summary=reply.id)
            raise
        reply.finish("stop")
    bodies: dict[bytes, bytes] = {}
    then = continuation_events(session, now, step, selection, bodies, like=asked, hooks=hooks)
    completed = ev.CompactionCompleted(step.part, reply.id, after)
    session.executor.command([completed, *then], bodies)  # the window leaves the checkpoint
    return CompactionResult(step.part, "", reply.id, len(selection.head), run.requests, before, after)
