"""Mapping of items of the Responses API, and importer of its requests and responses.

* Consecutive reasoning, texts and calls are one answer. The output of a call ends it.
* Calls that the provider ran have their result in the item.
* A leading system message is the system prompt; later ones, also those right behind it, and
  developer's are synthetic user messages: each record says its own text, and can be forgotten.

A file is a request (`input`), a response (`output`), a page of a conversation's items (`data`), a
new conversation (`items`), or an array of items alone. A text in `input` is a message of the user.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO

from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.importer import Report
from eventlog.importers.common.json_document import beginning
from eventlog.importers.common.json_lines import is_object, read_beginning
from eventlog.importers.common.message_lists import (
    SINGLE,
    ListedConversation,
    array_conversations,
    document_conversation,
    whole_object,
)
from eventlog.importers.common.message_reader import RecordLists, system_prompt
from eventlog.importers.openai import items
from eventlog.importers.openai.items import PROVIDER, call_of, is_call, is_output, output_of
from eventlog.importers.openai.messages import tell_blocks, tell_user
from eventlog.streams.openai_responses import COMPACTIONS
from eventlog.streams.records import metadata_of, objects_of, text_of


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
    told = items.reasoning_of(item, items.thoughts_of(item))
    if told:
        _begin(to)
    for text, about, secret in told:
        to.reasoning(text, metadata=about, secret=secret)


def _call(to: RecordBuilder, item: dict[str, Any]) -> None:
    _begin(to)
    answer = to.conversation.open
    kind, given = call_of(item, f"call-{answer.parts if answer is not None else 0}")
    name = to.call(kind.call, kind.tool, given, provider_executed=kind.provider_executed, metadata=kind.metadata)
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
        output.result.output,
        tool="tool_search" if item.get("type") == "tool_search_output" else "" if call else text_of(item.get("name")),
        failed=output.result.failed,
        interrupted=output.result.interrupted,
        attachments=output.result.attachments,
        held=output.held,
    )


_MEMBERS = ("input", "output", "data", "items")
_ONLY_RESPONSES = frozenset(
    {
        "instructions",
        "tools",
        "previous_response_id",
        "conversation",
        "reasoning",
        "max_output_tokens",
        "store",
        "include",
    }
)
"""Members by which a request with a text is none of another API."""
_BLOCKS = frozenset({"input_text", "output_text", "input_image", "input_file", "refusal"})


class ResponsesBodyMapping(OpenAIResponsesMapping):
    """The mapping; a record is an item, or a text of the user."""

    format = "openai_responses"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what one item means."""
        if isinstance(record, str):
            to.user(record)
        else:
            super().read(record, to)


def _is_item(value: object) -> bool:
    """Whether a value is an item, and no chat message."""
    if not is_object(value):
        return False
    kind = text_of(value.get("type"))
    if kind == "message":
        return any(text_of(block.get("type")) in _BLOCKS for block in objects_of(value.get("content")))
    if kind in {"reasoning", "item_reference", *COMPACTIONS}:
        return True
    return is_call(value) or is_output(value)


def _form(start: bytes) -> tuple[str, bool] | None:
    """Return the member that has the items, "" for an array, and whether it is a text."""
    begin = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if begin.startswith(b"["):
        return ("", False) if any(map(_is_item, beginning(io.BytesIO(begin))[0])) else None
    if not begin.startswith(b"{"):
        return None
    for member in _MEMBERS:
        found, around = beginning(io.BytesIO(begin), member, whole=True)
        asks = member == "input" and "model" in around
        if asks and isinstance(around.get(member), str) and around.keys() & _ONLY_RESPONSES:
            return member, True
        listed = member in {"input", "items"} or text_of(around.get("object")) in {"response", "list"}
        if (listed and any(map(_is_item, found))) or (asks and found and all(map(_has_role, found))):
            return member, False
    return None


def _has_role(value: object) -> bool:
    return is_object(value) and "role" in value and "content" in value


def _conversations(file: BinaryIO, report: Report) -> Iterator[ListedConversation]:
    begin = file.tell()
    member, alone = _form(read_beginning(file)) or ("", False)
    file.seek(begin)
    if alone:
        whole, plain = whole_object(file, report)
        yield ListedConversation("", member + SINGLE, {**whole, member: None}, iter([(1, whole.get(member), plain)]))
    elif member:
        yield document_conversation(file, member, report)
    else:
        yield from array_conversations(file, report)


RESPONSES_BODIES = RecordLists(ResponsesBodyMapping(), lambda start: _form(start) is not None, _conversations, PROVIDER)
