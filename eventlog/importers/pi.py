"""Importer of sessions of pi: JSONL, one entry a line, newer ones in a tree of `parentId`.

* A message means what its role says. The result of a call is a `toolResult`; a command that the
  user ran, a note of an extension and the summary of a branch are synthetic user messages.
* An entry that stands behind an earlier one leaves what came between.
* A compaction covers what stands before its first kept entry.
"""

from __future__ import annotations

from typing import Any

from eventlog import events as ev
from eventlog.importers.anthropic.content import PROVIDER as ANTHROPIC
from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.conversation_parts import ABORTED, COVERS_NOTHING, CallInput, Kept, UserPart
from eventlog.importers.common.json_lines import dump, has_record, is_array, is_object, value_in
from eventlog.importers.common.message_lists import line_conversations
from eventlog.importers.common.message_reader import ConversationReader, RecordLists
from eventlog.importers.openai.items import PROVIDER as OPENAI
from eventlog.streams.records import metadata_of, number_of, object_of, objects_of, text_of
from eventlog.streams.tokens import price_of
from eventlog.values import Attachment, File, MessageError, Model, Text, Tokens, Usage

_ASIDE = frozenset({"session", "thinking_level_change", "label", "custom", "context_transform", "ephemeral"})
"""Entries that are no part of the conversation."""
_REASONS = {"toolUse": "tool-calls", "length": "length", "stop": "stop"}


