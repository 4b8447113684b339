"""Lists of Anthropic messages, requests with them, and replies, to events.

* The `system` of a request, or a leading system message, is the system prompt.
* A user message's tool results belong to the calls they name; what else is in it is a user message.
* A reply's usage and stop reason are those of its answer.
"""

from __future__ import annotations

from typing import Any

from eventlog.importers.anthropic import blocks
from eventlog.importers.common.conversation import Given, Result, Said
from eventlog.importers.common.importer import bounded_id
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.importers.common.message_lists import ANTHROPIC
from eventlog.importers.common.message_reader import MessageList, Talk
from eventlog.values import Text, Tool, Usage

__all__ = ["AnthropicMessages"]


class AnthropicMessages(MessageList):
    """The importer."""

    name = "anthropic_messages"
    family = ANTHROPIC
    provider = blocks.PROVIDER

    def take(self, talk: Talk, number: int, message: dict[str, Any]) -> None:
        """The events of one message."""
        found, role = message.get("content"), blocks.text_or_empty(message.get("role"))
        content: list[Any] = found if is_array(found) else [found]
        if role == "assistant":
            _assistant(talk, number, message, content)
        elif role == "system" and not talk.begun:
            talk.system(found)
        elif role in {"user", "system"}:
            _user(talk, number, message, content, synthetic=role == "system")
        else:
            talk.report.skip(number, "a message of an unknown role")


def _user(talk: Talk, number: int, message: dict[str, Any], content: list[Any], *, synthetic: bool) -> None:
    said: list[Said] = []
    results = 0
    for place, block in enumerate(content):
        text = block if isinstance(block, str) else None
        if is_object(block):
            if block.get("type") == "tool_result":
                results += 1
                _result(talk, number, block)
                continue
            text = block.get("text") if block.get("type") == "text" else None
        if isinstance(text, str):
            said.append(Said(Text(talk.talk.piece.content(text), synthetic), text, "text"))
            continue
        found = blocks.file_of(block, talk.talk.piece) if is_object(block) else None
        if found is None:
            talk.report.skip(number, f"content block {place} of a user message is not text, image or document")
        else:
            said.append(Said(found[0], found[1], "file"))
    if said or not results:
        talk.user(number, message, said, synthetic=synthetic)


def _result(talk: Talk, number: int, block: dict[str, Any]) -> None:
    text, files = blocks.result_of(block.get("content"), talk.talk.piece)
    name, failed = blocks.text_or_empty(block.get("tool_use_id")), bool(block.get("is_error"))
    result = Result(text, failed, attachments=() if failed else files)
    if talk.talk.result(talk.time, name, result) is None and not talk.talk.hold(name, number, result):
        talk.report.skip(number, "a tool result for a call that is not open")


def _assistant(talk: Talk, number: int, message: dict[str, Any], content: list[Any]) -> None:
    answer = talk.answer(number, message)
    for place, block in enumerate(content):
        part = bounded_id(f"{answer.id}:{place}")
        if isinstance(block, str):
            talk.talk.text(talk.time, part, block)
        elif not is_object(block):
            talk.report.skip(number, f"content block {place} is not an object")
        elif not _block(talk, number, part, block):
            talk.report.skip(number, f"content block {place} of an assistant message is of an unknown type or shape")
    answer.reason = blocks.finish_reason(message.get("stop_reason"))
    usage = message.get("usage")
    if is_object(usage):
        talk.talk.usage(talk.time, Usage(blocks.tokens_of(usage)))
    talk.talk.supersede()


def _block(talk: Talk, number: int, part: str, block: dict[str, Any]) -> bool:
    kind = blocks.text_or_empty(block.get("type"))
    if kind == "text" and isinstance(block.get("text"), str):
        citations = block.get("citations")
        talk.talk.text(talk.time, part, block["text"], _metadata("citations", citations) if citations else None)
        return True
    if kind == "thinking" and isinstance(block.get("thinking"), str):
        signature = blocks.text_or_empty(block.get("signature"))
        metadata = _metadata("signature", signature) if signature else None
        talk.talk.reasoning(talk.time, part, block["thinking"], metadata, signature)
        return True
    if kind == "redacted_thinking" and isinstance(block.get("data"), str):
        talk.talk.reasoning(talk.time, part, "", _metadata("redactedData", block["data"]))
        return True
    if kind in {"tool_use", "server_tool_use", "mcp_tool_use"} and isinstance(block.get("id"), str):
        answer = talk.talk.open
        assert answer is not None
        if block["id"] in answer.known:
            talk.report.skip(number, "a second call with the same id in one message")
            return True
        tool = Tool(block["id"], blocks.text_or_empty(block.get("name")), kind != "tool_use")
        given = block.get("input")
        talk.talk.call(talk.time, part, tool, Given("{}" if given is None else dump(given), given, "input"))
        return True
    result = blocks.server_result(block)
    if result is None:
        return False
    if talk.talk.result(talk.time, result.call, Result(result.output, result.failed)) is None:
        talk.report.skip(number, "a result for a call that is not open")
    return True


def _metadata(name: str, value: object) -> str:
    return dump({blocks.PROVIDER: {name: value}})
