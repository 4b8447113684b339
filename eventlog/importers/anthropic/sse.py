"""Anthropic Messages streams to events, delta by delta.

* A content block is a part `MESSAGE:INDEX`; its deltas are the part's deltas, empty ones too.
  Signature and citations become the part's metadata when it ends.
* A tool the provider runs has its result in the same message, or in a later one of the stream.  A
  call the client must run has none: it is left running, and the message is left open for it, with
  its step finished.
* A message whose stream breaks off stays open: no finish is invented.  A second `message_start` of
  the same id repeats the first.
* Blocks, deltas and records of unknown types are reported (and kept, as every record is).
"""

from __future__ import annotations

from typing import Any

import msgspec

from eventlog import events as ev
from eventlog.importers.anthropic import blocks
from eventlog.importers.common.importer import Report, own_id
from eventlog.importers.common.json_lines import dump, is_array, is_object, text_or_empty
from eventlog.importers.common.sse import Record
from eventlog.importers.common.stream_reader import StreamImporter, StreamReader, StreamSession
from eventlog.values import INTERRUPTED, MessageError, Reasoning, Text, Tool, Usage

__all__ = ["AnthropicStream"]

NAME = "anthropic_sse"


class OpenBlock(msgspec.Struct, eq=False):
    """A content block that has not stopped."""

    part: str
    message: str
    kind: str
    """"text", "reasoning", "tool", "running" (a complete call), "" if not imported."""
    input: object = None
    """Input of a call as far as its start had it."""
    pieces: list[str] = msgspec.field(default_factory=list[str])
    metadata: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class AnthropicStream(StreamImporter):
    """The importer."""

    def __init__(self) -> None:
        super().__init__(NAME, _Reader)


