"""Importer of sessions of Qwen Code: JSONL, one record a line, in a tree of `parentUuid`.

A record that stands behind an earlier one leaves what came between. A compression stands for all
before it by the summary in its history; other `system` records are the program's own.
"""

from __future__ import annotations

from typing import Any

from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.json_lines import has_record, is_object
from eventlog.importers.common.message_lists import line_conversations
from eventlog.importers.common.message_reader import ConversationReader, RecordLists
from eventlog.importers.gemini import parts
from eventlog.importers.gemini.cli import usage_of
from eventlog.streams.records import object_of, text_of
from eventlog.streams.tokens import gemini_usage
from eventlog.values import Model

LINES = 50


class QwenMapping:
    """The mapping; a record is a line."""

    format = "qwen_code"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what one record means."""
        if not is_object(record):
            to.skip("not an object")
            return
        name = text_of(record.get("uuid"))
        if isinstance(to, ConversationReader) and name:
            to.stand_behind(name, text_of(record.get("parentUuid")))
        kind, content = text_of(record.get("type")), record.get("message")
        if kind == "user":
            to.user(parts.user_parts(content, to), id=name)
        elif kind == "assistant":
            _answer(to, record, name)
        elif kind == "tool_result":
            _results(to, record)
        elif kind == "system" and record.get("subtype") == "chat_compression":
            _compressed(to, record, name)
        elif kind == "system":
            to.skip("a record of the program: kept, but no message")
        else:
            to.skip(f"a record of unknown type {kind[:40]!r}")


def _answer(to: RecordBuilder, record: dict[str, Any], name: str) -> None:
    model = text_of(record.get("model"))
    to.answer(id=name, model=Model("", model) if model else None)
    parts.answer_parts(record.get("message"), to)
    usage = object_of(record.get("usageMetadata"))
    if usage:
        to.usage(gemini_usage(usage) if "totalTokenCount" in usage else usage_of(usage))
    to.end()


def _results(to: RecordBuilder, record: dict[str, Any]) -> None:
    content, status = record.get("message"), text_of(object_of(record.get("toolCallResult")).get("status"))
    files = [file for part in parts.parts_of(content) if is_object(part) and (file := parts.file_of(part, to))]
    for found in parts.responses(content):
        result, held = parts.response_of(found, files)
        if status in {"error", "cancelled"}:
            result = result._replace(failed=True, attachments=())
        if not to.result(
            text_of(found.get("id")) or to.open_call(text_of(found.get("name"))),
            result.output,
            failed=result.failed,
            interrupted=status == "cancelled",
            attachments=result.attachments,
            held=held,
            early=True,
        ):
            to.skip("a result for a call that is not open")


def _compressed(to: RecordBuilder, record: dict[str, Any], name: str) -> None:
    history = object_of(record.get("systemPayload")).get("compressedHistory")
    summary = ""
    for part in parts.parts_of(history)[:1]:
        texts = [one.get("text") for one in parts.parts_of(part) if is_object(one)]
        summary = "\n\n".join(text for text in texts if isinstance(text, str))
    if not summary:
        to.skip("a compaction without a readable summary: it covers nothing")
        return
    to.compaction(summary, id=name)


def _is_record(record: dict[str, Any]) -> bool:
    message = record.get("message")
    return "uuid" in record and (
        (is_object(message) and "parts" in message and "content" not in message) or "systemPayload" in record
    )


QWEN_CODE = RecordLists(
    QwenMapping(),
    lambda start: has_record(start, LINES, _is_record, lambda data: b'"uuid"' in data and b'"parts"' in data),
    lambda file, report: line_conversations(file, report, lambda value: "uuid" in value, lambda first: first),
)
