"""The view as OpenAI Chat Completions `messages`, in the form that `@ai-sdk/openai-compatible` sends.

Not a client, and not the Responses API.  Anybody may import it.  Chat Completions has no place for media in a tool's
result: what a view keeps there follows it in a user message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from projections.formats.wire import sendable
from projections.neutral import Call, File, NeutralMessage, NeutralPart, Reasoning, Result, Text
from projections.rendering import MEDIA_HEADING

__all__ = ["ChatEncoder", "chat_messages", "encode_chat"]

ChatMessage = dict[str, Any]


def chat_messages(messages: Iterable[NeutralMessage], system: Sequence[str] = ()) -> list[ChatMessage]:
    """The messages of a request: the system segments first, then the view."""
    found: list[ChatMessage] = [{"role": "system", "content": sendable(segment)} for segment in system]
    for message in messages:
        found.extend(_message(message))
    return found


def encode_chat(messages: Iterable[NeutralMessage], system: Sequence[str] = ()) -> bytes:
    """The same as a JSON array."""
    return msgspec.json.encode(chat_messages(messages, system))


class ChatEncoder:
    """Encodes one view after another, each message of them once."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[NeutralMessage, bytes]] = {}

    def encode(self, messages: Iterable[NeutralMessage], system: Sequence[str] = ()) -> bytes:
        """The JSON array of a request: equal to `encode_chat`, joined from what is known of the view before."""
        known = self._known
        fresh: dict[int, tuple[NeutralMessage, bytes]] = {}
        pieces = [encode_chat((), system)[1:-1]] if system else []
        for message in messages:
            key = id(message)
            entry = known.get(key)
            if entry is None:
                entry = (message, msgspec.json.encode(_message(message))[1:-1])
            fresh[key] = entry
            if entry[1]:
                pieces.append(entry[1])
        self._known = fresh
        return b"[" + b",".join(pieces) + b"]"


def _message(message: NeutralMessage) -> list[ChatMessage]:
    if message.role == "user":
        return [{"role": "user", "content": _content(message.parts)}]
    if message.role == "assistant":
        return _assistant(message.parts)
    return _results([part for part in message.parts if isinstance(part, Result)])


def _content(parts: tuple[NeutralPart, ...]) -> str | list[ChatMessage]:
    if len(parts) == 1 and isinstance(parts[0], Text):
        return sendable(parts[0].text)
    content: list[ChatMessage] = []
    for part in parts:
        if isinstance(part, Text):
            content.append({"type": "text", "text": sendable(part.text)})
        elif isinstance(part, File):
            content.append(_file(part))
    return content


def _file(file: File) -> ChatMessage:
    if file.mime.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": sendable(file.url)}}
    if file.mime in {"audio/wav", "audio/mp3", "audio/mpeg"}:
        form = "wav" if file.mime == "audio/wav" else "mp3"
        return {"type": "input_audio", "input_audio": {"data": file.url.partition(",")[2], "format": form}}
    return {"type": "file", "file": {"filename": file.filename or "document.pdf", "file_data": sendable(file.url)}}


def _assistant(parts: tuple[NeutralPart, ...]) -> list[ChatMessage]:
    reasoning = "".join(part.text for part in parts if isinstance(part, Reasoning))
    message: ChatMessage = {
        "role": "assistant",
        "content": sendable("".join(part.text for part in parts if isinstance(part, Text))),
    }
    if reasoning:
        message["reasoning_content"] = sendable(reasoning)
    calls = [part for part in parts if isinstance(part, Call)]
    if calls:
        message["tool_calls"] = [
            {
                "id": call.call,
                "type": "function",
                "function": {"name": call.tool, "arguments": sendable(call.input)},
            }
            for call in calls
        ]
    return [message, *_results([part for part in parts if isinstance(part, Result)])]


def _results(results: list[Result]) -> list[ChatMessage]:
    messages: list[ChatMessage] = [
        {"role": "tool", "tool_call_id": result.call, "content": sendable(result.output)} for result in results
    ]
    files = [_file(file) for result in results for file in result.files]
    if files:
        messages.append({"role": "user", "content": [{"type": "text", "text": MEDIA_HEADING}, *files]})
    return messages
