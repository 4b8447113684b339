"""Fill a reply from a stream of OpenAI Chat Completions chunks.

Chunks come from the `openai` package or any HTTP client; the reply is one that
`ContextWindow.begin` opened, or one of `Session.assistant`.  A program fills a reply from other
providers' streams with the methods of `Reply`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from eventlog.errors import StreamError, UnknownStreamError
from eventlog.importers.openai.chat_sse import chat_usage
from eventlog.session.reply import Reply
from eventlog.validation import require, require_function
from eventlog.values import MessageError
from projections.loop.context.refused_request import refusal
from projections.loop.streaming.chat_text import said_by, texts_of
from projections.loop.streaming.stream_api import CHAT, error_in, is_chat

if TYPE_CHECKING:
    from eventlog.session.text_stream import TextStream
    from eventlog.session.tool_call import ToolCall
    from eventlog.values import Usage
    from projections.loop.streaming.chat_text import Kind

__all__ = ["ReplyFiller", "fill", "fill_with"]

ABORTED = "aborted"
UNKNOWN = "unknown"
"""Finish reason of a stream that says none."""
FILTERED = "content-filter"
"""Finish reason of an answer that a filter cut, and error of one that it withheld."""
LOOK_CHUNKS, LOOK_SECONDS = 16, 0.5
"""Chunks, and seconds of a slow stream, between two looks for an interrupt."""

_REASONS = {"tool_calls": "tool-calls", "function_call": "tool-calls", "content_filter": FILTERED}


def fill(reply: Reply, chunks: Iterable[Any]) -> str:
    """Stream an answer into the reply and end its step; returns the finish reason.

    Text, reasoning and the arguments of calls are accepted as they come; a model's refusal is
    text. Without a call that waits for its result the reply is finished too; with one it stays open
    for `RunTools`. What the stream raises is raised here, with the reply as far as it came. An
    interrupt ends the stream early, and the reply is aborted as far as it came; the reason is then
    "aborted". The first chunk of another API is an `UnknownStreamError` that names it, content in a
    form that is not read is one too, and the reply has failed. So has one whose stream says an
    error of the provider, which is a `StreamError` that quotes it, and one that a content filter
    left without text.
    """
    filling = ReplyFiller(reply)
    try:
        return fill_with(filling, chunks)
    except (StreamError, UnknownStreamError) as error:
        filling.fail(error)
        raise


def fill_with(filling: ReplyFiller, chunks: Iterable[Any]) -> str:
    """Stream an answer into the reply of a filler, which an error leaves open; see `fill`."""
    reply = filling.reply
    require(Iterable, chunks, "chunks are an iterable")
    for chunk in chunks:
        filling.take(filling.plain(chunk))
        if filling.looks() and reply.interrupt_requested:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
            reply.abort()
            return ABORTED
    return filling.end()


class ReplyFiller:
    """A reply that is being filled, chunk by chunk."""

    def __init__(self, reply: Reply, *, whole: bool = False) -> None:
        """`whole`: a stream that says no finish reason broke off, and is a `ConnectionError`."""
        require(Reply, reply, "what is filled is a Reply")
        if not reply.in_step:  # a reply of `Session.assistant`: a window begins the step itself
            reply.step()
        self.reply = reply
        self._whole = whole
        self._text: TextStream | None = None
        self._reasoning: TextStream | None = None
        self._calls: dict[int, ToolCall] = {}
        self._reason = UNKNOWN
        self._usage: Usage | None = None
        self._is_chat = False
        """Whether a chunk of Chat Completions came."""
        self._unseen = 0
        self._looked = monotonic()

    def looks(self) -> bool:
        """Whether it is time to look for an interrupt, behind this chunk."""
        self._unseen += 1
        if self._unseen < LOOK_CHUNKS and monotonic() - self._looked < LOOK_SECONDS:
            return False
        self._unseen, self._looked = 0, monotonic()
        return True

    def plain(self, chunk: Any) -> Mapping[str, Any]:
        """A chunk as a mapping: as it came, or as the `openai` package's object dumps it."""
        if isinstance(chunk, Mapping):
            return cast("Mapping[str, Any]", chunk)
        require_function(getattr(chunk, "model_dump", None), "a chunk is a mapping, or has `model_dump`, a function")
        return cast("Mapping[str, Any]", chunk.model_dump())

    def fail(self, error: Exception) -> None:
        """The answer cannot be read, or is an error: its reply has failed, and says why.

        The reply of another error is left open.
        """
        if isinstance(error, UnknownStreamError):
            self.reply.abort(MessageError("unknown-stream", str(error)))
        elif isinstance(error, StreamError):
            self.reply.abort(refusal(error))

    def waits(self, chunk: Mapping[str, Any]) -> bool:
        """Whether taking in this chunk may wait for the disk: where reasoning ends."""
        if self._reasoning is None:
            return False
        return any(kind == "text" for choice in _choices(chunk)[:1] for kind, _ in texts_of(choice))

    def take(self, chunk: Mapping[str, Any]) -> None:
        """Apply one chunk; `UnknownStreamError` for another API, or for text in an unknown form.

        `StreamError` for an error of the provider.
        """
        error = error_in(chunk)
        if error is not None:
            raise error
        if not self._is_chat and is_chat(chunk):
            self._is_chat, self.reply.api = True, CHAT
        usage = _mapping(chunk.get("usage"))
        if usage:
            self._usage = chat_usage(usage)
        for choice in _choices(chunk)[:1]:
            for kind, text in texts_of(choice):
                self._says(kind, text)
            for number, call in enumerate(_mappings(said_by(choice).get("tool_calls"))):
                self._call(call, number)
            reason = choice.get("finish_reason")
            if reason:
                self._reason = _REASONS.get(str(reason), str(reason))

    def _says(self, kind: Kind, text: str) -> None:
        if kind == "reasoning":
            self._reasoning = self._reasoning or self.reply.stream_reasoning()
            self._reasoning.append(text)
        else:
            self._end_reasoning()
            self._text = self._text or self.reply.stream_text()
            self._text.append(text)

    def _end_reasoning(self) -> None:
        if self._reasoning is not None:
            self._reasoning.end()
            self._reasoning = None

    def _call(self, delta: dict[str, Any], number: int) -> None:
        given = delta.get("index")
        index = given if isinstance(given, int) else number
        function = _mapping(delta.get("function"))
        call = self._calls.get(index)
        if call is None:
            call = self._calls[index] = self.reply.tool(
                _text(function.get("name")) or "unknown", call_id=_text(delta.get("id")) or f"call_{index}"
            )
        call.stream_input(_text(function.get("arguments")))

    def end(self) -> str:
        """The stream is over."""
        if self._whole and self._reason == UNKNOWN:
            raise ConnectionError("the answer broke off: its stream ended without a finish reason")
        self._end_reasoning()
        if self._text is not None:
            self._text.end()
        self.reply.end_step(self._reason, usage=self._usage)
        if self._reason == FILTERED and self._text is None and not self._calls:
            self.reply.abort(MessageError(FILTERED, "the provider's content filter withheld the whole answer"))
        elif not self._calls:
            self.reply.finish(self._reason)
        return self._reason


def _choices(chunk: Mapping[str, Any]) -> list[dict[str, Any]]:
    return _mappings(chunk.get("choices"))


def _mapping(found: object) -> dict[str, Any]:
    """A JSON object of a chunk; an empty one for what is none."""
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _mappings(found: object) -> list[dict[str, Any]]:
    items = cast("list[object]", found) if isinstance(found, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


def _text(found: object) -> str:
    return found if isinstance(found, str) else ""
