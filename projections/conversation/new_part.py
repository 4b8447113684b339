"""A part that begins, made of its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eventlog.values import (
    Agent,
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

PART_MAKERS: dict[type[PartKind], Callable[[str, Any, Message], Part]] = {
    Text: lambda part, kind, message: TextPart(
        part, False, False, [kind.text] if kind.text else [], kind.synthetic, kind.ignored, kind.metadata, message.user
    ),
    Reasoning: lambda part, kind, _: ReasoningPart(part, False, False, [kind.text] if kind.text else [], kind.metadata),
    Tool: lambda part, kind, _: ToolPart(
        part, False, False, kind.call, kind.tool, kind.provider_executed, kind.metadata, "pending", [], []
    ),
    File: lambda part, kind, _: FilePart(part, file=kind),
    Subtask: lambda part, kind, _: SubtaskPart(part, subtask=kind),
    Opaque: lambda part, kind, _: OpaquePart(part, opaque=kind),
    **dict.fromkeys((Agent, Snapshot, Patch, Retry), lambda part, kind, _: NotePart(part, note=kind)),
}
"""Maker of each kind of part.

Looked up by type: `isinstance` takes 0.1 µs to find that a struct is none of a kind.
"""
