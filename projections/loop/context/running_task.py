"""The work of a sub-session for one call of `task`, while it runs."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from eventlog.errors import CallError, LeaseHeldError, RefusedError
from eventlog.session.answering import Allow, has_asked
from eventlog.session.asking import ask_event, ready_to_run
from eventlog.session.outcome import open_work
from eventlog.session.subsessions import subsession_metadata
from eventlog.session.tool_call import ToolCall
from eventlog.validation import require
from eventlog.values import INTERRUPTED
from projections.conversation.parts import ToolPart
from projections.loop.context.open_reply import (
    SWITCHED_OFF,
    fail_with,
    open_reply,
    require_no_reply,
    told,
    unrecorded,
)
from projections.loop.decision.steps import PendingCall
from projections.loop.task_calls import (
    TASK,
    TaskRequest,
    agents_in,
    answer_text,
    breaks_off,
    is_task,
    open_task,
    subsession_id,
    task_answer,
)
from projections.view.offer import is_switched_off

if TYPE_CHECKING:
    from eventlog.session.session import Session
    from eventlog.session.turn import Turn
    from projections.conversation.parts import Message
    from projections.loop.context.window_state import WindowState
    from projections.loop.decision.steps import RunSubtask


def begin_task(session: Session, state: WindowState, call: PendingCall) -> RunningTask | None:
    """Record that a model's `task` call runs, and open its sub-session.

    None if its arguments are wrong, which is its result then. A call that a crash settled as
    interrupted goes on.
    """
    handle, message, part = _placed(state, call)
    request, wrong = None, ""
    try:
        request = TaskRequest.read(call.input)
    except CallError as error:
        wrong = str(error)
    if handle is not None and is_switched_off(part, message, state.conversation):
        request, wrong = None, SWITCHED_OFF.format(tool=call.tool)
    if handle is None and part.waits:
        if ready_to_run(session.executor, call.part) is None:
            return None
        handle = ToolCall(session.executor, call.part, call.call, session.executor.leases.held)
    if handle is not None and not call.running:
        if request is None:
            handle.start("{}")
        else:
            _start(session, handle, request, call)
    if request is not None:
        try:
            tools = state.conversation.tools
            child = open_task(session, call.part, request, agents_in(None if tools is None else session.text(tools)))
        except CallError as error:
            wrong = str(error)
        else:
            return RunningTask(session, state, call, handle, message=message, child=child, request=request)
    if handle is None:
        session.late_result(message.id, call.call, wrong, failed=True)
    else:
        handle.fail(wrong)
    return None


def begin_subtask(session: Session, state: WindowState, step: RunSubtask) -> RunningTask:
    """Begin a `task` call for a subtask in a reply of its own, or go on with a broken one.

    A user asked for it, so any agent may do it, and no list of tools forbids it.
    """
    asked = step.subtask
    request = TaskRequest(session.text(asked.prompt), asked.description, asked.agent, model=asked.model)
    call = step.call
    if call is None:
        require_no_reply(session, state)
        reply = open_reply(session, state, step.message, None, asked.model)
        part = reply.tool(TASK, call_id=step.part).id
        state.catch_up()
        call = PendingCall(part, step.part, TASK, request.arguments, running=False)
    handle, message, _ = _placed(state, call)
    if handle is not None:
        _start(session, handle, request, call)
    child = open_task(session, call.part, request)
    return RunningTask(session, state, call, handle, message=message, child=child, request=request)


def _placed(state: WindowState, call: PendingCall) -> tuple[ToolCall | None, Message, ToolPart]:
    """Return a call's handle, None if a crash settled the call, its message and its part."""
    reply = state.open_reply
    handle = reply.call(call.part) if reply is not None and reply.is_open else None
    message, part = state.conversation.where.get(call.part, (None, None))
    if (
        message is None
        or not isinstance(part, ToolPart)
        or not (handle or part.waits or is_task(part.tool, part.details))
    ):
        raise RefusedError("no reply is open", expected="`begin`, or a task that a crash broke off")
    return handle, message, part


def _start(session: Session, handle: ToolCall, request: TaskRequest, call: PendingCall) -> None:
    metadata = subsession_metadata(request.session or subsession_id(session.id, call.part))
    handle.start(call.input, title=request.description, metadata=metadata)


