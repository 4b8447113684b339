"""The effect of each event of a tool call or a prune on a conversation; see `apply.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eventlog import events as ev
from eventlog.values import DENIED, INTERRUPTED
from projections.conversation.carryover import touches_of
from projections.conversation.parts import FilePart, ReasoningPart, ToolPart
from projections.conversation.state import Conversation

Rule = Callable[[Conversation, Any, int, int], None]
"""A change of a conversation by an event, with its version and time."""


def _tool(state: Conversation, part: str) -> ToolPart | None:
    found = state.where.get(part)
    if found is None:
        return None
    message, tool = found
    if type(tool) is not ToolPart:
        return None
    state.mark_changed(message.id, part)
    return tool


def _running(state: Conversation, event: ev.ToolRunning, _version: int, _time: int) -> None:
    tool = _tool(state, event.part)
    if tool is not None:
        tool.status, tool.input = "running", event.input
        tool.pieces = []
        tool.title, tool.details = event.title, event.metadata


def _progress(state: Conversation, event: ev.ToolProgress, _version: int, _time: int) -> None:
    tool = _tool(state, event.part)
    if tool is not None:
        tool.title = event.title if event.title is not None else tool.title
        tool.details = event.metadata if event.metadata is not None else tool.details


def _completed(state: Conversation, event: ev.ToolCompleted, _version: int, _time: int) -> None:
    tool = _tool(state, event.part)
    if tool is None:
        return
    late = tool.interrupted
    tool.status = "completed"
    state.asked.pop(event.part, None)
    tool.error, tool.interrupted = None, False
    tool.live = []
    truncation = event.truncation
    if truncation is None:
        tool.output, tool.full = event.output, None
    else:
        tool.output, tool.full = truncation.preview, event.output
    tool.title, tool.details = event.title or tool.title, event.metadata
    tool.attachments = event.attachments
    if not late:  # an interruption has touched them
        state.add_touches(touches_of(tool.id, tool.tool, tool.input))


def _failed(state: Conversation, event: ev.ToolFailed, _version: int, _time: int) -> None:
    tool = _tool(state, event.part)
    if tool is not None:
        tool.status = "failed"
        state.asked.pop(event.part, None)
        tool.error, tool.interrupted, tool.output = event.error, event.interrupted, event.output
        tool.details = event.metadata if event.metadata is not None else tool.details
        if tool.interrupted:  # how far it came is unknown
            state.add_touches(touches_of(tool.id, tool.tool, tool.input))


def _asked(state: Conversation, event: ev.CallAsked, _version: int, time: int) -> None:
    tool = _tool(state, event.part)
    if tool is not None:
        tool.status, tool.input, tool.reason, tool.asked = "asked", event.input, event.reason, time
        tool.error, tool.interrupted, tool.output = None, False, None
        tool.pieces = []
        state.asked[event.part] = tool


def _answered(state: Conversation, event: ev.CallAnswered, _version: int, _time: int) -> None:
    tool = _tool(state, event.part)
    if tool is None:
        return
    if event.verdict == "allow":
        tool.status = "allowed"
        if event.edit is not None:
            tool.input, tool.metadata = event.edit, None  # ids and signatures vouch for the arguments as they were
        return
    state.asked.pop(event.part, None)
    tool.status = "failed"
    tool.error = INTERRUPTED if event.verdict == "stop" else f"{DENIED} {event.reason}".rstrip()


def _forked(state: Conversation, _event: ev.SessionForked, _version: int, _time: int) -> None:
    """Calls that wait do so in the parent; here they have failed."""
    for part, tool in list(state.asked.items()):
        if tool.waits:
            del state.asked[part]
            tool.status, tool.error = "failed", INTERRUPTED
            state.mark_changed(state.where[part][0].id, part)


def _pruned(state: Conversation, event: ev.Pruned, _version: int, _time: int) -> None:
    _clear(state, event, cleared=True)


def _restored(state: Conversation, event: ev.Restored, _version: int, _time: int) -> None:
    _clear(state, event, cleared=False)


def _clear(state: Conversation, event: ev.Pruned | ev.Restored, *, cleared: bool) -> None:
    for name in event.parts:
        message, part = state.where.get(name, (None, None))
        if message is not None and isinstance(part, (ToolPart, ReasoningPart, FilePart)):
            part.pruned = cleared
            state.mark_changed(message.id, name)
    for name in event.arguments:
        tool = _tool(state, name)
        if tool is not None:
            tool.arguments_pruned = cleared


TOOL_RULES: dict[type[ev.Base], Rule] = {
    ev.ToolRunning: _running,
    ev.ToolProgress: _progress,
    ev.ToolCompleted: _completed,
    ev.ToolFailed: _failed,
    ev.CallAsked: _asked,
    ev.CallAnswered: _answered,
    ev.SessionForked: _forked,
    ev.Pruned: _pruned,
    ev.Restored: _restored,
}
"""The rule of each event of a tool call."""
