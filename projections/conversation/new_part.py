"""A part that begins, made of its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eventlog.values import (
    Agent,
    Content,
    File,
    Opaque,
    PartKind,
    Patch,
    Reasoning,
    Retry,
    Snapshot,
    Subtask,
    Text,
    Tool,
)
from projections.conversation.parts import (
    FilePart,
    Message,
    NotePart,
    OpaquePart,
    Part,
    ReasoningPart,
    SubtaskPart,
    TextPart,
    ToolPart,
)

__all__ = ["PART_MAKERS"]


def _text_part(part: str, kind: Text, message: Message) -> TextPart:
    pieces: list[Content] = [kind.text] if kind.text else []
    return TextPart(part, False, False, pieces, kind.synthetic, kind.ignored, kind.metadata, message.user)


def _reasoning_part(part: str, kind: Reasoning, _message: Message) -> ReasoningPart:
    return ReasoningPart(part, False, False, [kind.text] if kind.text else [], kind.metadata)


def _tool_part(part: str, kind: Tool, _message: Message) -> ToolPart:
    return ToolPart(part, False, False, kind.call, kind.tool, kind.provider_executed, kind.metadata, "pending", [], [])


def _file_part(part: str, kind: File, _message: Message) -> FilePart:
    return FilePart(part, file=kind)


def _subtask_part(part: str, kind: Subtask, _message: Message) -> SubtaskPart:
    return SubtaskPart(part, subtask=kind)


def _note_part(part: str, kind: Agent | Snapshot | Patch | Retry, _message: Message) -> NotePart:
    return NotePart(part, note=kind)


def _opaque_part(part: str, kind: Opaque, _message: Message) -> OpaquePart:
    return OpaquePart(part, opaque=kind)


PART_MAKERS: dict[type[PartKind], Callable[[str, Any, Message], Part]] = {
    Text: _text_part,
    Reasoning: _reasoning_part,
    Tool: _tool_part,
    File: _file_part,
    Subtask: _subtask_part,
    Agent: _note_part,
    Snapshot: _note_part,
    Patch: _note_part,
    Retry: _note_part,
    Opaque: _opaque_part,
}
"""Maker of each kind of part.

Looked up by type: `isinstance` takes 0.1 µs to find that a struct is none of a kind.
"""