class RunningTask:
    """A `task` call and its sub-session; inside `with`, a stop reaches both."""

    def __init__(
        self,
        parent: Session,
        state: WindowState,
        call: PendingCall,
        handle: ToolCall | None,
        *,
        message: Message,
        child: Session,
        request: TaskRequest,
    ) -> None:
        """`handle` is None for a call that was settled as interrupted: its result is a late one."""
        self.session = child
        """The sub-session."""
        self._parent = parent
        self._state = state
        self._message = message.id
        self._asked = message.reply_to
        self._call = call
        self._handle = handle
        self._request = request

    @property
    def is_resumed(self) -> bool:
        """Whether a crash closed the message of the call."""
        return self._handle is None

    def __enter__(self) -> Self:
        self.session.executor.stops_with = self.is_stopped
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.session.executor.stops_with = None

    def is_stopped(self) -> bool:
        """Whether the session of the call was stopped, or what waits for it in turn."""
        return self._parent.executor.interrupt_requested(self._asked)

    def run(self, run: Callable[[Session], str | None]) -> None:
        """Let `run` work on the sub-session; its answer, or its exception, is the result."""
        with self:
            try:
                with self.turn() as turn:
                    if turn.state == "failed":
                        turn.retry()
                    answer = run(self.session) if turn.mine else None
                if answer is None and self.waits(turn):
                    self.ask()
                    return
                if answer is None:
                    answer = self.answer(turn)
            except Exception as error:  # noqa: BLE001  # any exception of a task is its result
                self.fail(error)
            else:
                self.succeed(answer)

    def turn(self) -> Turn:
        """The prompt as a turn of the sub-session: asked once for this call."""
        asked = self._request
        return self.session.turn(asked.prompt, f"task {self._call.part}", agent=asked.agent, model=asked.model)

    def answer(self, turn: Turn) -> str:
        """The answer of a turn that is done; an error that says why there is none of another."""
        if turn.state in {"running", "queued"}:
            raise LeaseHeldError(self.session.id, "another task", 0)
        if turn.state != "done":
            raise RefusedError(f"the task is {turn.state}", expected="a new one", session=self.session.id)
        return answer_text(self.session, turn.answer)

    def waits(self, turn: Turn) -> bool:
        """Whether calls of the sub-session were asked, and its turn goes on with their answers."""
        return turn.state in {"asked", "new", "resumed"} and has_asked(self.session.executor)

    def ask(self) -> None:
        """Let the call wait for as long as calls of its sub-session wait for a person."""
        waiting = self.session.asked_calls()
        reason = "; ".join(f"{call.tool}: {call.reason}".removesuffix(": ") for call in waiting)
        executor, bodies = self._parent.executor, dict[bytes, bytes]()
        executor.command([ask_event(executor, self._call.part, reason, self._call.input, bodies)], bodies)
        if not self.session.asked_calls():  # a person has answered meanwhile
            self._parent.answer_call(self._message, self._call.call, Allow())

    def succeed(self, answer: str) -> None:
        """Record the answer as the call's result; one that cannot be recorded fails the call."""
        title, metadata = self._request.description, subsession_metadata(self.session.id)
        try:
            require(str, answer, "what a task's `run` returns is its answer, a str")
            output = task_answer(self.session, answer)
            cut = self._state.truncation(output, self._call.part)
            if self._handle is None:
                self._parent.late_result(
                    self._message, self._call.call, output, title=title, metadata=metadata, truncation=cut
                )
            else:
                self._handle.succeed(output, title=title, metadata=metadata, truncation=cut)
        except CallError as error:
            self._fail(unrecorded(error))

    def fail(self, error: Exception) -> None:
        """Record an error as the call's result; raise it if the work goes on after it.

        After a stop the call is interrupted, with any error.
        """
        if breaks_off(error, resumed=self.is_resumed):
            raise error
        stopped = self.is_stopped()
        if open_work(self.session.reader):
            self.session.interrupt("its task ended with an error")
        self._fail(INTERRUPTED if stopped else told(error), stopped=stopped)

    def _fail(self, said: str, *, stopped: bool = False) -> None:
        metadata = subsession_metadata(self.session.id)
        if self._handle is not None:
            fail_with(self._state, self._handle, said, interrupted=stopped, metadata=metadata)
        elif not stopped:
            cut = self._state.truncation(said, self._call.part, is_error=True)
            self._parent.late_result(
                self._message, self._call.call, said, failed=True, metadata=metadata, truncation=cut
            )
