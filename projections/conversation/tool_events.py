"""The effect of each event of a tool call on a conversation; see `apply.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eventlog import events as ev
from projections.conversation.carryover import touches_of
from projections.conversation.parts import ToolPart
from projections.conversation.state import Conversation

__all__ = ["TOOL_RULES", "Rule"]

Rule = Callable[[Conversation, Any, int, int], None]
"""A change of a conversation by an event, with its version and time."""


def _tool(state: Conversation, part: str) -> ToolPart | None:
    found = state.where.get(part)
    if found is None:
        return None
    message, tool = found
    if type(tool) is not ToolPart:
        return None
    if state.tracks_changes:
        state.mark_changed(message.id, part)
    return tool


def _running(state: Conversation, event: ev.ToolRunning, version: int, time: int) -> None:
    del version, time
    tool = _tool(state, event.part)
    if tool is not None:
        tool.status, tool.input = "running", event.input
        if tool.pieces:
            tool.pieces = []
        tool.title, tool.details = event.title, event.metadata


def _progress(state: Conversation, event: ev.ToolProgress, version: int, time: int) -> None:
    del version, time
    tool = _tool(state, event.part)
    if tool is not None:
        tool.title = event.title if event.title is not None else tool.title
        tool.details = event.metadata if event.metadata is not None else tool.details


def _completed(state: Conversation, event: ev.ToolCompleted, version: int, time: int) -> None:
    del version, time
    tool = _tool(state, event.part)
    if tool is None:
        return
    late = tool.interrupted
    tool.status = "completed"
    tool.error, tool.interrupted = None, False
    if tool.live:
        tool.live = []
    truncation = event.truncation
    if truncation is None:
        tool.output, tool.full = event.output, None
    else:
        tool.output, tool.full = truncation.preview, event.output
    tool.title, tool.details = event.title or tool.title, event.metadata
    tool.attachments = event.attachments
    touches = () if late else touches_of(tool.tool, tool.input)  # an interruption has touched them
    if touches:
        state.add_touches(touches)


def _failed(state: Conversation, event: ev.ToolFailed, version: int, time: int) -> None:
    del version, time
    tool = _tool(state, event.part)
    if tool is not None:
        tool.status = "failed"
        tool.error, tool.interrupted, tool.output = event.error, event.interrupted, event.output
        tool.details = event.metadata if event.metadata is not None else tool.details
        if tool.interrupted:  # how far it came is unknown
            state.add_touches(touches_of(tool.tool, tool.input))


def _pruned(state: Conversation, event: ev.Pruned, version: int, time: int) -> None:
    del version, time
    for part in event.parts:
        tool = _tool(state, part)
        if tool is not None:
            tool.pruned = True


def _restored(state: Conversation, event: ev.Restored, version: int, time: int) -> None:
    del version, time
    for part in event.parts:
        tool = _tool(state, part)
        if tool is not None:
            tool.pruned = False


TOOL_RULES: dict[type[ev.Base], Rule] = {
    ev.ToolRunning: _running,
    ev.ToolProgress: _progress,
    ev.ToolCompleted: _completed,
    ev.ToolFailed: _failed,
    ev.Pruned: _pruned,
    ev.Restored: _restored,
}
"""The rule of each event of a tool call."""
