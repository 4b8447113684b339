"""Mapping of LangChain's messages: human, ai, tool, system.

* A system message before all others is the system prompt; any other one, also right behind it, is a
  synthetic user message.
* A tool message whose call is not in the list, or has a result, is a synthetic user message.
* What an answer cost counts once, also when the list is told again behind a rollback.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
_CALLS = frozenset({"tool_call", "tool_use", "tool_call_chunk", "invalid_tool_call", "input_json_delta"})
_RESULTS = frozenset({"tool", "ToolMessage", "ToolMessageChunk", "FunctionMessage"})
_MIMES = {"image": "image/*", "image_url": "image/*", "audio": "audio/*", "video": "video/*"}


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
        elif is_object(block) and text_of(block.get("type")) not in _CALLS:
            if isinstance(block.get("text"), str):
                yield block["text"]
            elif (found := _mime_and_url(block)) is not None:
                yield File(found[0], to.batch.content(found[1]))
            else:
                yield dump(block)


def _mime_and_url(block: dict[str, Any]) -> tuple[str, str] | None:
    """Return MIME type and URL of a file as OpenAI, Anthropic or LangChain spell it."""
    kind = text_of(block.get("type"))
    inner: Any = block.get("source") or block.get(kind)
    fields: dict[str, Any] = {**block, **inner} if is_object(inner) else dict(block)
    mime = text_of(fields.get("mime_type") or fields.get("media_type")) or _MIMES.get(kind)
    data = fields.get("base64") or fields.get("data") or fields.get("file_data")
    url = inner if isinstance(inner, str) else fields.get("url")
    name = fields.get("file_id") or fields.get("id")
    if isinstance(url, str) and url:
        mime = url[5:].partition(";")[0] if url.startswith("data:") else mime
        return mime or "application/octet-stream", url
    if isinstance(data, str) and data:
        mime = mime or "application/octet-stream"
        return mime, data if data.startswith("data:") else f"data:{mime};base64,{data}"
    if kind in {*_MIMES, "file", "document"} and isinstance(name, str) and name:
        return mime or "application/octet-stream", f"file:{name}"
    return None


def _result(to: RecordBuilder, message: dict[str, Any], content: Any) -> None:
    parts = list(_parts(to, content))
    files = [Attachment(part.mime, part.url) for part in parts if isinstance(part, File)]
    texts = [part for part in parts if isinstance(part, str)]
    call = text_of(message.get("tool_call_id")) or to.open_call(text_of(message.get("name")))
    failed = message.get("status") == "error"
    text = content if isinstance(content, str) else "\n".join(texts)
    if not call or not to.result(call, text, failed=failed, attachments=files, held=isinstance(content, str)):
        to.user(parts, agent="tool", synthetic=True)


def _answer(to: RecordBuilder, message: dict[str, Any], content: Any) -> None:
    id = text_of(message.get("id"))
    found: Any = message.get("response_metadata")
    about: dict[str, Any] = found if is_object(found) else {}
    name = text_of(about.get("model_name") or about.get("model"))
    model = Model(text_of(about.get("model_provider")), name) if name else None
    answer = to.answer(id=id, model=model)
    for block in content if is_array(content) else [content]:
        _said(to, block)
    calls: list[Any] = [*(message.get("tool_calls") or ()), *(message.get("invalid_tool_calls") or ())]
    for call in (one for one in calls if is_object(one)):
        key, args = text_of(call.get("id")), call.get("args")
        if to.called(key):
            to.end()
            to.answer(model=model)
        given = args if is_object(args) or (isinstance(args, str) and args) else "{}"
        to.call(key, text_of(call.get("name")), given)
    usage = message.get("usage_metadata")
    if is_object(usage) and answer.id == (bounded_id(id) if id else answer.id):
        to.usage(_tokens(usage))
    reason = text_of(about.get("finish_reason") or about.get("stop_reason"))
    to.end(_REASONS.get(reason, reason) or None)


def _said(to: RecordBuilder, block: Any) -> None:
    """Tell a text, reasoning or a file of an answer; its calls are told from `tool_calls`."""
    if isinstance(block, str):
        if block:
            to.text(block)
        return
    kind = text_of(block.get("type")) if is_object(block) else ""
    if not is_object(block) or kind in _CALLS:
        return
    thought = block.get("thinking") if kind == "thinking" else block.get("reasoning")
    if isinstance(thought, str):
        to.reasoning(thought)
    elif isinstance(block.get("text"), str):
        to.text(block["text"])
    elif (file := _mime_and_url(block)) is not None:
        to.file(File(file[0], to.batch.content(file[1])))


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
