"""A tool call of the open reply, from its start to its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from eventlog.errors import RefusedError
from eventlog.session.asking import ready_to_run
from eventlog.session.tool_call import ToolCall
from eventlog.validation import json_value, require
from projections.conversation.parts import ToolPart
from projections.view.offer import is_switched_off
from projections.window.retrieval.recall_calls import RECALL, answer_recall
from projections.window.retrieval.truncation import bounds

if TYPE_CHECKING:
    from eventlog.session.session import Session
    from eventlog.values import Attachment
    from projections.loop.context.window_state import WindowState
    from projections.loop.decision.steps import PendingCall

__all__ = ["SWITCHED_OFF", "RunningCall", "fail", "start_call", "succeed"]

SWITCHED_OFF = "the tool {tool} is switched off for this question"
"""The failure of a call that the question does not allow."""
_A_CALL = "a call is what `Reply.tool` or `start` gave"


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
    """Record the whole output of a tool, with a preview of one that is too long for the view."""
    require(ToolCall, call, _A_CALL)
    require(str, output, "an output is a str")
    truncation = state.truncation(output, call.id)
    call.succeed(output, title=title, attachments=attachments, metadata=metadata, truncation=truncation)


def fail(call: ToolCall, error: Exception) -> None:
    """Record what a tool raised as the failure of its call."""
    require(ToolCall, call, _A_CALL)
    require(Exception, error, "an error is what a tool raised")
    call.fail(f"{type(error).__name__}: {error}")


def _answer_recall(session: Session, state: WindowState, call: ToolCall, arguments: dict[str, Any]) -> None:
    try:
        answer = answer_recall(session, arguments, bounds(state.policy.truncation, state.usable))
    except Exception as error:  # noqa: BLE001  # as with any tool
        fail(call, error)
    else:
        succeed(state, call, answer)


def _arguments(text: str) -> dict[str, Any] | None:
    """Parse the arguments of a call; None if they are no JSON object, {} for an empty text."""
    try:
        arguments = json_value(text or "{}")
    except ValueError:
        return None
    return cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else None
