"""Mapping of Anthropic messages and replies, for imported files and live feeds.

* The `system` of a request, or a leading system message, is the system prompt.
* A user message's tool results belong to the calls they name; what else is in it is a user message.
* A reply's usage and stop reason are those of its answer.
"""

from __future__ import annotations

from typing import Any

from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.conversation import Conversation
from eventlog.importers.common.conversation_parts import CallInput, CallResult, UserPart
from eventlog.importers.common.importer import ImportBatch, own_id
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.importers.common.message_reader import ids_of, model_name_of, system_prompt
from eventlog.streams.anthropic import COMPACTION, reason_of
from eventlog.streams.records import metadata_of, text_of
from eventlog.streams.tokens import anthropic_usage
from eventlog.values import Attachment, File, Model, Opaque, Text, Tool, target_of

PROVIDER = "anthropic"
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
"""Types of blocks that are calls."""


def file_of(block: dict[str, Any], batch: ImportBatch) -> tuple[File, str] | None:
    """Return the file in an `image` or `document` block, and its data; None for other blocks.

    The data is the text of the block that the file holds, or "" for a reference.
    """
    source, kind_of_block = block.get("source"), text_of(block.get("type"))
    if kind_of_block not in {"image", "document"} or not is_object(source):
        return None
    title = block.get("title")
    name = title if isinstance(title, str) else None
    mime, data, url, file_id = (source.get(key) for key in ("media_type", "data", "url", "file_id"))
    fallback = "image/*" if kind_of_block == "image" else "application/pdf"
    kind = mime if isinstance(mime, str) else fallback
    if source.get("type") == "base64" and isinstance(data, str):
        return File(kind, batch.content(f"data:{kind};base64,{data}"), name), data
    if source.get("type") == "text" and isinstance(data, str):
        return File(kind, batch.content(f"data:{kind},{data}"), name), data
    if isinstance(url, str):
        return File(kind, batch.content(url), name), ""
    if isinstance(file_id, str):
        return File(kind, batch.content(f"file:{file_id}"), name), ""
    return None


def result_of(content: object, batch: ImportBatch) -> tuple[str, tuple[Attachment, ...]]:
    """Return the text of a tool result, and its files."""
    if isinstance(content, str):
        return content, ()
    if not is_array(content):
        return "" if content is None else dump(content), ()
    texts: list[str] = []
    files: list[Attachment] = []
    for block in content:
        if isinstance(block, str):
            texts.append(block)
        elif is_object(block):
            found = file_of(block, batch)
            if found is not None:
                files.append(Attachment(found[0].mime, found[0].url, found[0].filename))
            elif isinstance(block.get("text"), str):
                texts.append(block["text"])
            else:
                texts.append(dump(block))
    return "\n".join(texts), tuple(files)


def user_part(block: object, batch: ImportBatch, *, synthetic: bool, ignored: bool = False) -> UserPart | None:
    """Return the part that a block of a user message is; None for an unknown block."""
    text = block if isinstance(block, str) else None
    if is_object(block) and block.get("type") == "text":
        text = block.get("text")
    if isinstance(text, str):
        return UserPart(Text(batch.content(text), synthetic, ignored), text, "text")
    found = file_of(block, batch) if is_object(block) else None
    return None if found is None else UserPart(found[0], found[1], "file")


def add_block(conversation: Conversation, time: int, line: int, part: str, block: dict[str, Any]) -> bool:
    """Add reasoning, a call or a provider's result to the open answer; False for other blocks."""
    kind = text_of(block.get("type"))
    if kind == "thinking" and isinstance(block.get("thinking"), str):
        signature = text_of(block.get("signature"))
        metadata = metadata_of(PROVIDER, signature=signature)
        conversation.reasoning(time, part, block["thinking"], metadata, signature)
        return True
    if kind == "redacted_thinking" and isinstance(block.get("data"), str):
        conversation.reasoning(time, part, "", metadata_of(PROVIDER, redactedData=block["data"]))
        return True
    answer = conversation.open
    assert answer is not None
    if kind == "compaction" and text_of(block.get("content")):
        content = conversation.batch.content
        opaque = Opaque(COMPACTION, content(dump(block)), target_of(answer.model), content(block["content"]))
        conversation.complete(time, part, opaque)
        return True
    if kind in _CALLS and isinstance(block.get("id"), str):
        if block["id"] in answer.call_ids:
            conversation.report.skip(line, "a second call with the same id in one message")
            return True
        tool = Tool(block["id"], text_of(block.get("name")), kind != "tool_use")
        value = block.get("input")
        field = "input" if is_object(value) or is_array(value) else ""
        conversation.call(time, part, tool, CallInput("{}" if value is None else dump(value), value, field))
        return True
    call, found = block.get("tool_use_id"), block.get("content")
    if not kind.endswith("tool_result") or not isinstance(call, str):
        return False
    failed = bool(block.get("is_error")) or (is_object(found) and str(found.get("type", "")).endswith("_error"))
    result = CallResult(found if isinstance(found, str) else dump(found), failed)
    if conversation.result(time, call, result) is None:
        conversation.report.skip(line, "a result for a call that is not open")
    return True


class AnthropicMapping:
    """The mapping; a record is a message, or a reply."""

    format = "anthropic_messages"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what one message means."""
        if not is_object(record):
            to.skip("not an object")
            return
        found, role = record.get("content"), text_of(record.get("role"))
        content: list[Any] = found if is_array(found) else [found]
        if role == "assistant":
            _assistant(to, record, content)
        elif role == "system" and to.leading:
            system_prompt(to, found)
        elif role in {"user", "system"}:
            _user(to, record, content, synthetic=role == "system")
        else:
            to.skip("a message of an unknown role")


def _user(to: RecordBuilder, message: dict[str, Any], content: list[Any], *, synthetic: bool) -> None:
    parts: list[UserPart] = []
    results = 0
    for place, block in enumerate(content):
        if is_object(block) and block.get("type") == "tool_result":
            results += 1
            _result(to, block)
            continue
        part = user_part(block, to.batch, synthetic=synthetic)
        if part is None:
            to.skip(f"content block {place} of a user message is not text, image or document")
        else:
            parts.append(part)
    if parts or not results:
        to.user(parts, id=ids_of(message), synthetic=synthetic)


def _result(to: RecordBuilder, block: dict[str, Any]) -> None:
    text, files = result_of(block.get("content"), to.batch)
    name, failed = text_of(block.get("tool_use_id")), bool(block.get("is_error"))
    if not to.result(name, text, failed=failed, attachments=() if failed else files, early=True):
        to.skip("a tool result for a call that is not open")


def _assistant(to: RecordBuilder, message: dict[str, Any], content: list[Any]) -> None:
    name = model_name_of(message)
    answer = to.answer(id=ids_of(message), model=Model(PROVIDER, name) if name else None)
    for place, block in enumerate(content):
        part = own_id(answer.id, str(place))
        if isinstance(block, str):
            to.text(block, part=part)
        elif not is_object(block):
            to.skip(f"content block {place} is not an object")
        elif not _block(to, part, block):
            to.skip(f"content block {place} of an assistant message is of an unknown type or shape")
    usage = message.get("usage")
    if is_object(usage):
        to.usage(anthropic_usage(usage))
    to.end(reason_of(message.get("stop_reason")) or None)


def _block(to: RecordBuilder, part: str, block: dict[str, Any]) -> bool:
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        to.text(block["text"], part=part, metadata=metadata_of(PROVIDER, citations=block.get("citations")))
        return True
    return add_block(to.conversation, to.time, to.number, part, block)
