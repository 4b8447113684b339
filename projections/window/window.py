"""The one object above the line that appends: it keeps a session's view inside its model's window.

Decisions are pure (`next_step.py` and the planners); this object projects the session (`window_state.py`), asks them, and carries out what they say through
the session's ordinary commands.  Model and tools are the program's: `begin` opens the reply to be filled, `RunTools` names the
calls.  For one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast, get_args

from eventlog.errors import CallError, NotFoundError, RefusedError
from eventlog.session.lease import Lease
from eventlog.session.tool_call import ToolCall
from eventlog.validation import json_value, require, require_function, require_or_none
from eventlog.values import Model
from projections.window.compact import Compaction, CompactionResult
from projections.window.loop_state import TASK, newest_change
from projections.window.next_step import next_step
from projections.window.policy import ContextPolicy, encode_policy
from projections.window.retrieval.recall_calls import RECALL, answer_recall, with_recall
from projections.window.steps import (
    CallModel,
    Compact,
    PendingCall,
    Promote,
    Prune,
    RequestCompaction,
    RunSubtask,
    Step,
)
from projections.window.truncation import bounds, truncate
from projections.window.window_state import LAST_STEP, ProjectedSession, Request

if TYPE_CHECKING:
    from eventlog.session.reply import Reply
    from eventlog.session.session import Session
    from eventlog.values import Attachment
    from projections.conversation.parts import Message

__all__ = ["LAST_STEP", "ContextWindow", "Request", "Started"]

_A_CALL = "a call is what `Reply.tool` or `start` gave"
_A_PENDING = "a call that is to run is a PendingCall"


class Started(NamedTuple):
    """A call that runs, and its arguments."""

    call: ToolCall
    arguments: dict[str, Any]


class ContextWindow(ProjectedSession):
    """A session's window.  `with ContextWindow(session) as window` also holds the lease and closes what is left open."""

    lease: Lease | None = None
    """The right to run the session, while the window is open."""

    # -- the loop ------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.lease = self.session.executor.acquire()
        try:
            self.record()
            self.catch_up()
        except BaseException:
            self.session.executor.release(self.lease)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._reply is not None:
                self._reply.close(kind)
            self._cache.flush()
        finally:
            self._reply = None
            if self.lease is not None:
                self.session.executor.release(self.lease)

    def record(self) -> None:
        """Record the policy, model, limits and `recall` that were given, where the session has not recorded them so."""
        self.catch_up()
        self._offer_recall()
        state = self._live.state
        policy, model, limits = self._given
        changed = (
            model if model != state.model else None,
            limits if limits != state.limits else None,
            policy if policy is not None and policy != (state.policy or encode_policy(ContextPolicy())) else None,
        )
        if any(change is not None for change in changed):
            self.session.set_settings(model=changed[0], limits=changed[1], policy=changed[2])

    def next_step(self, *, allow_repeats: bool = False) -> Step:
        """What to do now; false when the loop is to end.  `allow_repeats`: identical calls in a row are no reason to stop."""
        self.catch_up()
        if self.session.version - self._saved >= self._checkpoint_every:
            self.save()
        return next_step(self.situation(allow_repeats=allow_repeats))

    def perform(self, step: Step) -> CompactionResult | None:
        """Carry out a step that is the window's own: prune, request, compact or promote; `CallError` for another."""
        require(get_args(Step), step, "a step is what `next_step` gives")
        session = self.session
        match step:
            case Prune():
                session.context.prune(step.plan.parts, policy=step.plan.policy, freed=step.plan.freed)
            case RequestCompaction():
                self._request_compaction(auto=True, overflow=step.overflow)
            case Compact():
                with session.lease():
                    return self._compact(step)
            case Promote():
                session.context.promote(step.message)
            case _:
                raise CallError(f"{type(step).__name__} is for the program to carry out, not for the window")
        return None

    def begin(
        self,
        step: CallModel,
        model: Model | str | None = None,
        *,
        agent: str = "",
        snapshot: str | None = None,
    ) -> tuple[Reply, Request]:
        """Open the reply that this step fills, and record what the model is sent for it; needs the lease (`with`).

        Ends with `reply.finish`, after `reply.end_step` where tools run in between.
        """
        require(CallModel, step, "the step that a reply fills is a CallModel")
        require(str, agent, "an agent is a str")
        require_or_none(str, snapshot, "a snapshot is a str")
        if self._open() is not None:
            raise RefusedError("a reply is open", expected="its end")
        if not self.session.holds_lease:
            raise RefusedError("the lease is not held", expected="`with ContextWindow(…) as window`")
        self._offer_recall()
        request = self.request(step)
        asked = self._asked(step.reply_to)
        reply = self.session.assistant(
            model or self.model or asked.model,
            reply_to=step.reply_to,
            agent=agent or asked.agent,
            variant=asked.variant,
        )
        reply.begin()
        self._reply = reply
        reply.step(
            view_version=request.version,
            view_digest=request.digest,
            render=request.render,
            snapshot=snapshot,
            counted=request.counted,
            patch=request.patch,
        )
        return reply, request

    def run(self, call: PendingCall, tool: Callable[[dict[str, Any]], str]) -> None:
        """Run one call of the open reply: the tool is started only once that is durable, and what it gives or raises is recorded.

        `tool` is given the arguments (a JSON object) and returns the output.  What it raises (`Exception`) is the call's failure, in the
        words of the exception; so are arguments that are no JSON object.  A call of `recall`, where that is offered, the window answers itself.
        """
        require_function(tool, "a tool is a function that is given the arguments")
        started = self.start(call)
        if started is None:
            return
        try:
            output = self.recall(started.arguments) if self.is_recall(call) else tool(started.arguments)
        except Exception as error:  # noqa: BLE001  # whatever a tool raises is its result
            self.fail(started.call, error)
        else:
            self.succeed(started.call, output)

    def is_recall(self, call: PendingCall) -> bool:
        """Whether a call is one of `recall`, which this window offers and answers."""
        require(PendingCall, call, _A_PENDING)
        return call.tool == RECALL and self.offers_recall

    def recall(self, arguments: dict[str, Any]) -> str:
        """Answer a call of `recall`; raises what is then the call's failure."""
        require(Mapping, arguments, "arguments are a mapping of names to values")
        return answer_recall(self.session, arguments, bounds(self.policy.truncation, self.usable))

    def start(self, call: PendingCall) -> Started | None:
        """Record, durably, that a call of the open reply runs; None if its arguments are no JSON object, which is then its failure."""
        require(PendingCall, call, _A_PENDING)
        reply = self._reply
        if reply is None or not reply.is_open:
            raise RefusedError("no reply is open", expected="`begin`")
        handle = reply.call(call.part)
        arguments = _arguments(call.input)
        if not call.running:
            handle.start("{}" if arguments is None else call.input or "{}")
        if arguments is None:
            handle.fail(f"the arguments are not a JSON object: {call.input[:200]}")
            return None
        return Started(handle, arguments)

    def fail(self, call: ToolCall, error: Exception) -> None:
        """Record what a tool raised as the failure of its call."""
        require(ToolCall, call, _A_CALL)
        require(Exception, error, "an error is what a tool raised")
        call.fail(f"{type(error).__name__}: {error}")

    def finish(self, reason: str = "tool-calls") -> None:
        """Close the open reply, once all its calls have results."""
        if self._reply is None:
            raise RefusedError("no reply is open", expected="`begin`")
        self._reply.finish(reason)

    def run_subtask(self, step: RunSubtask, run: Callable[[Session], str]) -> Session:
        """Give a subtask to a sub-session, which `run` is to work on; its answer becomes the result of a `task` call.

        The sub-session is the same one when a crash comes in between.
        """
        require_function(run, "`run` is a function that is given the sub-session")
        with self.subtask(step) as (child, call):
            try:
                output = run(child)
            except Exception as error:  # noqa: BLE001  # as with a tool
                self.fail(call, error)
            else:
                self.succeed(call, output)
        return child

    @contextmanager
    def subtask(self, step: RunSubtask) -> Generator[tuple[Session, ToolCall]]:
        """Open a subtask: the sub-session to work on, and the call to settle in the block."""
        require(RunSubtask, step, "the step of a subtask is a RunSubtask")
        name = f"{self.session.id[:200]}-{step.part[-40:]}"
        task = step.subtask
        try:
            child = self.session.store.session(name)
        except NotFoundError:
            child = self.session.subsession(id=name, title=task.description, agent=task.agent)
        if not child.reader.state().messages:
            child.user(self.session.text(task.prompt), agent=task.agent, model=task.model)
        asked = self._asked(step.message)
        with self.session.assistant(task.model or asked.model, reply_to=step.message, agent=asked.agent) as reply:
            given: dict[str, object] = {
                "description": task.description,
                "subagent_type": task.agent,
                "session": child.id,
            }
            yield child, reply.tool(TASK, call_id=step.part, input=given)
            reply.finish("tool-calls")

    def succeed(
        self,
        call: ToolCall,
        output: str,
        *,
        title: str = "",
        attachments: Sequence[Attachment] = (),
        metadata: str | None = None,
    ) -> None:
        """Record a tool's full output; the view shows a preview of one that is too long."""
        require(ToolCall, call, _A_CALL)
        require(str, output, "an output is a str")
        part = call.id if self.offers_recall else None
        truncation = truncate(output, self.policy.truncation, self.usable, part=part)
        call.succeed(output, title=title, attachments=attachments, metadata=metadata, truncation=truncation)

    # -- by hand -------------------------------------------------------------------------------

    def prune(self, *, inside: bool = False, policy: str | None = None) -> Prune | None:
        """Prune now, as after a loop, if it is worth it; returns what was done.  `policy` names another planner."""
        require_or_none(str, policy, "a policy is the name of a planner")
        self.catch_up()
        plan = self.situation().prune_plan(inside=inside, planner=policy)
        if plan is None:
            return None
        step = Prune(plan)
        self.perform(step)
        return step

    def compact(self) -> CompactionResult:
        """Compact now, whatever the window holds."""
        with self.session.lease():
            self.catch_up()
            part = self._request_compaction(auto=False, overflow=None)
            self.catch_up()
            message = self._live.state.compactions[part].message
            return self._compact(Compact(part, message, auto=False, overflow=False))

    def undo(self) -> str:
        """Undo the newest prune, compaction or rollback that is in force; returns which of them it was."""
        with self.session.lease():
            self.catch_up()
            newest = newest_change(self.session.reader, self.agenda)
            with self.session.reader.deciding() as facts:
                rollback = facts.history.to_redo()
            if rollback is not None and (newest is None or rollback > newest.version):
                self.session.redo()
                return "rollback"
            if newest is None:
                raise RefusedError("there is nothing to undo", expected="a prune, a compaction or a rollback")
            if newest.kind == "prune":
                self.session.context.unprune(newest.parts)
            else:
                self.session.context.undo_compaction()
            return newest.kind

    def save(self) -> None:
        """Keep checkpoints of what is projected, and the counts; for a program that may write."""
        self._live.save()
        self._agenda.save()
        self._cache.flush()
        self._saved = self.session.version

    # -- helpers -------------------------------------------------------------------------------

    def _asked(self, name: str) -> Message:
        """The message that a step answers."""
        message = self._live.state.messages.get(name)
        if message is None:
            raise NotFoundError("message", name, session=self.session.id)
        return message

    def _offer_recall(self) -> None:
        """Add the tool to those that the session has recorded, if it is wanted and not among them."""
        if self._recall and not self.offers_recall:
            tools = self._live.state.tools
            self.session.set_tools(with_recall(None if tools is None else self.session.text(tools)))
            self.catch_up()

    def _request_compaction(self, *, auto: bool, overflow: bool | None) -> str:
        like = self._newest_user()
        return self.session.context.request_compaction(
            auto=auto,
            overflow=overflow,
            agent="" if like is None else like.agent,
            model=self.model if like is None else like.model,
        )

    def _compact(self, step: Compact) -> CompactionResult:
        self.catch_up()
        like = self._live.state.messages[step.message]
        run = Compaction(
            self.session,
            self.situation(),
            self._live.version,
            count=self._count,
            summarizer=self._summarizer,
            hooks=self.hooks,
            model=self._summary_model or like.model or self.model,
        )
        result = run.run(step)
        self.catch_up()
        if result.completed:
            self._sizes.forget()
            self.save()
        return result


def _arguments(text: str) -> dict[str, Any] | None:
    """The arguments of a call; None if they are no JSON object.  None at all are an empty one."""
    try:
        found = json_value(text or "{}")
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None
