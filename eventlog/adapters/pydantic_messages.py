"""Mapping of pydantic-ai's messages, as `ModelMessagesTypeAdapter` dumps them to JSON.

* The system prompts that a conversation begins with, of one request, are together the system
  prompt; later ones, and feedback and summaries that answer no call, are synthetic user messages.
* Each user prompt of a request is a user message, with the instructions of the request as its
  system prompt; each response is one answer.
* What changes tools and settings means nothing here: the program sets them.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from eventlog.adapters.signed import is_google, signed
from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.importers.openai.items import call_input
from eventlog.streams.anthropic import COMPACTION
from eventlog.streams.openai_responses import COMPACTION as OPENAI_COMPACTION
from eventlog.streams.records import number_of, object_of, text_of
from eventlog.streams.tokens import price_of
from eventlog.values import Attachment, File, Model, Opaque, Tokens, Usage, target_of

_FAILED = frozenset({"failed", "denied", "retried", "interrupted"})
_REASONS = {"tool_call": "tool-calls", "content_filter": "content-filter"}
_SAID = frozenset({"system-prompt", "retry-prompt", "retry-feedback", "compaction"})
_TOKENS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "reasoning": "output_reasoning_tokens",
    "cache_read": "cache_read_tokens",
    "cache_write": "cache_write_tokens",
}


class PydanticAIMapping:
    """The mapping; a record is an entry of a conversation, or what a store keeps beside them."""

    format = "pydantic_ai_entries"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what the message of an entry means."""
        message = record.get("message") if is_object(record) else None
        if not is_object(message):
            return
        listed: list[Any] = message.get("parts") or []
        parts = [part for part in listed if is_object(part)]
        if message.get("kind") == "response":
            _response(to, message, parts)
            return
        leading = list(takewhile(_begins_nothing, parts)) if to.leading else []
        prompts = [part["content"] for part in leading if _is_prompt(part)]
        if prompts:
            to.system("\n\n".join(prompts))
        for place, part in enumerate(parts):
            if place >= len(leading) or not _is_prompt(part):
                _said(to, text_of(part.get("part_kind")), part, text_of(message.get("instructions")))


def _is_prompt(part: dict[str, Any]) -> bool:
    return part.get("part_kind") == "system-prompt" and isinstance(part.get("content"), str)


def _begins_nothing(part: dict[str, Any]) -> bool:
    """Whether a part of a request is no user message, were it the first."""
    kind = text_of(part.get("part_kind"))
    return _is_prompt(part) or (
        kind not in {"user-prompt", "speech"} and (kind not in _SAID or bool(part.get("tool_name")))
    )


def _said(to: RecordBuilder, kind: str, part: dict[str, Any], instructions: str) -> None:
    """Tell what a part of a request means."""
    content = part.get("content")
    if kind == "user-prompt":
        to.user(_user_parts(to, content), system=instructions)
    elif kind == "speech":
        to.user(text_of(part.get("transcript")), system=instructions)
    elif kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name")):
        _result(to, kind, part)
    elif kind in _SAID:
        to.user(content if isinstance(content, str) else dump(content), agent=kind, synthetic=True)


def _user_parts(to: RecordBuilder, content: Any) -> list[str | File]:
    said: list[str | File] = []
    for one in content if is_array(content) else [content]:
        if isinstance(one, str):
            said.append(one)
        elif is_object(one) and isinstance(one.get("content"), str):
            said.append(str(one["content"]))
        elif is_object(one) and (found := _mime_and_url(one)) is not None:
            said.append(File(found[0], to.batch.content(found[1])))
    return said


def _mime_and_url(block: dict[str, Any]) -> tuple[str, str] | None:
    """Return MIME type and URL of a file, None for what is none."""
    mime = text_of(block.get("media_type")) or "application/octet-stream"
    data, url, name = block.get("data"), block.get("url"), block.get("file_id")
    if isinstance(data, str):
        return mime, f"data:{mime};base64,{data}"
    if isinstance(url, str):
        return mime, url
    return (mime, f"file:{name}") if isinstance(name, str) else None


