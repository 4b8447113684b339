"""OpenAI Responses streams, and those of compatible providers, to events, delta by delta.

* A response is an assistant message.  Its texts, pieces of reasoning and calls become parts
  `MESSAGE:NUMBER` in order of appearance; a part of an item ends with it at the latest.  Item ids
  and encrypted reasoning are metadata.
* A call's deltas are its arguments, its code or its commands.  What the provider runs has its
  result in the stream; other calls are left running, and the message is left open for them, with
  its step finished.
* A response that is never completed, incomplete or failed stays open: no finish is invented.
* The system prompt and the tools that a response says it was given are set when they change.
"""

from __future__ import annotations

from typing import Any

import msgspec

from eventlog import events as ev
from eventlog.importers.common.conversation_parts import COVERS_NOTHING
from eventlog.importers.common.importer import Report
from eventlog.importers.common.json_lines import dump, is_array, is_object, text_or_empty
from eventlog.importers.common.sse import Record
from eventlog.importers.common.stream_reader import StreamImporter, StreamReader, StreamSession
from eventlog.importers.openai import items
from eventlog.importers.openai.responses_items import ASIDE, FinishedItem, call_of, finished_item
from eventlog.values import INTERRUPTED, MessageError, Reasoning, Text, Tool, Usage

__all__ = ["OpenAIResponsesStream"]

NAME = "openai_responses_sse"

_TEXT = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "summary",
}
_INPUT = frozenset(
    {
        "response.function_call_arguments.delta", "response.mcp_call_arguments.delta", "response.custom_tool_call_input.delta",
        "response.code_interpreter_call_code.delta", "response.shell_call_command.delta",
        "response.apply_patch_call_operation_diff.delta",
    }
)  # fmt: skip
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_STARTS = frozenset({"response.created", "response.queued", "response.in_progress"})
_INCOMPLETE = {"max_output_tokens": "length", "content_filter": "content-filter"}


class OpenText(msgspec.Struct, eq=False):
    """A text or piece of reasoning that is open."""

    part: str
    kind: str
    pieces: list[str] = msgspec.field(default_factory=list[str])
    annotations: list[Any] = msgspec.field(default_factory=list[Any])


class ResponseCall(msgspec.Struct, eq=False):
    """A call that has no result."""

    part: str
    id: str
    provider: bool
    running: bool = False
    pieces: list[str] = msgspec.field(default_factory=list[str])


class OpenAIResponsesStream(StreamImporter):
    """The importer."""

    def __init__(self) -> None:
        super().__init__(NAME, _Reader)


