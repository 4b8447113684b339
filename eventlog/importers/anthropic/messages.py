"""Lists of Anthropic messages, requests with them, and replies, to events.

* The `system` of a request, or a leading system message, is the system prompt.
* A user message's tool results belong to the calls they name; what else is in it is a user message.
* A reply's usage and stop reason are those of its answer.
"""

from __future__ import annotations

from typing import Any

from eventlog.importers.anthropic import blocks
from eventlog.importers.common.conversation import CallInput, CallResult, UserPart
from eventlog.importers.common.importer import bounded_id
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.importers.common.message_lists import ANTHROPIC
from eventlog.importers.common.message_reader import ConversationReader, MessageList
from eventlog.values import Text, Tool, Usage

__all__ = ["AnthropicMessages"]


class AnthropicMessages(MessageList):
    """The importer."""

    name = "anthropic_messages"
    family = ANTHROPIC
    provider = blocks.PROVIDER

    def read_message(self, reader: ConversationReader, number: int, message: dict[str, Any]) -> None:
        """The events of one message."""
        found, role = message.get("content"), blocks.text_or_empty(message.get("role"))
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
    said: list[UserPart] = []
    results = 0
    for place, block in enumerate(content):
        text = block if isinstance(block, str) else None
        if is_object(block):
            if block.get("type") == "tool_result":
                results += 1
                _result(reader, number, block)
                continue
            text = block.get("text") if block.get("type") == "text" else None
        if isinstance(text, str):
            said.append(UserPart(Text(reader.conversation.batch.content(text), synthetic), text, "text"))
            continue
        found = blocks.file_of(block, reader.conversation.batch) if is_object(block) else None
        if found is None:
            reader.report.skip(number, f"content block {place} of a user message is not text, image or document")
        else:
            said.append(UserPart(found[0], found[1], "file"))
    if said or not results:
        reader.user(number, message, said, synthetic=synthetic)


def _result(reader: ConversationReader, number: int, block: dict[str, Any]) -> None:
    text, files = blocks.result_of(block.get("content"), reader.conversation.batch)
    name, failed = blocks.text_or_empty(block.get("tool_use_id")), bool(block.get("is_error"))
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
    kind = blocks.text_or_empty(block.get("type"))
    if kind == "text" and isinstance(block.get("text"), str):
        citations = block.get("citations")
        reader.conversation.text(
            reader.time, part, block["text"], _metadata("citations", citations) if citations else None
        )
        return True
    if kind == "thinking" and isinstance(block.get("thinking"), str):
        signature = blocks.text_or_empty(block.get("signature"))
        metadata = _metadata("signature", signature) if signature else None
        reader.conversation.reasoning(reader.time, part, block["thinking"], metadata, signature)
        return True
    if kind == "redacted_thinking" and isinstance(block.get("data"), str):
        reader.conversation.reasoning(reader.time, part, "", _metadata("redactedData", block["data"]))
        return True
    if kind in {"tool_use", "server_tool_use", "mcp_tool_use"} and isinstance(block.get("id"), str):
        answer = reader.conversation.open
        assert answer is not None
        if block["id"] in answer.known:
            reader.report.skip(number, "a second call with the same id in one message")
            return True
        tool = Tool(block["id"], blocks.text_or_empty(block.get("name")), kind != "tool_use")
        given = block.get("input")
        reader.conversation.call(
            reader.time, part, tool, CallInput("{}" if given is None else dump(given), given, "input")
        )
        return True
    result = blocks.server_result(block)
    if result is None:
        return False
    if reader.conversation.result(reader.time, result.call, CallResult(result.output, result.failed)) is None:
        reader.report.skip(number, "a result for a call that is not open")
    return True


def _metadata(name: str, value: object) -> str:
    return dump({blocks.PROVIDER: {name: value}})
