"""A view as `messages` of Chat Completions, as `@ai-sdk/openai-compatible` sends them.

Chat Completions has no place for media in a tool's result; they follow it in a user message.
`openai_responses.py` has the Responses API.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from projections.requests.text import sendable
from projections.view.neutral import Call, File, NeutralMessage, NeutralPart, Reasoning, Result, Text
from projections.view.part_rendering import MEDIA_HEADING

__all__ = ["chat_messages"]

ChatMessage = dict[str, Any]


def chat_messages(messages: Iterable[NeutralMessage], system: Sequence[str] = ()) -> list[ChatMessage]:
    """Return the messages of a request: the system segments, then the view."""
    chat: list[ChatMessage] = [{"role": "system", "content": sendable(segment)} for segment in system]
    for message in messages:
        chat += _message(message)
    return chat


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
    text, reasoning = "", ""
    calls: list[ChatMessage] = []
    results: list[Result] = []
    for part in parts:
        if isinstance(part, Text):
            text += part.text
        elif isinstance(part, Call):
            function = {"name": part.tool, "arguments": sendable(part.input)}
            calls.append({"id": part.call, "type": "function", "function": function})
        elif isinstance(part, Reasoning):
            reasoning += part.text
        elif isinstance(part, Result):
            results.append(part)
    message: ChatMessage = {"role": "assistant", "content": sendable(text)}
    if reasoning:
        message["reasoning_content"] = sendable(reasoning)
    if calls:
        message["tool_calls"] = calls
    return [message, *_results(results)] if results else [message]


def _results(results: list[Result]) -> list[ChatMessage]:
    messages: list[ChatMessage] = [
        {"role": "tool", "tool_call_id": result.call, "content": sendable(result.output)} for result in results
    ]
    files = [_file(file) for result in results for file in result.files]
    if files:
        messages.append({"role": "user", "content": [{"type": "text", "text": MEDIA_HEADING}, *files]})
    return messages
