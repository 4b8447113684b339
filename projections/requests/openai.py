"""A view as `messages` of Chat Completions, as `@ai-sdk/openai-compatible` sends them.

Chat Completions has no place for media in a tool's result; they follow it in a user message.
`openai_responses.py` has the Responses API.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec

from projections.requests.incremental import Clean, IncrementalArray
from projections.requests.text import sendable
from projections.view.neutral import Call, File, NeutralMessage, NeutralPart, Reasoning, Result, Text
from projections.view.part_rendering import MEDIA_HEADING

__all__ = ["ChatEncoder", "chat_messages", "encode_chat"]

ChatMessage = dict[str, Any]


def chat_messages(messages: Iterable[NeutralMessage], system: Sequence[str] = ()) -> list[ChatMessage]:
    """Return the messages of a request: the system segments, then the view."""
    chat: list[ChatMessage] = [{"role": "system", "content": sendable(segment)} for segment in system]
    for message in messages:
        chat += _message(message, sendable)
    return chat


def encode_chat(messages: Iterable[NeutralMessage], system: Sequence[str] = ()) -> bytes:
    """Return the messages as a JSON array; one message at a time is in memory."""
    chat = chain(chat_messages((), system), chain.from_iterable(_message(message, sendable) for message in messages))
    return b"[%b]" % b",".join(map(msgspec.json.encode, chat))


class ChatEncoder:
    """Encodes one view after another; each message is encoded once. Not thread-safe."""

    __slots__ = ("_joined",)

    def __init__(self) -> None:
        self._joined = IncrementalArray(_message)

    def encode(self, messages: Iterable[NeutralMessage], system: Sequence[str] = ()) -> bytes:
        """Return the JSON array of a request, equal to that of `encode_chat`."""
        return self._joined.encode(messages, tuple(system), chat_messages((), system))


def _message(message: NeutralMessage, clean: Clean) -> list[ChatMessage]:
    if message.role == "user":
        return [{"role": "user", "content": _content(message.parts, clean)}]
    if message.role == "assistant":
        return _assistant(message.parts, clean)
    return _results([part for part in message.parts if isinstance(part, Result)], clean)


def _content(parts: tuple[NeutralPart, ...], clean: Clean) -> str | list[ChatMessage]:
    if len(parts) == 1 and isinstance(parts[0], Text):
        return clean(parts[0].text)
    content: list[ChatMessage] = []
    for part in parts:
        if isinstance(part, Text):
            content.append({"type": "text", "text": clean(part.text)})
        elif isinstance(part, File):
            content.append(_file(part, clean))
    return content


def _file(file: File, clean: Clean) -> ChatMessage:
    if file.mime.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": clean(file.url)}}
    if file.mime in {"audio/wav", "audio/mp3", "audio/mpeg"}:
        form = "wav" if file.mime == "audio/wav" else "mp3"
        return {"type": "input_audio", "input_audio": {"data": file.url.partition(",")[2], "format": form}}
    return {"type": "file", "file": {"filename": file.filename or "document.pdf", "file_data": clean(file.url)}}


def _assistant(parts: tuple[NeutralPart, ...], clean: Clean) -> list[ChatMessage]:
    text, reasoning = "", ""
    calls: list[ChatMessage] = []
    results: list[Result] = []
    for part in parts:
        if isinstance(part, Text):
            text += part.text
        elif isinstance(part, Call):
            function = {"name": part.tool, "arguments": clean(part.input)}
            calls.append({"id": part.call, "type": "function", "function": function})
        elif isinstance(part, Reasoning):
            reasoning += part.text
        elif isinstance(part, Result):
            results.append(part)
    message: ChatMessage = {"role": "assistant", "content": clean(text)}
    if reasoning:
        message["reasoning_content"] = clean(reasoning)
    if calls:
        message["tool_calls"] = calls
    return [message, *_results(results, clean)] if results else [message]


def _results(results: list[Result], clean: Clean) -> list[ChatMessage]:
    messages: list[ChatMessage] = [
        {"role": "tool", "tool_call_id": result.call, "content": clean(result.output)} for result in results
    ]
    files = [_file(file, clean) for result in results for file in result.files]
    if files:
        messages.append({"role": "user", "content": [{"type": "text", "text": MEDIA_HEADING}, *files]})
    return messages
