"""Reader of Anthropic Messages: the events of a stream, or a whole message.

Deltas of a block are steps as they come; signature and citations close its part. A tool that the
provider runs has its result in the answer. Blocks of unknown types are kept as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eventlog.streams.reader import Reader
from eventlog.streams.records import dump, metadata_of, object_of, objects_of, text_of, unused_id
from eventlog.streams.steps import Answered, Argued, Called, Closed, Compacted, Ended, Kept, Said, Step, Used
from eventlog.streams.tokens import anthropic_usage

COMPACTION = "anthropic.compaction"
"""Kind of an `Opaque` part."""
_PROVIDER = "anthropic"
_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool-calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content-filter",
}
_CALLS = {"tool_use": False, "server_tool_use": True, "mcp_tool_use": True}
"""Types of blocks that are calls, and whether the provider runs them."""
_EARLY = {"thinking_delta": "thinking", "signature_delta": "thinking", "input_json_delta": ""}
"""Type of a block whose first delta comes before it begins; it is text for other deltas."""


class _Block:
    """A content block that has not stopped."""

    def __init__(self, block: dict[str, Any]) -> None:
        self.kind = text_of(block.get("type"))
        self.key = ""
        """Of a call: its id, or another one if the answer has that already."""
        self.input = block.get("input")
        self.early = ""
        """Pieces of arguments that came before the block began."""
        self.has_input = False
        """Whether pieces of its arguments have come."""
        self.signature = text_of(block.get("signature"))
        self.citations: list[Any] = list(block.get("citations") or [])
        self.whole = block
        """The block as it began, for one that has no part of its own."""


class AnthropicReader(Reader):
    """Reads the events of one answer, or a whole answer."""

    api = "Anthropic Messages"

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, _Block] = {}
        self._keys: dict[str, str] = {}
        """Key of the newest call by its id in the stream."""
        self._usage: dict[str, Any] = {}
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether the answer has its end."""
        return self._is_over

    def take(self, chunk: Mapping[str, Any]) -> Iterator[Step]:
        """Yield the steps of an event; those of an SDK's helper, which repeat others, have none."""
        match chunk.get("type"):
            case "message_start":
                yield from self._message(object_of(chunk.get("message")))
            case "content_block_start":
                yield from self._start(_index(chunk), object_of(chunk.get("content_block")))
            case "content_block_delta":
                yield from self._delta(_index(chunk), object_of(chunk.get("delta")))
            case "content_block_stop":
                yield from self._stop(_index(chunk))
            case "message_delta":
                yield from self._used(chunk.get("usage"))
                delta = object_of(chunk.get("delta"))
                self._reason = reason_of(delta.get("stop_reason")) or self._reason
                if delta.get("stop_details"):
                    yield Kept("anthropic.stop_details", dump(delta["stop_details"]))
            case "message_stop":
                self._is_over = True
            case "message":
                yield from self._message(chunk)
                self._is_over = True
            case _:
                pass

    def end(self) -> Iterator[Step]:
        """Yield what is left once the stream is over; no `Ended` for an answer that broke off."""
        for index in [*self._blocks]:
            yield from self._stop(index)
        if self.is_over or self._reason:
            yield Ended(self._reason or ("tool-calls" if self._calls else "stop"))

    def _message(self, message: Mapping[str, Any]) -> Iterator[Step]:
        yield from self._used(message.get("usage"))
        self._reason = reason_of(message.get("stop_reason"))
        for index, block in enumerate(objects_of(message.get("content"))):
            yield from self._start(index, block)
            yield from self._stop(index)

    def _used(self, usage: object) -> Iterator[Step]:
        found = {name: count for name, count in object_of(usage).items() if count is not None}
        if found:
            self._usage |= found
            yield Used(anthropic_usage(self._usage))

    # -- blocks ------------------------------------------------------------------------------------

    def _start(self, index: int, found: dict[str, Any]) -> Iterator[Step]:
        before, block = self._blocks.get(index), _Block(found)
        self._blocks[index], kind = block, block.kind
        if before is not None:
            block.signature = block.signature or before.signature
        if kind in {"text", "thinking"}:
            text = text_of(found.get("text" if kind == "text" else "thinking"))
            if text:
                yield Said("text" if kind == "text" else "reasoning", text, index)
        elif kind in _CALLS:
            self._calls += not _CALLS[kind]
            more = {name: value for name, value in found.items() if name in {"caller", "server_name"} and value}
            about = metadata_of(_PROVIDER, **more)
            given = text_of(found.get("id"))
            block.key = self._keys[given] = unused_id(self._ids, given, "block")
            yield Called(block.key, block.key, text_of(found.get("name")) or "unknown", _CALLS[kind], about)
            if before is not None and before.early:
                block.has_input = True
                yield Argued(block.key, before.early)

    def _delta(self, index: int, delta: dict[str, Any]) -> Iterator[Step]:
        block = self._blocks.get(index)
        if block is None:
            block = self._blocks[index] = _Block({"type": _EARLY.get(text_of(delta.get("type")), "text")})
        match delta.get("type"):
            case "text_delta":
                yield Said("text", text_of(delta.get("text")), index)
            case "thinking_delta":
                yield Said("reasoning", text_of(delta.get("thinking")), index)
            case "input_json_delta":
                text = text_of(delta.get("partial_json"))
                if text and block.kind in _CALLS:
                    block.has_input = True
                    yield Argued(block.key, text)
                elif text and block.kind:
                    yield Kept("anthropic.delta", dump(delta))
                elif text:
                    block.early += text
            case "signature_delta":
                block.signature += text_of(delta.get("signature"))
            case "citations_delta":
                block.citations.append(delta.get("citation"))
            case "compaction_delta":
                text = text_of(block.whole.get("content")) + text_of(delta.get("content"))
                more = {name: value for name, value in delta.items() if name != "type" and value is not None}
                block.whole = {**block.whole, **more, "content": text or None}
            case _:
                yield Kept("anthropic.delta", dump(delta))

    def _stop(self, index: int) -> Iterator[Step]:
        block = self._blocks.pop(index, None)
        if block is None:
            return
        kind, whole = block.kind, block.whole
        if kind == "text":
            yield Closed(metadata_of(_PROVIDER, citations=block.citations))
        elif kind == "thinking":
            yield Said("reasoning", "", index)  # a signature may stand for thinking that is not shown
            yield Closed(metadata_of(_PROVIDER, signature=block.signature))
        elif kind == "redacted_thinking":
            yield Said("reasoning", "", index)
            yield Closed(metadata_of(_PROVIDER, redactedData=whole.get("data")))
        elif kind in _CALLS:
            if not block.has_input and block.input:
                yield Argued(block.key, dump(block.input))
        elif kind.endswith("tool_result"):
            content = whole.get("content")
            failed = bool(whole.get("is_error")) or text_of(object_of(content).get("type")).endswith("_error")
            given = text_of(whole.get("tool_use_id"))
            output = content if isinstance(content, str) else dump(content)
            yield Answered(self._keys.get(given, given), output, failed)
        elif kind == "compaction" and whole.get("content"):
            yield Compacted(COMPACTION, dump(whole), text_of(whole["content"]))
        elif not kind and block.early:
            yield Kept("anthropic.delta", dump({"type": "input_json_delta", "partial_json": block.early}))
        elif whole:
            yield Kept(f"anthropic.{kind}", dump(whole))


def reason_of(found: object) -> str:
    """Return our word for a `stop_reason`, the provider's if it is unknown, "" for none."""
    reason = text_of(found)
    return _REASONS.get(reason, reason)


def _index(chunk: Mapping[str, Any]) -> int:
    index = chunk.get("index")
    return index if isinstance(index, int) else -1