class _Reader(StreamReader):
    def __init__(self, session: StreamSession, report: Report) -> None:
        super().__init__(session, report)
        self.blocks: dict[int, OpenBlock] = {}
        self.calls: dict[str, OpenBlock] = {}
        """Calls of the stream that have no result, by their id."""
        self.call_ids: set[str] = set()
        """Ids of all calls of the message."""
        self.stopped: dict[str, str | None] = {}
        """Messages that stay open for their calls, with their finish reasons."""
        self.usage: dict[str, Any] = {}
        self.reason: str | None = None

    def read_record(self, record: Record) -> None:
        """Add the events of one record."""
        self.session.tick()
        value = record.value
        if value is None:
            return
        kind = text_or_empty(value.get("type"))
        if kind == "ping":
            return
        if kind == "message_start":
            self._start(record.line, value)
        elif kind == "error":
            self._error(record.line, value)
        elif not self.message:
            self.report.skip(record.line, f"a record of type {kind[:40]!r} outside a message")
        elif kind == "content_block_start":
            self._block_start(record.line, value)
        elif kind == "content_block_delta":
            self._block_delta(record.line, value)
        elif kind == "content_block_stop":
            self._block_stop(record.line, value)
        elif kind == "message_delta":
            self._message_delta(value)
        elif kind == "message_stop":
            self._stop(record.line)
        else:
            self.report.skip(record.line, f"a record of unknown type {kind[:40]!r}")

    # -- messages --------------------------------------------------------------------------------

    def _start(self, line: int, value: dict[str, Any]) -> None:
        found = value.get("message")
        if not is_object(found):
            self.report.skip(line, "a message_start without a message")
            return
        message = found
        foreign = message.get("id")
        if self.message and not self.blocks and not self.reason and foreign == self.foreign:
            self.report.skip(line, "the message was started already")
            return
        self._begin(line, foreign, message.get("model"))
        self._add_usage(message.get("usage"))
        self.reason = blocks.finish_reason(message.get("stop_reason"))
        content = message.get("content")
        for number, block in enumerate(content if is_array(content) else []):
            if is_object(block):
                self._start_block(line, number, f"start-{number}", block)
                self._end_block(line, self.blocks.pop(number))
            else:
                self.report.skip(line, f"content block {number} is not an object")

    def _begin(self, line: int, foreign: object = None, model: object = None) -> None:
        self.begin_message(line, foreign, model, blocks.PROVIDER)
        self.blocks, self.call_ids, self.reason, self.usage = {}, set(), None, {}

    def _add_usage(self, usage: object) -> None:
        if is_object(usage):
            fields = usage
            self.usage.update({key: count for key, count in fields.items() if count is not None})

    def _message_delta(self, value: dict[str, Any]) -> None:
        self._add_usage(value.get("usage"))
        delta = value.get("delta")
        if is_object(delta):
            self.reason = blocks.finish_reason(delta.get("stop_reason")) or self.reason

    def _finish_step(self, *, failed: bool) -> None:
        self.finish_step("error" if failed else self.reason or "")
        if self.usage:
            usage = Usage(blocks.tokens_of(self.usage))
            self.session.add(ev.UsageRecorded(usage, self.message, self.finish_part, self.model, failed=failed))

    def _stop(self, line: int) -> None:
        for block in self.blocks.values():
            self._end_block(line, block)
        self._finish_step(failed=False)
        if self._waits(self.message):
            self.stopped[self.message] = self.reason
        else:
            self.session.add(ev.MessageFinished(self.message, self.reason))
        self.message, self.blocks = "", {}

    def _waits(self, message: str) -> bool:
        return any(call.message == message for call in self.calls.values())

    def _error(self, line: int, value: dict[str, Any]) -> None:
        found = value.get("error")
        fields = found if is_object(found) else {}
        error = MessageError(
            text_or_empty(fields.get("type")) or "unknown",
            text_or_empty(fields.get("message")),
            dump(value),
        )
        if not self.message:
            self._begin(line)
        for block in self.blocks.values():
            if block.kind in {"text", "reasoning"}:
                self._end_block(line, block)
        for name, call in list(self.calls.items()):
            if call.message == self.message:
                del self.calls[name]
                self.session.add(ev.ToolFailed(call.part, INTERRUPTED, interrupted=True))
        self._finish_step(failed=True)
        self.session.add(ev.MessageFinished(self.message, "error", error))
        self.message, self.blocks = "", {}

    # -- blocks ----------------------------------------------------------------------------------

    def _block_start(self, line: int, value: dict[str, Any]) -> None:
        number, found = value.get("index"), value.get("content_block")
        if not isinstance(number, int) or not is_object(found) or number in self.blocks:
            self.report.skip(line, "a content_block_start without its index or block, or of an open block")
            return
        self._start_block(line, number, str(number), found)

    def _start_block(self, line: int, number: int, name: str, block: dict[str, Any]) -> None:
        kind, part = text_or_empty(block.get("type")), self.session.new_id(own_id(self.message, name))
        opened = OpenBlock(part, self.message, "")
        self.blocks[number] = opened
        started: Text | Reasoning | Tool | None = None
        if kind == "text":
            opened.kind = "text"
            started = Text(self.session.batch.content(text_or_empty(block.get("text"))))
            if is_array(block.get("citations")) and block["citations"]:
                opened.metadata["citations"] = list(block["citations"])
        elif kind == "thinking":
            opened.kind = "reasoning"
            started = Reasoning(self.session.batch.content(text_or_empty(block.get("thinking"))))
            if block.get("signature"):
                opened.metadata["signature"] = text_or_empty(block["signature"])
        elif kind == "redacted_thinking":
            opened.kind, started = "reasoning", Reasoning()
            opened.metadata["redactedData"] = block.get("data")
        elif kind in {"tool_use", "server_tool_use", "mcp_tool_use"} and isinstance(block.get("id"), str):
            if block["id"] in self.calls or block["id"] in self.call_ids:
                self.report.skip(line, "a second call with the id of another")
                return
            opened.kind, opened.input = "tool", block.get("input")
            started = Tool(block["id"], text_or_empty(block.get("name")), kind != "tool_use")
        if started is not None:
            if isinstance(started, Tool):
                self.calls[started.call] = opened
                self.call_ids.add(started.call)
            self.session.add(ev.PartStarted(self.message, part, started))
            self.report.parts += 1
            return
        result = blocks.server_result(block)
        if result is None:
            self.report.skip(line, f"a content block of unknown type {kind[:40]!r}")
        elif (call := self.calls.get(result.call)) is None or call.kind != "running":
            self.report.skip(line, "a result for a call that is not open")
        else:
            del self.calls[result.call]
            output = self.session.batch.content(result.output)
            self.session.add(ev.ToolFailed(call.part, output) if result.failed else ev.ToolCompleted(call.part, output))
            if call.message in self.stopped and not self._waits(call.message):
                self.session.add(ev.MessageFinished(call.message, self.stopped.pop(call.message)))

    def _block_delta(self, line: int, value: dict[str, Any]) -> None:
        block, found = self.blocks.get(_index(value)), value.get("delta")
        if block is None or not is_object(found):
            self.report.skip(line, "a delta for a block that is not open")
            return
        delta = found
        kind = text_or_empty(delta.get("type"))
        text = delta.get(_DELTAS.get((block.kind, kind), ""))
        if isinstance(text, str):
            field = "input" if block.kind == "tool" else "text"
            self.session.add(ev.PartDelta(block.part, field, text))
            if field == "input":
                block.pieces.append(text)
        elif kind == "signature_delta" and block.kind == "reasoning":
            block.metadata["signature"] = block.metadata.get("signature", "") + text_or_empty(delta.get("signature"))
        elif kind == "citations_delta" and block.kind == "text":
            block.metadata.setdefault("citations", []).append(delta.get("citation"))
        elif block.kind:
            self.report.skip(line, f"a delta of type {kind[:40]!r} for a {block.kind} block")

    def _block_stop(self, line: int, value: dict[str, Any]) -> None:
        block = self.blocks.pop(_index(value), None)
        if block is None:
            self.report.skip(line, "a content_block_stop for a block that is not open")
            return
        self._end_block(line, block)

    def _end_block(self, line: int, block: OpenBlock) -> None:
        if block.kind in {"text", "reasoning"}:
            metadata = dump({blocks.PROVIDER: block.metadata}) if block.metadata else None
            self.session.add(ev.PartEnded(block.part, metadata))
        elif block.kind == "tool":
            text = "".join(block.pieces) or dump({} if block.input is None else block.input)
            if self.run_call(line, block.part, text):
                block.kind = "running"


_DELTAS = {
    ("text", "text_delta"): "text",
    ("reasoning", "thinking_delta"): "thinking",
    ("tool", "input_json_delta"): "partial_json",
}
"""Field of a delta that has the text, by the kinds of block and delta."""


def _index(value: dict[str, Any]) -> int:
    number = value.get("index")
    return number if isinstance(number, int) else -1
