"""Lists of Anthropic messages, requests with them, and replies, to events.

* The `system` of a request, or a leading system message, is the system prompt.
* A user message's tool results belong to the calls they name; what else is in it is a user message.
* A reply's usage and stop reason are those of its answer.
"""

from __future__ import annotations

from typing import Any

from eventlog.importers.anthropic import blocks
from eventlog.importers.anthropic.content import add_block, metadata_of, user_part
from eventlog.importers.common.conversation_parts import CallResult, UserPart
from eventlog.importers.common.importer import bounded_id
from eventlog.importers.common.json_lines import is_array, is_object, text_or_empty
from eventlog.importers.common.message_reader import ConversationReader, MessageList
from eventlog.importers.common.message_shapes import ANTHROPIC
from eventlog.values import Usage

__all__ = ["AnthropicMessages"]


class AnthropicMessages(MessageList):
    """The importer."""

    name = "anthropic_messages"
    family = ANTHROPIC
    provider = blocks.PROVIDER

    def read_message(self, reader: ConversationReader, number: int, message: dict[str, Any]) -> None:
        """Add the events of one message."""
        found, role = message.get("content"), text_or_empty(message.get("role"))
        content: list[Any] = found if is_array(found) else [found]
        if role == "assistant":
            _assistant(reader, number, message, content)
        elif role == "system" and not reader.begun:
            reader.system(found)
        elif role in {"user", "system"}:
            _user(reader, number, message, content, synthetic=role == "system")
        else:
            reader.report.skip(number, "a message of an unknown role")


def _user(
    reader: ConversationReader, number: int, message: dict[str, Any], content: list[Any], *, synthetic: bool
) -> None:
    parts: list[UserPart] = []
    results = 0
    for place, block in enumerate(content):
        if is_object(block) and block.get("type") == "tool_result":
            results += 1
            _result(reader, number, block)
            continue
        part = user_part(block, reader.conversation.batch, synthetic=synthetic)
        if part is None:
            reader.report.skip(number, f"content block {place} of a user message is not text, image or document")
        else:
            parts.append(part)
    if parts or not results:
        reader.user(number, message, parts, synthetic=synthetic)


def _result(reader: ConversationReader, number: int, block: dict[str, Any]) -> None:
    text, files = blocks.result_of(block.get("content"), reader.conversation.batch)
    name, failed = text_or_empty(block.get("tool_use_id")), bool(block.get("is_error"))
    result = CallResult(text, failed, attachments=() if failed else files)
    if reader.conversation.result(reader.time, name, result) is None and not reader.conversation.hold(
        name, number, result
    ):
        reader.report.skip(number, "a tool result for a call that is not open")


def _assistant(reader: ConversationReader, number: int, message: dict[str, Any], content: list[Any]) -> None:
    answer = reader.answer(number, message)
    for place, block in enumerate(content):
        part = bounded_id(f"{answer.id}:{place}")
        if isinstance(block, str):
            reader.conversation.text(reader.time, part, block)
        elif not is_object(block):
            reader.report.skip(number, f"content block {place} is not an object")
        elif not _block(reader, number, part, block):
            reader.report.skip(number, f"content block {place} of an assistant message is of an unknown type or shape")
    answer.reason = blocks.finish_reason(message.get("stop_reason"))
    usage = message.get("usage")
    if is_object(usage):
        reader.conversation.usage(reader.time, Usage(blocks.tokens_of(usage)))
    reader.conversation.supersede()


def _block(reader: ConversationReader, number: int, part: str, block: dict[str, Any]) -> bool:
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        citations = block.get("citations")
        metadata = metadata_of("citations", citations) if citations else None
        reader.conversation.text(reader.time, part, block["text"], metadata)
        return True
    return add_block(reader.conversation, reader.time, number, part, block)
