"""Mapping of LangChain's messages: human, ai, tool, system.

* A system message before all others is the system prompt; any other one, also right behind it, is a
  synthetic user message.
* A tool message whose call is not in the list, or has a result, is a synthetic user message.
* What an answer cost counts once, also when the list is told again behind a rollback.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eventlog.adapters.langgraph.answers import CALLS, Answer, file_in
from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.importer import bounded_id
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.streams.records import number_of, text_of
from eventlog.values import Attachment, File, Model, Tokens

__all__ = ["LangChainMapping"]

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool-calls",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
}
_RESULTS = frozenset({"tool", "ToolMessage", "ToolMessageChunk", "FunctionMessage"})


class LangChainMapping:
    """The mapping; a record is one of `records.py`."""

    format = "langchain_messages"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what a message means."""
        message: Any = record if not is_object(record) or record.get("kind") else record.get("shown")
        if not is_object(message) or not message:
            return
        kind, role = text_of(message.get("kind")), text_of(message.get("role"))
        content = message.get("content")
        if kind in _RESULTS:
            _result(to, message, content)
        elif kind.startswith("AI") or role == "assistant":
            _answer(to, message, content)
        elif kind.startswith("System") or role == "system":
            text = "".join(part for part in _parts(to, content) if isinstance(part, str))
            if to.leading:
                to.system(content if isinstance(content, str) else text)
            else:
                to.user(content if isinstance(content, str) else text, agent="system", synthetic=True)
        else:
            to.user(list(_parts(to, content)), id=text_of(message.get("id")))


def _parts(to: RecordBuilder, content: Any) -> Iterator[str | File]:
    """Yield the texts and files of a content; of blocks that are neither, their JSON."""
    for block in content if is_array(content) else [content]:
        if isinstance(block, str):
            yield block
        elif is_object(block) and text_of(block.get("type")) not in CALLS:
            if isinstance(block.get("text"), str):
                yield block["text"]
            elif (file := file_in(block, to)) is not None:
                yield file
            else:
                yield dump(block)


def _result(to: RecordBuilder, message: dict[str, Any], content: Any) -> None:
    parts = list(_parts(to, content))
    files = [Attachment(part.mime, part.url) for part in parts if isinstance(part, File)]
    texts = [part for part in parts if isinstance(part, str)]
    call, tool = text_of(message.get("tool_call_id")), text_of(message.get("name"))
    failed, held = message.get("status") == "error", isinstance(content, str)
    text = content if isinstance(content, str) else "\n".join(texts)
    if not to.result(call, text, tool=tool, failed=failed, attachments=files, held=held):
        to.user(parts, agent="tool", synthetic=True)


def _answer(to: RecordBuilder, message: dict[str, Any], content: Any) -> None:
    id = text_of(message.get("id"))
    found: Any = message.get("response_metadata")
    about: dict[str, Any] = found if is_object(found) else {}
    name = text_of(about.get("model_name") or about.get("model"))
    provider = text_of(about.get("model_provider"))
    answer = to.answer(id=id, model=Model(provider, name) if name else None)
    Answer(to, message, provider).tell(content)
    usage = message.get("usage_metadata")
    if is_object(usage) and answer.id == (bounded_id(id) if id else answer.id):
        to.usage(_tokens(usage))
    reason = text_of(about.get("finish_reason") or about.get("stop_reason"))
    to.end(_REASONS.get(reason, reason) or None)


def _tokens(usage: dict[str, Any]) -> Tokens:
    def details(name: str) -> dict[str, Any]:
        inner = usage.get(name)
        return inner if is_object(inner) else {}

    read = number_of(details("input_token_details").get("cache_read"))
    written = number_of(details("input_token_details").get("cache_creation"))
    total = usage.get("total_tokens")
    return Tokens(
        input=max(number_of(usage.get("input_tokens")) - read - written, 0),
        output=number_of(usage.get("output_tokens")),
        reasoning=number_of(details("output_token_details").get("reasoning")),
        cache_read=read,
        cache_write=written,
        total=number_of(total) if isinstance(total, int) else None,
    )
