"""Mapping of LangChain's messages: human, ai, tool, system.

* A system message before all others is the system prompt; any other one, also right behind it, is a
  synthetic user message.
* A tool message whose call is not in the list, or has a result, is a synthetic user message.
* The blocks of an answer are as integrations and LangChain's standard form spell them. Reasoning
  keeps signature, cipher and item id; a provider's own tools have their results in the answer. A
  call is told where its block stands, one without a block at the end.
* What an answer cost counts once, also when the list is told again behind a rollback.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eventlog.adapters.signed import REFUSAL, signed
from eventlog.importers.anthropic.content import PROVIDER, add_block
from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.importer import bounded_id
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.importers.openai.items import call_input, is_call
from eventlog.importers.openai.responses import OpenAIResponsesMapping
from eventlog.streams.records import metadata_of, number_of, object_of, objects_of, text_of
from eventlog.streams.tokens import price_of
from eventlog.values import Attachment, File, Model, Tokens, Usage

CALLS = frozenset(
    {"tool_call", "tool_use", "function_call", "tool_call_chunk", "invalid_tool_call", "input_json_delta"}
)
"""Types of blocks that stand for a call of the message."""
_ANTHROPIC = frozenset({"redacted_thinking", "server_tool_use", "mcp_tool_use", "compaction"})
_REASONING = frozenset({"thinking", "reasoning", "reasoning_content"})
_ITEMS = OpenAIResponsesMapping()


class Answer:
    """An answer that is told to the open message of a conversation."""

    def __init__(self, to: RecordBuilder, message: dict[str, Any], provider: str) -> None:
        self._to = to
        self._provider = provider
        self._calls = [*objects_of(message.get("tool_calls")), *objects_of(message.get("invalid_tool_calls"))]
        self._more = object_of(message.get("additional_kwargs"))
        self._items = object_of(self._more.get("__openai_function_call_ids__"))
        self._signatures = object_of(self._more.get("__gemini_function_call_thought_signatures__"))
        self._code = 0

    def tell(self, content: Any) -> None:
        """Tell the content of the message and what integrations keep beside it."""
        to, more = self._to, self._more
        item = object_of(more.get("reasoning"))
        thought = text_of(more.get("reasoning_content")) or text_of(more.get("reasoning"))
        if item:
            _ITEMS.read({**item, "type": "reasoning"}, to)
        elif thought:
            to.reasoning(thought)
        for block in content if is_array(content) else [content]:
            self._block(block)
        if refusal := text_of(more.get("refusal")):
            to.text(refusal, metadata=REFUSAL)
        for block in objects_of(more.get("tool_outputs")):
            self._block(block)
        while self._calls:
            self._call({}, self._calls.pop(0))

    def _block(self, block: Any) -> None:
        to = self._to
        if isinstance(block, str):
            if block:
                to.text(block)
            return
        if not is_object(block):
            return
        kind = text_of(block.get("type"))
        if kind == "non_standard":
            self._block(block.get("value"))
        elif kind in CALLS:
            name = text_of(block.get("call_id")) or text_of(block.get("id"))
            own = (place for place, call in enumerate(self._calls) if text_of(call.get("id")) == name)
            if (place := next(own, None)) is not None:
                self._call(block, self._calls.pop(place))
        elif kind in _REASONING:
            self._reasoning(block)
        elif kind == "server_tool_result":
            self._result(text_of(block.get("tool_call_id")), block.get("output"), failed=block.get("status") == "error")
        elif kind in _ANTHROPIC or kind.endswith("_tool_result"):
            if not add_block(to.conversation, to.time, to.number, to.next_part(), block):
                to.skip(f"a block of type {kind} without its fields")
        elif kind == "server_tool_call":
            to.call(
                text_of(block.get("id")), text_of(block.get("name")), block.get("args") or "{}", provider_executed=True
            )
        elif kind == "executable_code":
            self._code += 1
            code = {"code": block.get("executable_code"), "language": block.get("language")}
            to.call(f"code_{self._code}", "code_execution", code, provider_executed=True, metadata=self._about(block))
        elif kind == "code_execution_result":
            outcome = block.get("outcome", 1)
            words = {1: "OUTCOME_OK", 2: "OUTCOME_FAILED", 3: "OUTCOME_DEADLINE_EXCEEDED"}
            said = {"outcome": words.get(outcome, outcome), "output": block.get("code_execution_result")}
            self._result(f"code_{self._code}", said, failed=outcome not in {1, "OUTCOME_OK"})
        elif kind == "refusal":
            to.text(text_of(block.get("refusal")), metadata=REFUSAL)
        elif isinstance(block.get("text"), str):
            citations = block.get("citations")
            about = metadata_of(PROVIDER, citations=citations) if citations else self._about(block)
            to.text(block["text"], metadata=about)
        elif is_call(block):
            _ITEMS.read(block, to)
        elif (file := file_in(block, to)) is not None:
            to.file(file)
        else:
            to.skip(f"a block of type {kind[:40]!r}")

    def _about(self, block: dict[str, Any]) -> str | None:
        """Return the metadata of a block that is no reasoning."""
        extras = object_of(block.get("extras"))
        id = text_of(block.get("id")) or text_of(extras.get("item_id"))
        secret = text_of(block.get("thought_signature")) or text_of(block.get("signature"))
        return signed(self._provider, secret or text_of(extras.get("signature")), id)

    def _reasoning(self, block: dict[str, Any]) -> None:
        if is_array(block.get("summary")):
            _ITEMS.read(block, self._to)
            return
        found = object_of(block.get("reasoning_content")) or block
        extras = object_of(block.get("extras"))
        names = ("signature", "encrypted_content", "redacted_content")
        secrets = (text_of(one.get(name)) for name in names for one in (found, extras))
        secret = next(filter(None, secrets), "")
        is_redacted = bool(found.get("redacted_content") or extras.get("redacted_content"))
        id = "redacted_content" if is_redacted else text_of(block.get("id"))
        about = signed(self._provider, secret, id, is_thought=True)
        texts = (text_of(found.get(name)) for name in ("thinking", "reasoning", "text"))
        self._to.reasoning(next(filter(None, texts), ""), metadata=about)

    def _call(self, block: dict[str, Any], call: dict[str, Any]) -> None:
        """Tell a call; its block, where there is one, says what the provider wants back."""
        id = text_of(call.get("id"))
        item, signature = text_of(self._items.get(id)), text_of(self._signatures.get(id))
        own = block if block.get("call_id") or "extras" in block else {}
        about = self._about(own) or signed(self._provider, signature, item)
        self._to.call(id, text_of(call.get("name")), call_input(call.get("args")), metadata=about)

    def _result(self, call: str, output: Any, *, failed: bool) -> None:
        said = output if isinstance(output, str) else "" if output is None else dump(output)
        if not self._to.result(call, said, failed=failed, held=isinstance(output, str)):
            self._to.skip("a result for a call that is not open")


_MIMES = {"image": "image/*", "image_url": "image/*", "audio": "audio/*", "video": "video/*"}


def file_in(block: dict[str, Any], to: RecordBuilder) -> File | None:
    """Return the file of a block as OpenAI, Anthropic or LangChain spell it; None for no file."""
    found = _mime_and_url(block)
    return None if found is None else File(found[0], to.batch.content(found[1]))


def _mime_and_url(block: dict[str, Any]) -> tuple[str, str] | None:
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
        to.usage(Usage(_tokens(usage), price_of(object_of(about.get("token_usage")).get("cost"))))
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
