"""`ContextWindow`: keeps requests inside the model's window, and names the next step.

Decisions are pure functions of what `WindowState` reads; this object carries them out. The program
calls the model and runs the tools: `begin` opens a reply, `RunTools` names calls. For one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, get_args

from eventlog.errors import CallError, RefusedError
from eventlog.errors.base import giving_way_to
from eventlog.session.held_lease import Lease
from eventlog.session.inputs import model_of
from eventlog.validation import require, require_call, require_function, require_or_none
from eventlog.values import Limits, Model
from projections.loop.context.background_summary import in_background
from projections.loop.context.by_hand import compact, prune, undo_newest
from projections.loop.context.compaction_run import CompactionResult, run_compaction
from projections.loop.context.offered_tools import OfferedTools
from projections.loop.context.open_reply import RunningCall, fail, open_reply, require_no_reply, start_call, succeed
from projections.loop.context.refused_request import close_open_reply
from projections.loop.context.running_task import RunningTask, begin_subtask, begin_task
from projections.loop.context.window_state import WindowState
from projections.loop.decision.next_step import next_step
from projections.loop.decision.steps import (
    Blocked,
    CallModel,
    Compact,
    PendingCall,
    Promote,
    Prune,
    ReplaceMedia,
    RequestCompaction,
    RunSubtask,
    Step,
)
from projections.requests.forms import RequestForm, form_named, without_prefill
from projections.window.compaction.offline import summarize_offline
from projections.window.policy.hooks import Hooks
from projections.window.policy.policy import DEFAULT_POLICY, ContextPolicy

if TYPE_CHECKING:
    from eventlog.session.reply import Reply
    from eventlog.session.session import Session
    from eventlog.session.tool_call import ToolCall
    from eventlog.values import Attachment
    from projections.loop.context.model_request import ModelRequest
    from projections.view.model_view import ModelView
    from projections.view.options import RenderOptions
    from projections.window.compaction.summarizer import Summarizer


class ContextWindow:
    """Keeps a session inside its model's window.

    `with ContextWindow(session) as window` holds the lease and closes what the program leaves open.
    """

    lease: Lease | None = None
    """The right to run the session, inside `with`."""

    def __init__(
        self,
        session: Session,
        policy: ContextPolicy | str | None = None,
        *,
        model: Model | str | None = None,
        limits: Limits | None = None,
        summarizer: Summarizer = summarize_offline,
        summary_model: Model | str | None = None,
        hooks: Hooks | None = None,
        options: RenderOptions | None = None,
        environment: Mapping[str, str] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        recall: bool = False,
        checkpoint_every: int = 2_000,
        endpoint: str = "",
        background: bool = False,
    ) -> None:
        """Open a window on a session; nothing is written before `with`, or a command.

        `policy` (or the name of one), `model` and `limits` win over what the session recorded;
        `with` and `record` record them. Limits that are neither given nor recorded for the model
        are those of the catalogue. `options` (constraints, reminders) win over the policy's preset;
        their model is the session's, and every step records them. `endpoint` names the host, region
        or account that is asked, if one refuses the ciphers of another. `summarizer` writes the
        summaries of compactions; `summary_model` is recorded with them, and its limits are taken to
        be those of the model. `hooks` change requests and prompts. `tools` are the schemas that are
        offered from here on, in the provider's form; without them those that the session has
        recorded. `recall` offers the model a tool that reads truncated output: `with` adds it to
        the session's tools, and `run` answers its calls. `environment` has the switches
        (`EVENTLOG_PRUNE` …), `os.environ` by default. With `background` a thread writes summaries
        in a sub-session while this goes on; not with `summarize_offline`. Checkpoints are stored
        after every compaction, and after `checkpoint_every` events. Raises `UnknownModelError` for
        a `model` without `limits` that the store's catalogue does not know.
        """
        require(int, checkpoint_every, "checkpoint_every is a number of events")
        require_call(summarizer, "a summariser is a function that is given a request")
        self.state: WindowState = WindowState(
            session,
            policy,
            model=model,
            limits=limits,
            hooks=hooks,
            options=options,
            environment=environment,
            endpoint=endpoint,
        )
        """The window's knowledge of the session: policy, limits, sizes, counts."""
        self.state.pays_for_summaries = summarizer is not summarize_offline
        self.session = session
        """The session that this is the window of."""
        self._summarizer, self._summary_model = summarizer, model_of(summary_model)
        self._background = in_background(session, self.state, summarizer, self._summary_model, wanted=background)
        self._tools = OfferedTools(session, tools, recall=recall)
        self._checkpoint_every, self._saved = checkpoint_every, session.version
        self._resumed = False
        """Whether the calls of this step are those of a finished message."""
        self._step: Step | None = None

    # -- the loop ------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.lease = self.session.executor.acquire()
        try:
            self.record()
            self.state.catch_up()
        except BaseException:
            self.session.executor.release(self.lease)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with giving_way_to(error, "window"):
            try:
                blocked = self._step.error() if isinstance(self._step, Blocked) else None
                close_open_reply(self.state, error or blocked)
                self.state.save_counts()
            finally:
                if self.lease is not None:
                    self.session.executor.release(self.lease)

    def record(self) -> None:
        """Record policy, model, limits and tools, unless the session has them."""
        self.state.catch_up()
        self._tools.record(self.state)
        model, limits, policy = self.state.unrecorded
        if (model, limits, policy) != (None, None, None):
            self.session.set_settings(model=model, limits=limits, policy=policy)

    def next_step(self, *, allow_repeats: bool = False) -> Step:
        """Return the step to do now; it is false when the loop is to end.

        `allow_repeats`: identical calls in a row do not stop the loop. A loop that is blocked
        leaves its turn to go on: asked again, it is resumed.
        """
        self.session.executor.pass_stop_on()
        self.state.catch_up()
        if self.session.version - self._saved >= self._checkpoint_every:
            self.save()
        self._step = next_step(self.state.situation(allow_repeats=allow_repeats))
        while self._background is not None and self._background.look(self._step):
            self._step = next_step(self.state.situation(allow_repeats=allow_repeats))
        return self._step

    def perform(self, step: Step) -> CompactionResult | None:
        """Carry out a step of the window's own: prune, replace media, compact, promote.

        Raises `CallError` for a step that is the program's.
        """
        require(get_args(Step), step, "a step is what `next_step` gives")
        session = self.session
        match step:
            case Prune():
                plan = step.plan
                session.context.prune(plan.parts, arguments=plan.arguments, policy=plan.policy, freed=plan.freed)
            case ReplaceMedia():
                session.context.replace_media(step.media, reason=step.reason, target=step.target)
            case RequestCompaction():
                agent, model = self.state.asks_as
                session.context.request_compaction(auto=True, overflow=step.overflow, agent=agent, model=model)
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
        form: RequestForm | str | None = None,
    ) -> tuple[Reply, ModelRequest]:
        """Open the reply that a step fills, and record its request; needs the lease (`with`).

        The program fills the reply and ends it with `reply.finish`, after `reply.end_step` where
        tools run in between. `agent` is the question's by default; `snapshot` is the state of the
        user's files. `form` is a provider's form, or the name of one (`requests/forms.py`):
        `request.body` is then the request in it, and the step records the form and its digest. A
        form that can do without a last message of the assistant does, but under OpenCode's preset.
        """
        require(CallModel, step, "the step that a reply fills is a CallModel")
        require(str, agent, "an agent is a str")
        require_or_none(str, snapshot, "a snapshot is a str")
        form = None if form is None else form_named(form)
        require_no_reply(self.session, self.state)
        self._tools.record(self.state)
        request = self.state.request(step)
        if form is not None and self.state.policy.preset == DEFAULT_POLICY.preset:
            form = without_prefill(form, request.messages)
        request = request.in_form(form)
        reply = open_reply(self.session, self.state, step.reply_to, request, model or self.state.model, agent=agent)
        reply.step(snapshot=snapshot, endpoint=self.state.endpoint, **request.record)
        return reply, request

    def run(self, call: PendingCall, tool: Callable[[dict[str, Any]], str]) -> None:
        """Run one call of the open reply, and record its result.

        The tool is started once the start is durable. `tool` is given the arguments (a JSON object)
        and returns the output; an `Exception` that it raises is recorded as the call's failure, and
        so are arguments that are no JSON object, an output that is no str, and a tool that the
        question switches off. The window answers calls of `recall` itself.
        """
        require_function(tool, "a tool is a function that is given the arguments")
        running = self.start(call)
        if running is None:
            return
        try:
            output = tool(running.arguments)
        except Exception as error:  # noqa: BLE001  # any exception of a tool is its result
            self.fail(running.call, error)
        else:
            self.succeed(running.call, output)

    def start(self, call: PendingCall) -> RunningCall | None:
        """Record, durably, that a call runs; None for one with a result, or asked again.

        It has one at once if its arguments are no JSON object, its tool is switched off, or the
        window answers it (`recall`).
        """
        require(PendingCall, call, "a call that is to run is a PendingCall")
        self._resumed = self._resumed or call.part in self.state.conversation.asked
        return start_call(self.session, self.state, call)

    def succeed(
        self,
        call: ToolCall,
        output: str,
        *,
        title: str = "",
        attachments: Sequence[Attachment] = (),
        metadata: str | None = None,
    ) -> None:
        """Record the whole output of a tool; the view shows a preview of one that is too long.

        `title`, `attachments` and `metadata` are those of `ToolCall.succeed`.
        """
        succeed(self.state, call, output, title=title, attachments=attachments, metadata=metadata)

    def fail(self, call: ToolCall, error: Exception) -> None:
        """Record what a tool raised as the failure of its call, with a preview likewise."""
        fail(self.state, call, error)

    def finish(self, reason: str = "tool-calls") -> None:
        """Close the open reply, once all its calls have results."""
        reply, resumed, self._resumed = self.state.open_reply, self._resumed, False
        if resumed and (reply is None or not reply.is_open):
            return  # it was finished before: by a crash that broke off tasks, or to ask a person
        if reply is None:
            raise RefusedError("no reply is open", expected="`begin`")
        reply.finish(reason)

    def run_task(self, call: PendingCall, run: Callable[[Session], str | None]) -> Session | None:
        """Give the work that a `task` call asks for to a sub-session; returns the sub-session.

        `run` works on the sub-session, whose question is the call's prompt. What it returns is the
        call's result; with None it is the answer that the question got. After a crash the step
        names the call again, and `run` gets the same sub-session to go on. An `Exception` that it
        raises is the call's failure, but a `ConnectionError`, which leaves the call to go on; a
        stop of this session stops the sub-session as well. None if the arguments are wrong, which
        is the call's failure.
        """
        require_function(run, "`run` is a function that is given the sub-session")
        task = self.start_task(call)
        if task is None:
            return None
        task.run(run)
        return task.session

    def start_task(self, call: PendingCall) -> RunningTask | None:
        """Record, durably, that a `task` call runs, and open its sub-session; see `run_task`.

        None if it has its result already: a failure that says what is wrong with the arguments.
        """
        require(PendingCall, call, "a call that is to run is a PendingCall")
        self._resumed = self._resumed or call.part in self.state.conversation.asked
        task = begin_task(self.session, self.state, call)
        self._resumed = self._resumed or (task is not None and task.is_resumed)
        return task

    def run_subtask(self, step: RunSubtask, run: Callable[[Session], str | None]) -> Session:
        """Run a `Subtask` part as a `task` call that the window makes; see `run_task`."""
        require_function(run, "`run` is a function that is given the sub-session")
        task = self.start_subtask(step)
        try:
            task.run(run)
        except BaseException as error:
            with giving_way_to(error, "window"):
                close_open_reply(self.state, error)
            raise
        self.finish()
        return task.session

    def start_subtask(self, step: RunSubtask) -> RunningTask:
        """Open a reply with a `task` call for a `Subtask` part, and begin it; see `start_task`.

        A call that a crash broke off goes on instead.
        """
        require(RunSubtask, step, "the step of a subtask is a RunSubtask")
        task = begin_subtask(self.session, self.state, step)
        self._resumed = task.is_resumed
        return task

    # -- reading -------------------------------------------------------------------------------

    def view(self, excluding: str | None = None) -> ModelView:
        """Return the view as of the last step, without the message `excluding`."""
        return self.state.view(excluding)

    @property
    def tokens(self) -> int:
        """Tokens of a request with the present view, calibrated by the provider's reports."""
        return self.state.tokens

    @property
    def waits(self) -> int:
        """Steps of this window that waited for a summary in the background."""
        return self._background.waits if self._background else 0

    # -- by hand -------------------------------------------------------------------------------

    def prune(self, *, inside: bool = False, policy: str | None = None, request_id: str | None = None) -> Prune | None:
        """Prune now, however full the window is, if enough is freed; return the step.

        `inside` prunes as inside a loop; `policy` names a planner, by default the policy's. The
        same `request_id` gives the step of the first call that freed enough; None is not recorded.
        """
        return prune(self.session, self.state, request_id, inside=inside, planner=policy)

    def compact(self, *, request_id: str | None = None) -> CompactionResult:
        """Compact now, even if the window is not full.

        The same `request_id` gives the result of the first call.
        """
        return compact(self.session, self.state, self._compact, request_id)

    def undo(self, *, request_id: str | None = None) -> str:
        """Undo the newest prune, compaction or rollback in force; return its kind.

        The same `request_id` gives the kind of the first call, and undoes nothing else.
        """
        return undo_newest(self.session, self.state, request_id)

    def save(self) -> None:
        """Store checkpoints of the window's projections, and its token counts."""
        self.state.save()
        self._saved = self.session.version

    # -- helpers -------------------------------------------------------------------------------

    def _compact(self, step: Compact) -> CompactionResult:
        state = self.state
        state.catch_up()
        like = state.conversation.messages[step.message]
        now, model = state.situation(), self._summary_model or like.model or state.model
        result = run_compaction(
            self.session, now, state.version, step, summarizer=self._summarizer, hooks=state.hooks, model=model
        )
        state.catch_up()
        if result.completed:
            state.evict_sizes()
            self.save()
        return result
