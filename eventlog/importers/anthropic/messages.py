"""Mapping of Anthropic messages and replies, for imported files and live feeds.

* The `system` of a request, or a leading system message, is the system prompt.
* A user message's tool results belong to the calls they name; what else is in it is a user message.
* A reply's usage and stop reason are those of its answer.
"""

from __future__ import annotations

from typing import Any

from eventlog.importers.anthropic.content import PROVIDER, add_block, result_of, user_part
from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.conversation_parts import CallResult, UserPart
from eventlog.importers.common.importer import own_id
from eventlog.importers.common.json_lines import is_array, is_object
from eventlog.importers.common.message_reader import ids_of, model_name_of, system_prompt
from eventlog.streams.anthropic import reason_of
from eventlog.streams.records import metadata_of, text_of
from eventlog.streams.tokens import anthropic_usage
from eventlog.values import Model

__all__ = ["AnthropicMapping"]


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
    files = () if failed else files
    if not to.result(name, text, failed=failed, attachments=files) and not to.hold(
        name, CallResult(text, failed, attachments=files)
    ):
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
