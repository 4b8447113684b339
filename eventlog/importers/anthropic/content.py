"""Content blocks of Anthropic's whole messages as parts of a conversation."""

from __future__ import annotations

from typing import Any

from eventlog.importers.anthropic import blocks
from eventlog.importers.common.conversation import Conversation
from eventlog.importers.common.conversation_parts import CallInput, CallResult, UserPart
from eventlog.importers.common.importer import ImportBatch
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.streams.anthropic import COMPACTION
from eventlog.streams.records import text_of
from eventlog.values import Opaque, Text, Tool, target_of

__all__ = ["CALLS", "add_block", "metadata_of", "user_part"]

CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
"""Types of blocks that are calls."""


def user_part(block: object, batch: ImportBatch, *, synthetic: bool, ignored: bool = False) -> UserPart | None:
    """Return the part that a block of a user message is; None for an unknown block."""
    text = block if isinstance(block, str) else None
    if is_object(block) and block.get("type") == "text":
        text = block.get("text")
    if isinstance(text, str):
        return UserPart(Text(batch.content(text), synthetic, ignored), text, "text")
    found = blocks.file_of(block, batch) if is_object(block) else None
    return None if found is None else UserPart(found[0], found[1], "file")


def add_block(conversation: Conversation, time: int, line: int, part: str, block: dict[str, Any]) -> bool:
    """Add reasoning, a call or a provider's result to the open answer; False for other blocks."""
    kind = text_of(block.get("type"))
    if kind == "thinking" and isinstance(block.get("thinking"), str):
        signature = text_of(block.get("signature"))
        metadata = metadata_of("signature", signature) if signature else None
        conversation.reasoning(time, part, block["thinking"], metadata, signature)
        return True
    if kind == "redacted_thinking" and isinstance(block.get("data"), str):
        conversation.reasoning(time, part, "", metadata_of("redactedData", block["data"]))
        return True
    answer = conversation.open
    assert answer is not None
    if kind == "compaction" and text_of(block.get("content")):
        content = conversation.batch.content
        opaque = Opaque(COMPACTION, content(dump(block)), target_of(answer.model), content(block["content"]))
        conversation.complete(time, part, opaque)
        return True
    if kind in CALLS and isinstance(block.get("id"), str):
        if block["id"] in answer.call_ids:
            conversation.report.skip(line, "a second call with the same id in one message")
            return True
        tool = Tool(block["id"], text_of(block.get("name")), kind != "tool_use")
        value = block.get("input")
        field = "input" if is_object(value) or is_array(value) else ""
        conversation.call(time, part, tool, CallInput("{}" if value is None else dump(value), value, field))
        return True
    result = blocks.server_result(block)
    if result is None:
        return False
    if conversation.result(time, result.call, CallResult(result.output, result.failed)) is None:
        conversation.report.skip(line, "a result for a call that is not open")
    return True


def metadata_of(name: str, value: object) -> str:
    """Return a part's metadata: one member of Anthropic's."""
    return dump({blocks.PROVIDER: {name: value}})