def _result(to: RecordBuilder, kind: str, part: dict[str, Any]) -> None:
    content = part.get("content")
    blocks = [one for one in (content if is_array(content) else [content]) if is_object(one) and "media_type" in one]
    files = [
        Attachment(found[0], to.batch.content(found[1])) for one in blocks if (found := _mime_and_url(one)) is not None
    ]
    if files:
        left = [one for one in content if one not in blocks] if is_array(content) else []
        content = left[0] if len(left) == 1 else left or ""
    text = content if isinstance(content, str) else "" if content is None else dump(content)
    call, failed = text_of(part.get("tool_call_id")), kind == "retry-prompt" or part.get("outcome") in _FAILED
    tool, held = text_of(part.get("tool_name")), isinstance(part.get("content"), str)
    if (
        not to.result(call, text, tool=tool, failed=failed, attachments=files, held=held)
        and kind != "builtin-tool-return"
    ):
        to.user(text, agent="tool", synthetic=True)


def _response(to: RecordBuilder, message: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    """Tell an answer."""
    name, carried = text_of(message.get("model_name")), ""
    model = Model(text_of(message.get("provider_name")), name) if name else None
    to.answer(id=text_of(message.get("provider_response_id")), model=model)
    for part in parts:
        kind, content = text_of(part.get("part_kind")), part.get("content")
        call, details = text_of(part.get("tool_call_id")), object_of(part.get("provider_details"))
        provider = text_of(part.get("provider_name")) or text_of(message.get("provider_name"))
        signature, id = text_of(details.get("thought_signature")) or carried, text_of(part.get("id"))
        carried = ""
        if kind == "thinking":
            secret = signature or text_of(part.get("signature"))
            about = signed(provider, secret, id, is_thought=True)
            if is_google(provider) and not signature:  # it belongs to the part that follows
                carried, about = secret, None
            to.reasoning(text_of(content), metadata=about)
            continue
        about = signed(provider, signature, id)
        if kind == "compaction":
            _compaction(to, provider, details, text_of(content), model)
        elif kind == "text" and isinstance(content, str):
            to.text(content, metadata=about)
        elif kind == "speech":
            to.text(text_of(part.get("transcript")))
        elif kind in {"tool-call", "builtin-tool-call"}:
            tool, given = text_of(part.get("tool_name")), call_input(part.get("args"))
            to.call(call, tool, given, provider_executed=kind != "tool-call", metadata=about)
        elif kind == "builtin-tool-return":
            _result(to, kind, part)
        elif kind == "file" and is_object(content) and (found := _mime_and_url(content)) is not None:
            to.file(File(found[0], to.batch.content(found[1])))
    usage = message.get("usage")
    if is_object(usage) and not usage.get("unmeasured_requests"):
        tokens = {name: number_of(usage.get(key)) for name, key in _TOKENS.items()}
        tokens["input"] = max(tokens["input"] - tokens["cache_read"] - tokens["cache_write"], 0)
        to.usage(Usage(Tokens(**tokens), price_of(usage.get("cost"))))
    reason = text_of(message.get("finish_reason"))
    to.end(_REASONS.get(reason, reason) or None)


def _compaction(to: RecordBuilder, provider: str, details: dict[str, Any], text: str, model: Model | None) -> None:
    """Tell a compaction that the provider made, or the summary of another one as a text."""
    content = to.batch.content
    if details and not text:
        kind, block = OPENAI_COMPACTION, details
    elif "anthropic" in provider and text:
        kind, block = COMPACTION, {"type": "compaction", "content": text, **details}
    else:
        to.text(text)
        return
    opaque = Opaque(kind, content(dump(block)), target_of(model), content(text) if text else None)
    to.conversation.complete(to.time, to.next_part(), opaque)
