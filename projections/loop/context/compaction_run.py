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
    from eventlog.session.reply import Reply
    from eventlog.session.session import Session
    from projections.loop.decision.situation import Situation
    from projections.loop.decision.steps import Compact

__all__ = ["CompactionResult", "CompactionRun"]


class CompactionResult(msgspec.Struct, frozen=True):
    """How a compaction ended.  `reason` is "" if it is in force now."""

    part: str
    reason: str = ""
    summary: str | None = None
    """The summary message."""
    covered: int = 0
    """Messages that it covers."""
    requests: int = 0
    """Requests it took to summarise them."""
    tokens_before: int = 0
    tokens_after: int = 0

    @property
    def completed(self) -> bool:
        """Whether it is in force."""
        return not self.reason


class CompactionRun:
    """One run."""

    def __init__(
        self,
        session: Session,
        situation: Situation,
        version: int,
        *,
        summarizer: Summarizer,
        hooks: Hooks,
        model: Model | None,
    ) -> None:
        """`situation` is that right after `version`."""
        self._session = session
        self._now = situation
        self._version = version
        self._summarizer = summarizer
        self._hooks = hooks
        self._model = model
        self._before = 0
        """Tokens of the next request before it."""

    def run(self, step: Compact) -> CompactionResult:
        """Carry out the compaction that `step` names; a failure is recorded as one.

        What the summariser raises is a failed compaction, and what interrupts the program (not an
        `Exception`) an aborted one, raised again. Errors of the store are raised as they are.
        """
        now, asked = self._now, self._now.summarisable.messages[step.message]
        self._before = now.request()
        selection = now.selection(step.message)
        if selection is None:
            self._session.context.fail_compaction(step.part, NOTHING)
            return CompactionResult(step.part, NOTHING, tokens_before=self._before)
        run = SummaryRun(
            self._session,
            now,
            self._version,
            selection,
            marker=step.message,
            summarizer=self._summarizer,
            hooks=self._hooks,
            model=self._model,
            since=asked.version,
        )
        self._session.context.start_compaction(
            step.part,
            through=selection.through,
            tail=selection.tail,
            kept=selection.kept,
            tokens_before=self._before,
            model=self._model,
            prompt_digest=run.prompt_digest,
        )
        with self._session.assistant(
            self._model,
            reply_to=step.message,
            agent="compaction",
            mode="compaction",
            summary=True,
            view=self._version,
        ) as reply:
            try:
                text = run.write(reply)
                after = tokens_after(now, step, selection, text)
                judge(text, after, now.largest)
            except SummaryFailure as failed:
                reply.abort(failed.error)
                self._session.context.fail_compaction(step.part, str(failed), summary=reply.id)
                return self._result(step, reply, run, len(selection.head), reason=str(failed))
            except BaseException as error:
                with giving_way_to(error, "compaction"):
                    reply.abort(MessageError("aborted"))
                    self._session.context.fail_compaction(step.part, "aborted", summary=reply.id)
                raise
            reply.finish("stop")
        bodies: dict[bytes, bytes] = {}
        then = continuation_events(self._session, now, step, selection, bodies, like=asked, hooks=self._hooks)
        completed = ev.CompactionCompleted(step.part, reply.id, after)
        self._session.executor.command([completed, *then], bodies)  # the window leaves the checkpoint
        return self._result(step, reply, run, len(selection.head), after=after)

    def _result(
        self, step: Compact, reply: Reply, run: SummaryRun, covered: int, *, reason: str = "", after: int = 0
    ) -> CompactionResult:
        return CompactionResult(step.part, reason, reply.id, covered, run.requests, self._before, after)
