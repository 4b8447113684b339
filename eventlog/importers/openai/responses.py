"""Mapping of items of the Responses API, as requests and responses list them.

* Consecutive reasoning, texts and calls are one answer. The output of a call ends it.
* Calls that the provider ran have their result in the item.
* A leading system message is the system prompt; later ones, also those right behind it, and
  developer's are synthetic user messages: each record says its own text, and can be forgotten.
"""

from __future__ import annotations

from typing import Any

from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.json_lines import is_object
from eventlog.importers.common.message_reader import system_prompt
from eventlog.importers.openai import items
from eventlog.importers.openai.calls import call_of, is_call, is_output, output_of
from eventlog.importers.openai.messages import tell_blocks, tell_user
from eventlog.streams.records import metadata_of, text_of

__all__ = ["OpenAIResponsesMapping"]


class OpenAIResponsesMapping:
    """The mapping; a record is an item."""

    format = "openai_responses_items"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what one item means."""
        if not is_object(record):
            to.skip("not an object")
            return
        kind = text_of(record.get("type")) or ("message" if "role" in record else "")
        if kind == "message":
            _message(to, record)
        elif kind == "reasoning":
            _reasoning(to, record)
        elif is_call(record):
            _call(to, record)
        elif is_output(record):
            if not _result(to, "", record):
                to.skip("a result for a call that is not open")
            to.end()
        else:
            to.skip(f"an item of unknown type {kind[:40]!r}" if kind else "an item without a type")


def _message(to: RecordBuilder, item: dict[str, Any]) -> None:
    role, content = text_of(item.get("role")), item.get("content")
    name = text_of(item.get("id"))
    if role == "assistant":
        _begin(to, name)
        metadata = metadata_of(items.PROVIDER, itemId=name, phase=text_of(item.get("phase")))
        tell_blocks(to, content, metadata)
        answer = to.conversation.open
        if answer is not None and not answer.calls and text_of(item.get("status")) in {"", "completed"}:
            answer.reason = "stop"
    elif role == "system" and to.leading:
        system_prompt(to, content)
    elif role in {"user", "system", "developer"}:
        tell_user(to, item, role)
    else:
        to.skip("a message of an unknown role")


def _begin(to: RecordBuilder, name: str = "") -> None:
    """Begin an answer, unless one is open."""
    answer = to.conversation.open
    if answer is None:
        answer = to.answer(id=name)
    answer.reason = None


def _reasoning(to: RecordBuilder, item: dict[str, Any]) -> None:
    texts = [*items.texts_of(item.get("summary")), *items.texts_of(item.get("content"))]
    secret, name = text_of(item.get("encrypted_content")), text_of(item.get("id"))
    if not texts and secret:
        texts = [""]
    if texts:
        _begin(to)
    for number, text in enumerate(texts, 1):
        own = secret if number == len(texts) else ""
        about = metadata_of(items.PROVIDER, itemId=name, reasoningEncryptedContent=own)
        to.reasoning(text, metadata=about, secret=own)


def _call(to: RecordBuilder, item: dict[str, Any]) -> None:
    _begin(to)
    answer = to.conversation.open
    call = call_of(item, f"call-{answer.parts if answer is not None else 0}")
    name = to.call(call.id, call.tool, call.given, provider_executed=call.provider, metadata=call.metadata)
    _result(to, name, item)


def _result(to: RecordBuilder, call: str, item: dict[str, Any]) -> bool:
    """Add the result in an item, if it has one; False if no call waits for it."""
    output = output_of(item, to.batch)
    if output is None:
        return True
    if output.data:
        to.conversation.remainder.move(output.data, "attachment")
    return to.result(
        output.call or call,
        output.text,
        tool="tool_search" if item.get("type") == "tool_search_output" else "" if call else text_of(item.get("name")),
        failed=output.failed,
        interrupted=output.interrupted,
        attachments=() if output.failed else output.attachments,
        held=output.held,
    )
