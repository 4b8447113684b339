"""The reply that a window fills: opened, and its calls from their start to their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from eventlog.codec.large_texts import MAX_BODY_BYTES
from eventlog.errors import CallError, LimitError, NotFoundError, RefusedError
from eventlog.session.asking import ready_to_run
from eventlog.session.subsessions import stop_subsessions
from eventlog.session.tool_call import ToolCall
from eventlog.validation import json_value, require
from projections.conversation.parts import ToolPart
from projections.view.offer import is_switched_off
from projections.window.retrieval.recall_calls import RECALL, answer_recall
from projections.window.retrieval.truncation import bounds

if TYPE_CHECKING:
    from eventlog.session.reply import Reply
    from eventlog.session.session import Session
    from eventlog.values import Attachment, Model
    from projections.loop.context.model_request import ModelRequest
    from projections.loop.context.window_state import WindowState
    from projections.loop.decision.steps import PendingCall

SWITCHED_OFF = "the tool {tool} is switched off for this question"
"""The failure of a call that the question does not allow."""
_A_CALL = "a call is what `Reply.tool` or `start` gave"


def require_no_reply(session: Session, state: WindowState) -> None:
    """Refuse to open a reply while another is open, or without the lease."""
    if state.open_reply is not None and state.open_reply.is_open:
        raise RefusedError("a reply is open", expected="its end")
    if not session.executor.holds_lease:
        raise RefusedError("the lease is not held", expected="`with ContextWindow(…) as window`")


def open_reply(
    session: Session,
    state: WindowState,
    reply_to: str,
    view: ModelRequest | int | None,
    model: Model | str | None,
    *,
    agent: str = "",
) -> Reply:
    """Open a reply to a message, and stop the sub-sessions of calls that do not go on.

    `view` is the request, or its version; None: all up to the message. `model` and `agent` are
    those of the message by default.
    """
    asked = state.conversation.messages.get(reply_to)
    if asked is None:
        raise NotFoundError("message", reply_to, session=session.id)
    reply = session.assistant(
        model or asked.model,
        reply_to=reply_to,
        agent=agent or asked.agent,
        variant=asked.variant,
        view=asked.place if view is None else view,
    )
    stop_subsessions(session.store.registry, session.executor, "its call does not go on")
    reply.begin()
    state.open_reply = reply
    return reply


class RunningCall(NamedTuple):
    """A call that is recorded as running, and its arguments."""

    call: ToolCall
    arguments: dict[str, Any]


def start_call(session: Session, state: WindowState, call: PendingCall) -> RunningCall | None:
    """Record, durably, that a call runs; None if it has its result at once.

    See `ContextWindow.start`.
    """
    reply, text = state.open_reply, call.input
    if call.part in state.conversation.asked:
        ready = ready_to_run(session.executor, call.part)
        if ready is None:
            return None
        handle, text = ToolCall(session.executor, call.part, call.call, session.executor.leases.held), ready
    elif reply is None or not reply.is_open:
        raise RefusedError("no reply is open", expected="`begin`")
    else:
        handle = reply.call(call.part)
    arguments = _arguments(text)
    if not call.running:
        handle.start("{}" if arguments is None else text or "{}")
    if arguments is None:
        handle.fail(f"the arguments are not a JSON object: {text[:200]}")
        return None
    asked_by, part = state.conversation.where.get(call.part, (None, None))
    if asked_by is not None and isinstance(part, ToolPart) and is_switched_off(part, asked_by, state.conversation):
        handle.fail(SWITCHED_OFF.format(tool=call.tool))
        return None
    if call.tool == RECALL and state.offers_recall:
        _answer_recall(session, state, handle, arguments)
        return None
    return RunningCall(handle, arguments)


def succeed(
    state: WindowState,
    call: ToolCall,
    output: str,
    *,
    title: str = "",
    attachments: Sequence[Attachment] = (),
    metadata: str | None = None,
) -> None:
    """Record the whole output of a tool, with a preview of one that is too long for the view.

    What cannot be recorded fails the call: the model is to know that the tool ran.
    """
    require(ToolCall, call, _A_CALL)
    try:
        require(str, output, "an output is a str")
        truncation = state.truncation(output, call.id)
        call.succeed(output, title=title, attachments=attachments, metadata=metadata, truncation=truncation)
    except CallError as error:
        fail_with(state, call, unrecorded(error))


def unrecorded(error: CallError) -> str:
    """Return the failure of a call that ran, by the error of its result; raise other errors."""
    if type(error) not in {CallError, LimitError}:
        raise error
    return f"the tool ran, and its result cannot be recorded: {error}"


def told(error: Exception) -> str:
    """Return the name of an error, and its text unless that cannot be read.

    At most as much as a body takes.
    """
    name = type(error).__name__
    try:
        return f"{name}: {error}"[: MAX_BODY_BYTES // 4]
    except Exception:  # noqa: BLE001  # an error of the program's, of any class
        return name


def fail(state: WindowState, call: ToolCall, error: Exception) -> None:
    """Record what a tool raised as the failure of its call, with a preview of a long text."""
    require(ToolCall, call, _A_CALL)
    require(Exception, error, "an error is what a tool raised")
    fail_with(state, call, told(error))


def fail_with(
    state: WindowState, call: ToolCall, error: str, *, interrupted: bool = False, metadata: str | None = None
) -> None:
    """Record a text as the failure of a call; of one that is too long the whole is its output."""
    cut = state.truncation(error, call.id, is_error=True)
    shown, whole = (error, None) if cut is None else (str(cut.preview), error)
    call.fail(shown, interrupted=interrupted, output=whole, metadata=metadata)


def _answer_recall(session: Session, state: WindowState, call: ToolCall, arguments: dict[str, Any]) -> None:
    try:
        answer = answer_recall(session, arguments, bounds(state.policy.truncation, state.usable))
    except Exception as error:  # noqa: BLE001  # as with any tool
        fail(state, call, error)
    else:
        succeed(state, call, answer)


def _arguments(text: str) -> dict[str, Any] | None:
    """Parse the arguments of a call; None if they are no JSON object, {} for an empty text."""
    try:
        arguments = json_value(text or "{}")
    except ValueError:
        return None
    return cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else None
