"""Importer of ChatGPT's data exports: `conversations.json`, whole or split.

* Each conversation is a session, and a tree of nodes. They are told in the order of their times: a
  node behind an earlier one leaves what came between, and at the end the current one is in force.
* An assistant's message to a tool is a call, and the tool's message behind it the result.
* Images and files are references (`file-service://…`), as the export has them.

A source record is a node without its `children`; these, and what stands around the nodes, change
as a conversation grows, and are kept as a snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any, BinaryIO

from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.conversation_parts import UserPart
from eventlog.importers.common.importer import Report
from eventlog.importers.common.json_document import Document
from eventlog.importers.common.json_lines import is_array, is_object
from eventlog.importers.common.message_lists import ListedConversation, numbered, whole_object
from eventlog.importers.common.message_reader import ConversationReader, RecordLists, time_of
from eventlog.importers.openai.items import PROVIDER, call_input
from eventlog.streams.records import object_of, text_of
from eventlog.values import Attachment, File, Model, Text

_START = re.compile(rb"^\s*(?:\[\s*)?\{")
_MAPPING = re.compile(rb'"mapping"\s*:\s*\{')
_TEXTS = ("text", "result", "content", "user_profile", "user_instructions")
"""Members of a content, or of a part, that have its text."""


class ChatGptMapping:
    """The mapping; a record is a node."""

    format = "chatgpt"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what one node means."""
        message, name = object_of(record.get("message")), text_of(record.get("id"))
        stamp = time_of(message)
        to.time = to.time if stamp is None else stamp
        if isinstance(to, ConversationReader):
            to.stand_behind(name, text_of(record.get("parent")))
        role, content = text_of(object_of(message.get("author")).get("role")), object_of(message.get("content"))
        if role == "user":
            hidden = text_of(content.get("content_type")) == "user_editable_context"
            to.user(_parts(to, content, synthetic=hidden), id=name, synthetic=hidden)
        elif role == "assistant":
            _answer(to, message, content, name)
        elif role == "tool":
            _result(to, record, message, content)
        elif role == "system":
            said = [part.held for part in _parts(to, content, synthetic=True) if part.held]
            if said and to.leading:
                to.system("\n\n".join(said))
            elif said:
                to.user(_parts(to, content, synthetic=True), id=name, synthetic=True)
        elif message:
            to.skip("a message of an unknown role")


def _parts(to: RecordBuilder, content: dict[str, Any], *, synthetic: bool = False) -> list[UserPart]:
    """Return the texts and references in a content; empty texts are none."""
    listed = content.get("parts")
    pieces: list[Any] = listed if is_array(listed) else [content]
    found: list[UserPart] = []
    for place, piece in enumerate(pieces):
        fields = object_of(piece)
        texts = [piece] if isinstance(piece, str) else [text_of(fields.get(name)) for name in _TEXTS]
        pointer = text_of(fields.get("asset_pointer"))
        if pointer:
            kind = "audio" if "audio" in text_of(fields.get("content_type")) else "image"
            found.append(UserPart(File(f"{kind}/*", to.batch.content(pointer)), pointer, "url"))
        elif any(texts):
            found.extend(UserPart(Text(to.batch.content(text), synthetic), text, "text") for text in texts if text)
        elif piece and is_array(listed):
            to.skip(f"part {place} of a message is neither a text nor a reference")
    return found


def _answer(to: RecordBuilder, message: dict[str, Any], content: dict[str, Any], name: str) -> None:
    model = text_of(object_of(message.get("metadata")).get("model_slug"))
    to.answer(id=name, model=Model(PROVIDER, model) if model else None)
    tool, thoughts = text_of(message.get("recipient")), content.get("thoughts")
    parts = _parts(to, content)
    if is_array(thoughts):
        for thought in thoughts:
            for text in map(text_of, (object_of(thought).get("summary"), object_of(thought).get("content"))):
                if text:
                    to.reasoning(text)
    elif tool not in {"", "all"}:
        to.call(name or f"call-{to.number}", tool, call_input("".join(part.held for part in parts)))
    else:
        for part in parts:
            if isinstance(part.kind, File):
                to.file(part.kind, part.held, part.field)
            elif content.get("content_type") == "reasoning_recap":
                to.reasoning(part.held)
            else:
                to.text(part.held)
    to.end()


def _result(to: RecordBuilder, record: dict[str, Any], message: dict[str, Any], content: dict[str, Any]) -> None:
    """Complete the call that the message stands behind, else the oldest open one of its tool."""
    parent, tool = text_of(record.get("parent")), text_of(object_of(message.get("author")).get("name"))
    call = parent if parent in to.conversation.calls else to.open_call(tool)
    parts = _parts(to, content)
    texts = [part.held for part in parts if isinstance(part.kind, Text)]
    files = tuple(Attachment(part.kind.mime, part.kind.url) for part in parts if isinstance(part.kind, File))
    status = text_of(object_of(object_of(message.get("metadata")).get("aggregate_result")).get("status"))
    stopped = status == "cancelled"
    failed = stopped or status.startswith("failed") or content.get("content_type") == "system_error"
    files, text = () if failed else files, "\n".join(texts)
    if not to.result(call, text, failed=failed, interrupted=stopped, attachments=files, held=len(texts) == 1):
        to.skip("a tool's message for no open call: kept, but not as a result")


def _nodes(mapping: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the nodes: each behind its parent, and else in the order of their times."""
    children: dict[str, list[str]] = {}
    for name, node in mapping.items():
        if is_object(node):
            parent = text_of(node.get("parent"))
            children.setdefault(parent if parent in mapping else "", []).append(name)
    ready = [(0, 0, number, name) for number, name in enumerate(children.get("", []))]
    heapify(ready)
    told = 0
    while ready:
        time, _, _, name = heappop(ready)
        told += 1
        yield name, mapping[name]
        for number, child in enumerate(children.get(name, [])):
            own = time_of(object_of(mapping[child].get("message")))
            heappush(ready, (time if own is None else max(own, time), told, number, child))


def _conversation(name: str, value: dict[str, Any], *, plain: bool) -> ListedConversation:
    mapping = object_of(value.get("mapping"))
    around: dict[str, Any] = {
        member: {"children": node["children"]} if is_object(node) and "children" in node else {}
        for member, node in mapping.items()
    }
    head = {
        "session_id": text_of(value.get("conversation_id")) or value.get("id"),
        "title": value.get("title"),
        "create_time": value.get("create_time"),
    }
    nodes = (
        (number, {**{key: node[key] for key in node if key != "children"}, "id": own}, plain)
        for number, (own, node) in enumerate(_nodes(mapping), start=1)
    )
    found = ListedConversation(name, "mapping", {**value, "mapping": around}, nodes, head, snapshot=True)
    return found._replace(updated=value.get("update_time"), current=text_of(value.get("current_node")))


def _conversations(file: BinaryIO, report: Report) -> Iterator[ListedConversation]:
    begin = file.tell()
    is_list = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    file.seek(begin)
    if not is_list:
        whole, plain = whole_object(file, report)
        yield _conversation("", whole, plain=plain)
        return
    for number, value, plain in numbered(Document(file, "", report.skip).elements(), report):
        if is_object(value) and is_object(value.get("mapping")):
            yield _conversation(f":{number}", value, plain=plain)
        else:
            report.skip(number, "no conversation: it has no nodes")


def _is_export(start: bytes) -> bool:
    return bool(_START.match(start) and _MAPPING.search(start)) and b'"parent"' in start and b'"message"' in start


CHATGPT = RecordLists(ChatGptMapping(), _is_export, _conversations)
