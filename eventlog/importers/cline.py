"""Importer of tasks of Cline and Roo Code as their screen shows them: `ui_messages.json`.

The other file of a task, `api_conversation_history.json`, is a list of Anthropic's messages, and
has the results of calls whole: it is the better one. On the screen an answer is what follows the
start of a request; a call has the result that the screen shows of it, which may be none.
"""

from __future__ import annotations

import re
from typing import Any

from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.conversation_parts import COVERS_NOTHING, CallInput, UserPart
from eventlog.importers.common.json_lines import is_array, is_object, value_in
from eventlog.importers.common.message_lists import array_conversations
from eventlog.importers.common.message_reader import RecordLists
from eventlog.importers.openai.items import call_input
from eventlog.streams.records import number_of, object_of, text_of
from eventlog.streams.tokens import price_of
from eventlog.values import File, Model, Text, Tokens, Usage

_START = re.compile(rb'^\s*\[\s*\{\s*"ts"\s*:\s*\d+\s*,\s*"type"\s*:\s*"(?:say|ask)"')
_OF_USER = frozenset({"task", "user_feedback", "user_feedback_diff"})
_SAID = frozenset({"text", "completion_result", "followup", "plan_mode_respond", "plan_mode_response"})
_CALLS = {
    "tool": "tool", "command": "execute_command", "use_mcp_server": "use_mcp_tool", "browser_action_launch": "browser_action",
    "browser_action": "browser_action",
}  # fmt: skip
_RESULTS = {
    "command_output": "execute_command", "mcp_server_response": "use_mcp_tool", "browser_action_result": "browser_action",
}  # fmt: skip

_SHOWN = frozenset({"listFilesTopLevel", "listFilesRecursive", "listCodeDefinitionNames", "searchFiles"})
"""Tools of which `content` is the result; of others it is a path, or what to write."""


class ClineMapping:
    """The mapping; a record is what the screen says or asks."""

    format = "cline"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what one record means."""
        if not is_object(record):
            to.skip("not an object")
            return
        kind = text_of(record.get(text_of(record.get("type")) or "say"))
        text = text_of(record.get("text"))
        if kind in _OF_USER or (not to.begun and kind == "text"):
            _user(to, record, text)
        elif kind == "api_req_started":
            _request(to, record, object_of(value_in(text)))
        elif kind in _SAID:
            inner = object_of(value_in(text))
            said = text_of(inner.get("question")) or text_of(inner.get("response")) or text
            if said:
                _answer(to, record)
                to.text(said)
        elif kind == "reasoning" and text:
            _answer(to, record)
            to.reasoning(text)
        elif kind in _CALLS:
            _call(to, record, _CALLS[kind], text)
        elif kind in _RESULTS:
            _result(to, _RESULTS[kind], text)
        elif kind == "condense_context":
            _condensed(to, object_of(record.get("contextCondense")))
        else:
            to.skip(f"a notice of the screen ({kind[:40]!r}): kept, but no message")


def _id(record: dict[str, Any]) -> str:
    stamp = record.get("ts")
    return str(stamp) if isinstance(stamp, int) else ""


def _user(to: RecordBuilder, record: dict[str, Any], text: str) -> None:
    said = [UserPart(Text(to.batch.content(text)), text, "text")] if text else []
    images = record.get("images")
    for url in images if is_array(images) else []:
        if isinstance(url, str):
            mime = url[5:].partition(";")[0] if url.startswith("data:") else "image/*"
            said.append(UserPart(File(mime or "image/*", to.batch.content(url)), url, "url"))
    to.user(said, id=_id(record))


def _request(to: RecordBuilder, record: dict[str, Any], request: dict[str, Any]) -> None:
    about = object_of(record.get("modelInfo"))
    model = text_of(about.get("modelId"))
    to.answer(id=_id(record), model=Model(text_of(about.get("providerId")), model) if model else None)
    given, made, read, written = (
        number_of(request.get(name)) for name in ("tokensIn", "tokensOut", "cacheReads", "cacheWrites")
    )
    if given or made:
        to.usage(Usage(Tokens(given, made, cache_read=read, cache_write=written), price_of(request.get("cost"))))


def _answer(to: RecordBuilder, record: dict[str, Any]) -> None:
    if to.conversation.open is None:
        to.answer(id=_id(record))


def _call(to: RecordBuilder, record: dict[str, Any], tool: str, text: str) -> None:
    """Add a call; a tool of the editor has its result here, or none that the screen shows."""
    _answer(to, record)
    inner = object_of(value_in(text))
    name = f"{_id(record) or 'call'}-{to.number}"
    held = CallInput(text, text, "arguments") if inner else call_input(text)
    to.call(name, text_of(inner.get("tool")) or text_of(inner.get("toolName")) or tool, held)
    if tool == "tool":
        shown = text_of(inner.get("tool")) in _SHOWN
        to.result(name, text_of(inner.get("content")) if shown else "", held=False)


def _result(to: RecordBuilder, tool: str, text: str) -> None:
    call = next(reversed(to.conversation.calls), "") if tool == "use_mcp_tool" else to.open_call(tool)
    if not call or not to.result(call, text):
        to.skip("output of no open call: kept, but not as a result")


def _condensed(to: RecordBuilder, found: dict[str, Any]) -> None:
    summary = text_of(found.get("summary"))
    if summary:
        to.compaction(summary, id=f"summary-{to.number}")
    else:
        to.skip(COVERS_NOTHING)


CLINE = RecordLists(ClineMapping(), lambda start: bool(_START.match(start)), array_conversations)