class PiMapping:
    """The mapping; a record is an entry."""

    format = "pi"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what one entry means."""
        if not is_object(record):
            to.skip("not an object")
            return
        kind, name, parent = (text_of(record.get(key)) for key in ("type", "id", "parentId"))
        if isinstance(to, ConversationReader) and name and kind != "session":
            to.stand_behind(name, parent)
        if kind == "message" and is_object(record.get("message")):
            _message(to, record["message"], name)
        elif kind in {"session", "model_change"}:
            _model(to, record)
        elif kind == "compaction":
            _compaction(to, record, name)
        elif kind in {"branch_summary", "custom_message"}:
            _note(to, record.get("summary", record.get("content")), name)
        elif kind == "session_info":
            to.conversation.rename(to.time, text_of(record.get("name")))
        elif kind not in _ASIDE:
            to.skip(f"an entry of unknown type {kind[:40]!r}" if kind else "an entry without a type")


def _message(to: RecordBuilder, message: dict[str, Any], name: str) -> None:
    role = text_of(message.get("role"))
    if role == "user":
        to.user(_user_parts(to, message.get("content"), synthetic=False), id=name)
    elif role == "assistant":
        _answer(to, message, name)
    elif role == "toolResult":
        _result(to, message)
    elif role == "bashExecution":
        _note(to, [message.get("command"), message.get("output")], name)
    elif role in {"custom", "hookMessage", "branchSummary", "compactionSummary"}:
        _note(to, message.get("summary", message.get("content")), name)
    else:
        to.skip("a message of an unknown role")


def _note(to: RecordBuilder, content: object, name: str) -> None:
    to.user(_user_parts(to, content, synthetic=True), id=name, synthetic=True)


def _user_parts(to: RecordBuilder, content: object, *, synthetic: bool) -> list[UserPart]:
    blocks: list[Any] = content if is_array(content) else [content]
    found: list[UserPart] = []
    for place, block in enumerate(blocks):
        text = block.get("text") if is_object(block) else block
        if isinstance(text, str):
            found.append(UserPart(Text(to.batch.content(text), synthetic), text, "text"))
        elif is_object(block) and isinstance(block.get("data"), str):
            found.append(UserPart(_file(to, block), block["data"], "file"))
        elif block is not None:
            to.skip(f"block {place} of a message is neither a text nor an image")
    return found


def _file(to: RecordBuilder, block: dict[str, Any]) -> File:
    mime = text_of(block.get("mimeType")) or "image/*"
    return File(mime, to.batch.content(f"data:{mime};base64,{block['data']}"))


def _answer(to: RecordBuilder, message: dict[str, Any], name: str) -> None:
    provider, model = text_of(message.get("provider")), text_of(message.get("model"))
    to.answer(id=name, model=Model(provider, model) if model else None)
    for place, block in enumerate(objects_of(message.get("content"))):
        kind = text_of(block.get("type"))
        if kind == "text" and isinstance(block.get("text"), str):
            to.text(block["text"])
        elif kind == "thinking" and isinstance(block.get("thinking"), str):
            _thinking(to, block, text_of(message.get("api")))
        elif kind == "toolCall":
            _call(to, block, f"call-{to.number}-{place}")
        else:
            to.skip(f"block {place} of an answer is of an unknown type")
    usage = object_of(message.get("usage"))
    if usage:
        to.usage(_usage(usage))
    reason = text_of(message.get("stopReason"))
    if reason in {"aborted", "error"}:
        said = text_of(message.get("errorMessage"))
        to.conversation.interrupt_all(ABORTED if reason == "aborted" else MessageError("api", said))
    else:
        to.end(_REASONS.get(reason, reason) or None)


def _thinking(to: RecordBuilder, block: dict[str, Any], api: str) -> None:
    signature = text_of(block.get("thinkingSignature"))
    if signature and api.startswith("anthropic"):
        to.reasoning(block["thinking"], metadata=metadata_of(ANTHROPIC, signature=signature), secret=signature)
        return
    found = object_of(value_in(signature) if api.startswith("openai") else None)
    secret, name = text_of(found.get("encrypted_content")), text_of(found.get("id"))
    to.reasoning(block["thinking"], metadata=metadata_of(OPENAI, itemId=name, reasoningEncryptedContent=secret))


def _call(to: RecordBuilder, block: dict[str, Any], fallback: str) -> None:
    name, given = text_of(block.get("id")) or fallback, block.get("arguments")
    held = CallInput(dump(given), given, "input") if is_object(given) else CallInput("{}")
    to.call(name, text_of(block.get("name")), held)


def _result(to: RecordBuilder, message: dict[str, Any]) -> None:
    blocks = objects_of(message.get("content"))
    texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    images = [_file(to, block) for block in blocks if isinstance(block.get("data"), str)]
    failed, call, text = bool(message.get("isError")), text_of(message.get("toolCallId")), "\n".join(texts)
    files = () if failed else tuple(Attachment(image.mime, image.url) for image in images)
    if not to.result(call, text, failed=failed, attachments=files, held=len(texts) == 1, early=True):
        to.skip("a result for a call that is not open")


def _model(to: RecordBuilder, record: dict[str, Any]) -> None:
    model = text_of(record.get("modelId"))
    if model:
        to.conversation.add(to.time, ev.SettingsSet(Model(text_of(record.get("provider")), model)))


def _compaction(to: RecordBuilder, record: dict[str, Any], name: str) -> None:
    summary, first = text_of(record.get("summary")), text_of(record.get("firstKeptEntryId"))
    asked, message = to.fresh([f"{name}:asked"] if name else []), to.fresh([name] if name else [])
    if asked == message:  # an entry without an id has one name for both
        asked = f"{message}:asked"
    known = isinstance(to, ConversationReader) and first in to.tree
    before = number_of(record.get("tokensBefore")) or None
    part = to.conversation.compact(to.time, asked, auto=True, before=before, kept=Kept((), first if known else None))
    kinds: list[Any] = [(Text(to.batch.content(summary)), summary, "text")] if summary else []
    if not to.conversation.summary(to.time, part, asked, message, kinds):
        to.skip(COVERS_NOTHING)


def _usage(usage: dict[str, Any]) -> Usage:
    names = ("input", "output", "cacheRead", "cacheWrite")
    given, made, read, written = (number_of(usage.get(name)) for name in names)
    tokens = Tokens(given, made, cache_read=read, cache_write=written)
    return Usage(tokens, price_of(object_of(usage.get("cost")).get("total")))


def _is_header(record: dict[str, Any]) -> bool:
    return record.get("type") == "session" and "cwd" in record and "id" in record


def _head(first: dict[str, Any]) -> dict[str, Any]:
    return {"session_id": first.get("id"), "timestamp": first.get("timestamp"), "cwd": first.get("cwd")}


PI = RecordLists(
    PiMapping(),
    lambda start: has_record(start, 1, _is_header, lambda _: False),
    lambda file, report: line_conversations(file, report, lambda value: "type" in value, _head),
)
