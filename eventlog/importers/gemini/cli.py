"""Importer of sessions of Gemini CLI: `session-*.json`, and its newer files of lines.

An answer has its calls with their results, so it is whole. `info`, `warning` and `error`
messages are the program's own, and no messages. The file of one object is written anew as it grows;
in a file of lines a message that comes again replaces itself, `$rewindTo` goes back to before
the message that it names, and `$set` may have the messages that are in force from there on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.importer import Report
from eventlog.importers.common.json_lines import dump, is_object, read_beginning
from eventlog.importers.common.message_lists import ListedConversation, document_conversation, line_conversations
from eventlog.importers.common.message_reader import ConversationReader, RecordLists
from eventlog.importers.gemini import parts
from eventlog.streams.records import number_of, object_of, objects_of, text_of
from eventlog.streams.tokens import usage_of_gemini
from eventlog.values import Model, Usage

_START = re.compile(rb'^\s*\{\s*"sessionId"\s*:\s*"[^"]*"\s*,\s*"projectHash"\s*:')
_ANSWERS = frozenset({"gemini", "qwen"})
_NOTICES = frozenset({"info", "warning", "error"})


class GeminiCliMapping:
    """The mapping; a record is a message, or a change to the session."""

    format = "gemini_cli"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what one message means."""
        if not is_object(record):
            to.skip("not an object")
            return
        kind, name = text_of(record.get("type")), text_of(record.get("id"))
        if "$rewindTo" in record:
            if not _back(to, text_of(record["$rewindTo"])):
                to.skip("it goes back to a message that the file does not have")
            return
        if isinstance(to, ConversationReader):
            self._replace(to, objects_of(object_of(record.get("$set")).get("messages")))
        if kind in {"user", *_ANSWERS} and name:
            _begin(to, name)
        if kind == "user":
            _user(to, record, name)
        elif kind in _ANSWERS:
            _answer(to, record)
        elif kind in _NOTICES:
            to.skip(f"a notice of the program ({kind}): kept, but no message")
        elif kind:
            to.skip(f"a message of unknown type {kind[:40]!r}")

    def _replace(self, to: ConversationReader, listed: list[dict[str, Any]]) -> None:
        """Make a list the history: its first new text stands for what it leaves out."""
        ends = {f"end {name}": message for message in listed if (name := text_of(message.get("id")))}
        known = [end for end in ends if end in to.tree]
        covers = bool(known) and to.tree.latest not in ends
        for end, message in ends.items():
            if end in known or parts.responses(message.get("content")):
                continue
            user = message.get("type") == "user"
            said = parts.user_parts(message.get("content"), to, synthetic=True) if user else []
            if not said:
                self.read(message, to)
            elif to.tree.begin(to.time, end, None) and covers and said[0].field == "text":
                to.compaction(said[0].held, id=end[4:])
                covers = False
            else:
                to.user(said, id=end[4:], synthetic=True)
            to.tree.end_record()
            known.append(end)
        if known and known[-1] != to.tree.latest:
            to.tree.go_back(to.time, known[-1])


def _user(to: RecordBuilder, message: dict[str, Any], name: str) -> None:
    """Add a user message, unless it has nothing but results, which the calls above have."""
    said = parts.user_parts(message.get("content"), to)
    if said or not parts.responses(message.get("content")):
        to.user(said, id=name)


def _begin(to: RecordBuilder, name: str) -> None:
    """Begin a message; one that comes again takes the place of itself and all behind it."""
    if isinstance(to, ConversationReader):
        if f"end {name}" in to.tree:
            _back(to, name)
        to.tree.mark(f"before {name}")
        to.tree.begin(to.time, f"end {name}", None)


def _back(to: RecordBuilder, name: str) -> bool:
    return isinstance(to, ConversationReader) and to.tree.go_back(to.time, f"before {name}")


def _answer(to: RecordBuilder, message: dict[str, Any]) -> None:
    name = text_of(message.get("model"))
    to.answer(id=text_of(message.get("id")), model=Model(parts.PROVIDER, name) if name else None)
    for thought in objects_of(message.get("thoughts")):
        for text in map(text_of, (thought.get("subject"), thought.get("description"))):
            if text:
                to.reasoning(text)
    parts.answer_parts(message.get("content"), to)
    for place, found in enumerate(objects_of(message.get("toolCalls"))):
        call = parts.call(to, found, f"call-{to.number}-{place}")
        _result(to, call, found)
    tokens = object_of(message.get("tokens"))
    if tokens:
        to.usage(usage_of(tokens))
    to.end()


def _result(to: RecordBuilder, call: str, found: dict[str, Any]) -> None:
    """Complete a call with its result, unless it was waiting when the file was written."""
    status, result = text_of(found.get("status")), found.get("result")
    stopped = status == "cancelled"
    given = parts.responses(result)
    files = [file for part in parts.parts_of(result) if is_object(part) and (file := parts.file_of(part, to))]
    if given:
        said, held = parts.response_of(given[0], files)
        failed = said.failed or status in {"error", "cancelled"}
        attachments = () if failed else said.attachments
        to.result(call, said.output, failed=failed, interrupted=stopped, attachments=attachments, held=held)
    elif result:
        to.result(call, dump(result), failed=status != "success", interrupted=stopped, held=False)
    elif status in {"success", "error", "cancelled"}:
        said_on_screen = text_of(found.get("resultDisplay"))
        to.result(call, said_on_screen, failed=status != "success", interrupted=stopped)


def usage_of(tokens: dict[str, Any]) -> Usage:
    """Return the usage that a session sums up of Gemini's counts."""
    given = number_of(tokens.get("input")) + number_of(tokens.get("tool"))
    read, said, thought = (number_of(tokens.get(name)) for name in ("cached", "output", "thoughts"))
    return usage_of_gemini(given, read, said, thought, tokens.get("total"))


def _conversations(file: BinaryIO, report: Report) -> Iterator[ListedConversation]:
    begin = file.tell()
    start = read_beginning(file)
    file.seek(begin)
    if b'"messages"' not in start.partition(b"\n{")[0]:
        yield from line_conversations(
            file, report, lambda value: bool(value.keys() & {"type", "$set", "$rewindTo"}), _head
        )
        return
    found = document_conversation(file, "messages", report)
    around = found.around
    head = {
        "session_id": around.get("sessionId"),
        "timestamp": around.get("startTime"),
        "title": around.get("summary"),
    }
    yield found._replace(head=head, snapshot=True, updated=around.get("lastUpdated"))


def _head(first: dict[str, Any]) -> dict[str, Any]:
    return {"session_id": first.get("sessionId"), "timestamp": first.get("startTime")}


GEMINI_CLI = RecordLists(GeminiCliMapping(), lambda start: bool(_START.match(start)), _conversations)
