"""Importer of OpenAI Chat Completions streams, and of compatible providers' streams.

* Text, reasoning (`reasoning_content` or `reasoning`), refusals and calls become parts
  `MESSAGE:NUMBER` in order of appearance; empty deltas say nothing and are left out.  Only choice 0
  is imported; others are reported.
* `finish_reason` ends the message; a message that never gets one stays open.  Calls have no results
  in a stream: they are left running, and the message is left open for them, with its step finished.
* Usage is what the last chunk says.  `input` is the prompt without what came from and went into the
  cache; `output` is the completion as reported.  A price is taken when the provider sends one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from eventlog import events as ev
from eventlog.importers.common.importer import Report
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.importers.common.sse import Record
from eventlog.importers.common.stream_reader import StreamImporter, StreamReader, StreamSession
from eventlog.importers.common.usage import added, count, price
from eventlog.values import INTERRUPTED, MessageError, Reasoning, Text, Tokens, Tool, Usage

__all__ = ["OpenAIChatStream", "chat_usage", "finish_reason"]

NAME = "openai_chat_sse"

_REASONS = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
}
_KNOWN = frozenset(
    {
        "channel", "content", "function_call", "phase", "reasoning", "reasoning_content", "reasoning_details", "refusal", "role",
        "tool_calls",
    }
)  # fmt: skip


class ChatCall(msgspec.Struct, eq=False):
    """A tool call of the message that is being streamed."""

    part: str
    id: str
    started: bool = False
    pieces: list[str] = msgspec.field(default_factory=list[str])


class OpenAIChatStream(StreamImporter):
    """The importer."""

    def __init__(self) -> None:
        super().__init__(NAME, _Reader)


class _Reader(StreamReader):
    def __init__(self, session: StreamSession, report: Report) -> None:
        super().__init__(session, report)
        self.finished = False
        """Whether the message has its finish reason (or its error)."""
        self.open = ""
        """The text or reasoning part that is open."""
        self.kind = ""
        self.details: list[Any] = []
        self.calls: dict[object, ChatCall] = {}
        self.usage: Usage | None = None
        self.recorded = Usage(Tokens())
        self.choices: set[int] = set()

    def read_record(self, record: Record) -> None:
        """Add the events of one record."""
        value = record.value
        self.session.tick(value.get("created") if value else None)
        if value is None:
            self.message = ""
            return
        if value.get("error"):
            self._error(record.line, value)
            return
        choices = value.get("choices")
        if not is_array(choices):
            self.report.skip(record.line, "a chunk without choices")
            return
        found = _objects(choices)
        self._add_usage(value)
        if not self.message or (self.finished and bool(found) and value.get("id") != self.foreign):
            self._start(record.line, value)
        for choice in found:
            number = choice.get("index", 0)
            if number == 0:
                self._choice(record.line, choice)
            elif isinstance(number, int) and number not in self.choices:
                self.choices.add(number)
                self.report.skip(record.line, f"choice {number} and its later chunks: only choice 0 is imported")
        if self.finished:
            self._record_usage(failed=False)

    # -- messages --------------------------------------------------------------------------------

    def _start(self, line: int, value: dict[str, Any]) -> None:
        self.begin_message(line, value.get("id"), value.get("model"))
        self.finished, self.open, self.kind = False, "", ""
        self.details, self.calls = [], {}
        self.recorded = Usage(Tokens())

    def _choice(self, line: int, choice: dict[str, Any]) -> None:
        """Add choice 0 of a chunk."""
        found = choice.get("delta")
        delta = found if is_object(found) else {}
        more = sorted(key for key, value in delta.items() if key not in _KNOWN and value)
        if more:
            self.report.skip(line, f"fields of a delta that are kept but not imported: {', '.join(more)[:100]}")
        reason = choice.get("finish_reason")
        texts = self._texts_of(delta)
        if self.finished:
            if texts or delta.get("tool_calls"):
                self.report.skip(line, "a delta after the message was finished")
            return
        for kind, text in texts:
            self._part(kind)
            self.session.add(ev.PartDelta(self.open, "text", text))
        self._details(delta.get("reasoning_details"))
        calls = delta.get("tool_calls")
        for number, call in enumerate(calls if is_array(calls) else []):
            if is_object(call):
                self._call(line, call, number)
            else:
                self.report.skip(line, "a tool call that is not an object")
        legacy = delta.get("function_call")
        if is_object(legacy):
            self._call(line, {"index": 0, "id": "function_call", "function": legacy}, 0)
        if isinstance(reason, str) and reason:
            self._finish(line, _REASONS.get(reason, reason))

    @staticmethod
    def _texts_of(delta: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the non-empty texts of a delta with their kinds, in the order of generation."""
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        details = (
            []
            if thought
            else [detail.get("text") or detail.get("summary") for detail in _objects(delta.get("reasoning_details"))]
        )
        texts: list[tuple[str, Any]] = [("reasoning", text) for text in (thought, *details)]
        content = delta.get("content")
        texts.append(("text", content))
        for block in _objects(content):
            texts.extend(("reasoning", thought.get("text")) for thought in _objects(block.get("thinking")))
            texts.append(("text", block.get("text")))
        texts.append(("refusal", delta.get("refusal")))
        return [(kind, text) for kind, text in texts if isinstance(text, str) and text]

    # -- parts -------------------------------------------------------------------------------------

    def _part(self, kind: str) -> None:
        """Make a part of this kind the open one."""
        if kind == self.kind:
            return
        self._end_part()
        self.open, self.kind = self.new_part(), kind
        self.session.add(ev.PartStarted(self.message, self.open, Reasoning() if kind == "reasoning" else Text()))

    def _details(self, details: object) -> None:
        """Collect the signatures and encrypted reasoning in OpenRouter's reasoning details."""
        for detail in _objects(details):
            if detail.get("signature") or detail.get("data"):
                self._part("reasoning")
                self.details.append({key: value for key, value in detail.items() if key not in {"text", "summary"}})

    def _end_part(self) -> None:
        if not self.open:
            return
        metadata = None
        if self.kind == "reasoning" and self.details:
            metadata = dump({"openrouter": {"reasoning_details": self.details}})
            self.details = []
        elif self.kind == "refusal":
            metadata = '{"openai":{"refusal":true}}'
        self.session.add(ev.PartEnded(self.open, metadata))
        self.open = self.kind = ""

    def _call(self, line: int, call: dict[str, Any], number: int) -> None:
        """Add a fragment of a tool call.

        Providers without `index` send whole calls, which are told apart by id or by place.
        """
        found = call.get("function")
        function = found if is_object(found) else {}
        index, name = call.get("index"), call.get("id")
        key = index if isinstance(index, int) else name if isinstance(name, str) and name else f"place-{number}"
        streamed = self.calls.get(key)
        if streamed is None:
            self._end_part()
            wanted = name if isinstance(name, str) and name else f"call-{len(self.calls)}"
            if any(other.id == wanted for other in self.calls.values()):
                self.report.skip(line, "a second call with the same id in one message: its id was changed")
                wanted = f"{wanted}#{len(self.calls)}"
            streamed = self.calls[key] = ChatCall(self.new_part(), wanted)
        tool = function.get("name")
        if not streamed.started and isinstance(tool, str) and tool:
            self._start_call(streamed, tool)
        text = function.get("arguments")
        if is_object(text):
            text = dump(text)
        if isinstance(text, str) and text:
            streamed.pieces.append(text)
            if streamed.started:
                self.session.add(ev.PartDelta(streamed.part, "input", text))

    def _start_call(self, streamed: ChatCall, tool: str) -> None:
        streamed.started = True
        self.session.add(ev.PartStarted(self.message, streamed.part, Tool(streamed.id, tool)))
        for text in streamed.pieces:
            self.session.add(ev.PartDelta(streamed.part, "input", text))

    # -- the end -----------------------------------------------------------------------------------

    def _finish(self, line: int, reason: str) -> None:
        self._end_part()
        for call in self.calls.values():
            if not call.started:
                self._start_call(call, "")
            text = "".join(call.pieces) or "{}"
            self.run_call(line, call.part, text)
        self.finish_step(reason)
        if not self.calls:
            self.session.add(ev.MessageFinished(self.message, reason))
        self.finished = True

    def _error(self, line: int, value: dict[str, Any]) -> None:
        found = value["error"]
        fields = found if is_object(found) else {"message": found}
        names = [fields.get(key) for key in ("type", "code")]
        name = next((name for name in names if isinstance(name, str) and name), "unknown")
        message = fields.get("message")
        error = MessageError(name, message if isinstance(message, str) else "", dump(value))
        if self.message and self.finished:
            self.report.skip(line, "an error after the message was finished")
            return
        if not self.message:
            self._start(line, value)
        self._end_part()
        for call in self.calls.values():
            if call.started:
                self.session.add(ev.ToolFailed(call.part, INTERRUPTED, interrupted=True))
        self.fail(error)
        self.finished = True
        self._record_usage(failed=True)

    def _add_usage(self, value: dict[str, Any]) -> None:
        found = value.get("usage")
        groq = value.get("x_groq")
        if not found and is_object(groq):
            found = groq.get("usage")
        if is_object(found):
            self.usage = chat_usage(found)

    def _record_usage(self, *, failed: bool) -> None:
        """Record the usage once the message is finished, and later what a correction adds."""
        usage, self.usage = self.usage, None
        more = None if usage is None else added(self.recorded, usage)
        if usage is None or more is None:
            return
        self.recorded = usage
        self.session.add(ev.UsageRecorded(more, self.message, self.finish_part, self.model, failed=failed))


def _objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in an array; none for anything else."""
    items = value if is_array(value) else []
    return [item for item in items if is_object(item)]


def finish_reason(reason: object) -> str | None:
    """Return our word for a `finish_reason`; None when there is none.

    A reason that is not known stays as the provider spells it.
    """
    return _REASONS.get(reason, reason) if isinstance(reason, str) and reason else None


def chat_usage(found: dict[str, Any]) -> Usage:
    """Return the usage of a chat completion."""

    def details(name: str) -> dict[str, Any]:
        inner = found.get(name)
        return inner if is_object(inner) else {}

    prompt = details("prompt_tokens_details")
    read = count(prompt.get("cached_tokens")) or count(found.get("prompt_cache_hit_tokens"))
    written = count(prompt.get("cache_write_tokens")) or count(found.get("cache_creation_input_tokens"))
    total = found.get("total_tokens")
    return Usage(
        Tokens(
            input=max(count(found.get("prompt_tokens")) - read - written, 0),
            output=count(found.get("completion_tokens")),
            reasoning=count(details("completion_tokens_details").get("reasoning_tokens")),
            cache_read=read,
            cache_write=written,
            total=count(total) if isinstance(total, int) else None,
        ),
        price(found.get("cost")),
    )