class _Reader(StreamReader):
    def __init__(self, session: StreamSession, report: Report) -> None:
        super().__init__(session, report)
        self.texts: dict[tuple[object, str, object], OpenText] = {}
        """The open texts by item, kind and number."""
        self.calls: dict[object, ResponseCall] = {}
        """The calls of the response without a result, by item."""
        self.call_ids: set[str] = set()
        """The ids of all its calls."""
        self.called = False
        """Whether the client must run one of them."""
        self.system: str | None = None
        self.tools: str | None = None

    def read_record(self, record: Record) -> None:
        """Add the events of one record."""
        value = record.value
        found = value.get("response") if value else None
        response = found if is_object(found) else {}
        created = response.get("created_at")
        self.session.tick(int(created) if isinstance(created, float) and created < 1 << 40 else created)
        if value is None:
            return
        kind = text_or_empty(value.get("type"))
        if kind in _STARTS:
            if not self.message or (kind == "response.created" and response.get("id") != self.foreign):
                self._start(record.line, response)
        elif kind == "error":
            self._begun(record.line)
            self._fail(_error(value, value))
        elif kind in _ENDS:
            self._begun(record.line)
            self._end(kind, response)
        elif kind.startswith("response."):
            self._begun(record.line)
            self._inside(record.line, kind, value)
        elif kind not in {"keepalive", "ping"}:
            self.report.skip(record.line, f"a record of unknown type {kind[:40]!r}")

    def _inside(self, line: int, kind: str, value: dict[str, Any]) -> None:
        found = value.get("item")
        item = found if is_object(found) else {}
        if kind in _TEXT:
            self._text_delta(line, _TEXT[kind], value)
        elif kind in _INPUT:
            self._input_delta(line, value)
        elif kind == "response.output_item.added":
            self._item_added(line, item)
        elif kind == "response.output_item.done":
            self._item_done(line, item)
        elif kind == "response.content_part.added":
            self._part_added(value)
        elif kind == "response.reasoning_summary_part.added":
            self._text(value.get("item_id"), "summary", value.get("summary_index"))
        elif kind == "response.output_text.annotation.added":
            opened = self.texts.get(_text_key(value))
            if opened is not None:
                opened.annotations.append(value.get("annotation"))
        elif kind == "response.content_part.done":
            opened = self.texts.pop(_text_key(value), None)
            if opened is not None:
                self._close(opened, {"itemId": value.get("item_id"), "annotations": opened.annotations})
        elif kind == "response.shell_call_output_content.delta":
            self._output_delta(value)

    # -- responses -------------------------------------------------------------------------------

    def _begun(self, line: int) -> None:
        if not self.message:
            self._start(line, {})

    def _start(self, line: int, response: dict[str, Any]) -> None:
        self._settings(response)
        self.begin_message(line, response.get("id"), response.get("model"))
        self.texts, self.calls, self.call_ids, self.called = {}, {}, set(), False

    def _settings(self, response: dict[str, Any]) -> None:
        system, tools = response.get("instructions"), response.get("tools")
        if isinstance(system, str) and system != self.system:
            self.system = system
            self.session.add(ev.SystemPromptSet(self.session.batch.content(system)))
        if is_array(tools) and tools and (text := dump(tools)) != self.tools:
            self.tools = text
            self.session.add(ev.ToolsSet(self.session.batch.content(text)))

    def _end(self, kind: str, response: dict[str, Any]) -> None:
        status = text_or_empty(response.get("status")) or kind.partition(".")[2]
        self._usage(response, failed=status == "failed")
        if status in {"failed", "cancelled"}:
            inner = response.get("error")
            error = _error(inner if is_object(inner) else {}, response.get("error"))
            self._fail(MessageError("aborted") if status == "cancelled" else error)
            return
        self._close_all({})
        reason = "tool-calls" if self.called else "stop"
        if status == "incomplete":
            details = response.get("incomplete_details")
            found = text_or_empty(details.get("reason")) if is_object(details) else ""
            reason = _INCOMPLETE.get(found, found or "unknown")
        self.finish_step(reason)
        if not self.calls:
            self.session.add(ev.MessageFinished(self.message, reason))
        self.message = ""

    def _fail(self, error: MessageError) -> None:
        self._close_all({})
        for call in self.calls.values():
            self.session.add(ev.ToolFailed(call.part, INTERRUPTED, interrupted=True))
        self.fail(error)
        self.message = ""

    def _usage(self, response: dict[str, Any], *, failed: bool) -> None:
        usage = response.get("usage")
        if is_object(usage):
            counted = Usage(items.tokens_of(usage))
            self.session.add(ev.UsageRecorded(counted, self.message, self.finish_part, self.model, failed=failed))

    # -- texts -------------------------------------------------------------------------------------

    def _part_added(self, value: dict[str, Any]) -> None:
        part = value.get("part")
        kind = text_or_empty(part.get("type")) if is_object(part) else ""
        name = {"output_text": "text", "refusal": "refusal", "reasoning_text": "reasoning"}.get(kind)
        if name is not None:
            self._text(value.get("item_id"), name, value.get("content_index"))

    def _text(self, item: object, kind: str, number: object) -> OpenText:
        """Return the open text of this place, started if need be."""
        key = (_key(item), kind, _key(number))
        opened = self.texts.get(key)
        if opened is None:
            opened = self.texts[key] = OpenText(self.new_part(), kind)
            started = Reasoning() if kind in {"reasoning", "summary"} else Text()
            self.session.add(ev.PartStarted(self.message, opened.part, started))
        return opened

    def _text_delta(self, line: int, kind: str, value: dict[str, Any]) -> None:
        text = value.get("delta")
        if not isinstance(text, str):
            self.report.skip(line, "a delta without a text")
            return
        number = value.get("summary_index" if kind == "summary" else "content_index")
        opened = self._text(value.get("item_id"), kind, number)
        opened.pieces.append(text)
        self.session.add(ev.PartDelta(opened.part, "text", text))

    def _close(self, opened: OpenText, metadata: dict[str, Any]) -> None:
        if opened.kind == "refusal":
            metadata = metadata | {"refusal": True}
        self.session.add(ev.PartEnded(opened.part, items.metadata(metadata)))
        self.session.remainder.complete(opened.part, "".join(opened.pieces))

    def _close_all(self, metadata: dict[str, Any], item: object = None) -> None:
        """End the open texts of an item, or of all; the last one gets the metadata."""
        keys = [key for key in self.texts if item is None or key[0] == item]
        for place, key in enumerate(keys):
            opened = self.texts.pop(key)
            own = {"itemId": key[0], "annotations": opened.annotations}
            self._close(opened, own | (metadata if place == len(keys) - 1 else {}))

    # -- items -------------------------------------------------------------------------------------

    def _item_added(self, line: int, item: dict[str, Any]) -> None:
        call = call_of(item)
        if call is None:
            kind = text_or_empty(item.get("type"))
            if kind == "compaction":
                self.report.skip(line, COVERS_NOTHING)
            elif kind not in ASIDE and not kind.endswith("_output"):
                self.report.skip(line, f"an item of unknown type {kind[:40]!r}")
            return
        if call.id in self.call_ids:
            self.report.skip(line, "a second call with the same id in one response")
            return
        self.call_ids.add(call.id)
        self.called = self.called or not call.provider
        entry = ResponseCall(self.new_part(), call.id, call.provider)
        self.calls[_key(item.get("id")) or call.id] = entry
        metadata = items.metadata({"itemId": text_or_empty(item.get("id"))})
        self.session.add(ev.PartStarted(self.message, entry.part, Tool(call.id, call.tool, call.provider, metadata)))

    def _input_delta(self, line: int, value: dict[str, Any]) -> None:
        """Add a fragment of a call's input.

        Deltas of shell commands name no item, but then one call has no input yet.
        """
        call = self.calls.get(_key(value.get("item_id")))
        if call is None and "item_id" not in value:
            call = next((entry for entry in self.calls.values() if not entry.running), None)
        text = value.get("delta")
        if call is None or call.running or not isinstance(text, str):
            self.report.skip(line, "a delta for a call that is not open")
            return
        call.pieces.append(text)
        self.session.add(ev.PartDelta(call.part, "input", text))

    def _output_delta(self, value: dict[str, Any]) -> None:
        """Add a fragment of a command's output, if one command is running."""
        delta = value.get("delta")
        running = [call for call in self.calls.values() if call.running and call.provider]
        for name in ("stdout", "stderr"):
            text = delta.get(name) if is_object(delta) else None
            if isinstance(text, str) and len(running) == 1:
                self.session.add(ev.PartDelta(running[0].part, "output", text))

    def _item_done(self, line: int, item: dict[str, Any]) -> None:
        kind, name = text_or_empty(item.get("type")), text_or_empty(item.get("id"))
        if kind == "reasoning":
            secret = text_or_empty(item.get("encrypted_content"))
            if not any(key[0] == name for key in self.texts):
                self._text(name, "reasoning", 0)
            self._close_all({"reasoningEncryptedContent": secret}, name)
        elif kind == "message":
            self._close_all({"phase": item.get("phase")}, name)
        elif call_of(item) is not None:
            self._call_done(line, item, name)
        elif kind.endswith("_output"):
            self._output(line, item)

    def _call_done(self, line: int, item: dict[str, Any], name: str) -> None:
        found = call_of(item)
        key = name or (found.id if found else "")
        call = self.calls.get(key)
        if call is None or call.running:
            self.report.skip(line, "the end of a call that is not open")
            return
        done = finished_item(item, self.session.batch)
        text = done.input if done.input is not None else "".join(call.pieces) or "{}"
        if not self.run_call(line, call.part, text):
            return
        call.running = True
        self.session.remainder.complete(call.part, text)
        if done.ended:
            del self.calls[key]
            self._result(call, done)

    def _output(self, line: int, item: dict[str, Any]) -> None:
        """Handle an item with the output of a call that the provider ran."""
        wanted = item.get("call_id")
        key = next(
            (key for key, call in self.calls.items() if call.running and (call.id == wanted or wanted is None)), None
        )
        if key is None:
            self.report.skip(line, "a result for a call that is not open")
            return
        self._result(self.calls.pop(key), finished_item(item, self.session.batch))

    def _result(self, call: ResponseCall, done: FinishedItem) -> None:
        output = self.session.batch.content(done.output)
        if done.failed:
            self.session.add(ev.ToolFailed(call.part, output))
        else:
            self.session.add(ev.ToolCompleted(call.part, output, attachments=done.attachments))


def _key(value: object) -> object:
    """Return the value if it can be a key, else None."""
    return value if isinstance(value, (str, int)) else None


def _text_key(value: dict[str, Any]) -> tuple[object, str, object]:
    return _key(value.get("item_id")), "text", _key(value.get("content_index"))


def _error(fields: dict[str, Any], data: object) -> MessageError:
    name = text_or_empty(fields.get("code")) or text_or_empty(fields.get("type")) or "unknown"
    return MessageError(name, text_or_empty(fields.get("message")), dump(data) if data else None)
