"""Importer of bodies of OpenAI's Responses and Conversations.

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
from eventlog.importers.common.message_reader import RecordLists
from eventlog.importers.openai.calls import is_call, is_output
from eventlog.importers.openai.items import PROVIDER
from eventlog.importers.openai.responses import OpenAIResponsesMapping
from eventlog.streams.openai_responses import COMPACTIONS
from eventlog.streams.records import objects_of, text_of

__all__ = ["RESPONSES_BODIES", "ResponsesBodyMapping"]

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


class ResponsesBodyMapping:
    """The mapping; a record is an item, or a text of the user."""

    format = "openai_responses"

    def __init__(self) -> None:
        self._items = OpenAIResponsesMapping()

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what one item means."""
        if isinstance(record, str):
            to.user(record)
        else:
            self._items.read(record, to)


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
