"""A view as `messages` of Chat Completions, by the rules of the server that they go to.

The request obeys the rules in `servers.py`, and these for all servers:

* Call ids are unique in the request, and each result follows its own call. Arguments are a JSON
  object.
* No message and no text is empty; an answer of reasoning alone is not sent. Only the preset
  `opencode-1.18` has empty answers in its view, and `openai-compatible` sends them.
* The API has no place for media in a tool's result; they follow the results in a user message.
* A file that the server does not take is named by a text; a text file is sent as a text.

`openai_responses.py` has the Responses API.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from projections.requests.call_ids import CallIds, Names
from projections.requests.files import data_of, file_id_of, is_web, mime_of, readable
from projections.requests.metadata import arguments_text, tool_name
from projections.requests.servers import DEFAULT, PDF, Rules, rules_of
from projections.requests.text import failure, sendable, summary_of
from projections.view.neutral import Call, File, NeutralMessage, NeutralPart, Opaque, Reasoning, Result, Text
from projections.view.part_rendering import MEDIA_HEADING

__all__ = ["chat_messages"]

ChatMessage = dict[str, Any]

BRIDGE = "(The results were read.)"
"""Assistant message between results and a user message, where these are refused in a row."""


def chat_messages(
    messages: Iterable[NeutralMessage], system: Sequence[str] = (), *, server: str = DEFAULT
) -> list[ChatMessage]:
    """Return the messages of a request: the system segments, then the view.

    `server` names a row of `servers.SERVERS`, whose rules the messages obey.
    """
    request = _Request(rules_of(server))
    request.begin([sendable(segment) for segment in system if segment.strip()])
    for message in messages:
        request.take(message)
    return request.end()


class _Request:
    """The messages of one request as they are made."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._ids = CallIds(rules.ids, rules.longest_id)
        self._messages: list[ChatMessage] = []
        self._media: list[ChatMessage] = []
        """Media of the newest results, until all results are there."""

    def begin(self, system: list[str]) -> None:
        """Take the system segments."""
        segments = system if self._rules.many_systems or not system else ["\n\n".join(system)]
        self._messages += [{"role": "system", "content": segment} for segment in segments]

    def take(self, message: NeutralMessage) -> None:
        """Take the next message of the view."""
        names = self._ids.names(message)
        if message.role != "tool":
            self._end_results()
        if message.role == "user":
            content = self._content(message.parts)
            if content:
                self._add("user", content)
        elif message.role == "assistant":
            self._add_answer(message.parts, names)
        self._add_results([part for part in message.parts if isinstance(part, Result)], names)

    def end(self) -> list[ChatMessage]:
        """Return all messages."""
        self._end_results()
        return self._messages

    # -- messages ----------------------------------------------------------------------------------

    def _add(self, role: str, content: str | list[ChatMessage], **more: Any) -> None:
        """Add a message, or join it to its neighbour where roles must alternate."""
        last: ChatMessage = self._messages[-1] if self._messages else {"role": ""}
        if role == "user" and last["role"] == "tool" and not self._rules.user_after_results:
            self._messages.append({"role": "assistant", "content": BRIDGE})
        elif role == last["role"] and not self._rules.repeats_roles and "tool_calls" not in last:
            last["content"] = _joined(last["content"], content)
            for name, value in more.items():
                last[name] = last[name] + value if name in last else value
            return
        self._messages.append({"role": role, "content": content, **more})

    def _add_answer(self, parts: tuple[NeutralPart, ...], names: Names) -> None:
        text, thoughts, files, calls = "", "", list[str](), list[ChatMessage]()
        for part in parts:
            if isinstance(part, Call):
                calls.append(self._call(part, names))
            elif isinstance(part, Reasoning):
                thoughts += part.text
            elif isinstance(part, File):
                files.append(readable(part))
            else:
                text += _text_of(part)
        more: ChatMessage = {}
        if self._rules.reasoning and (thoughts or self._rules.no_reasoning):
            more["reasoning_content"] = sendable(thoughts) or self._rules.no_reasoning
        if calls:
            more["tool_calls"] = calls
        content = "\n".join([*([sendable(text)] if text else []), *files])
        if content or calls or (self._rules.empty_answers and any(map(_is_empty, parts))):
            self._add("assistant", content, **more)

    def _call(self, call: Call, names: Names) -> ChatMessage:
        function = {"name": tool_name(call.tool, self._rules.longest_name), "arguments": arguments_text(call.input)}
        return {"id": names[call.call], "type": "function", "function": function}

    def _add_results(self, results: list[Result], names: Names) -> None:
        for result in results:
            output = sendable(failure(result.output) if result.error else result.output)
            self._messages.append({"role": "tool", "tool_call_id": names[result.call], "content": output})
            self._media += map(self._file, result.files)

    def _end_results(self) -> None:
        if self._media:
            self._add("user", [{"type": "text", "text": MEDIA_HEADING}, *self._media])
            self._media = []

    # -- content -----------------------------------------------------------------------------------

    def _content(self, parts: tuple[NeutralPart, ...]) -> str | list[ChatMessage]:
        if len(parts) == 1 and isinstance(parts[0], Text):
            return sendable(parts[0].text)
        content: list[ChatMessage] = []
        for part in parts:
            if isinstance(part, Text) and part.text:
                content.append({"type": "text", "text": sendable(part.text)})
            elif isinstance(part, File):
                content.append(self._file(part))
        return content

    def _file(self, file: File) -> ChatMessage:
        """Return an image, a sound or a document, or a text for a file that is not taken."""
        data, uploaded = data_of(file), file_id_of(file)
        mime = mime_of(file, data)
        url = ""
        if data is not None and self._rules.takes(mime):
            url = f"data:{mime};base64,{data.base64}"
        elif is_web(file) and self._rules.takes(mime, address=True):
            url = sendable(file.url)
        if url and mime.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": url}}
        if url and data is not None and mime.startswith("audio/"):
            form = "wav" if mime == "audio/wav" else "mp3"
            return {"type": "input_audio", "input_audio": {"data": data.base64, "format": form}}
        if url:
            return {"type": "file", "file": {"filename": sendable(file.filename or "document.pdf"), "file_data": url}}
        if uploaded is not None and mime == PDF and self._rules.uploads:
            return {"type": "file", "file": {"file_id": uploaded}}
        return {"type": "text", "text": readable(file)}


def _text_of(part: NeutralPart) -> str:
    """Return what a part of an answer says; a summary is a paragraph of its own."""
    if isinstance(part, Opaque):
        return f"{summary_of(part)}\n\n"
    return part.text if isinstance(part, Text) else ""


def _is_empty(part: NeutralPart) -> bool:
    """Return whether a part is a text that the view has although it is empty."""
    return isinstance(part, (Text, Reasoning)) and not part.text and part.metadata is None


def _joined(one: str | list[ChatMessage], two: str | list[ChatMessage]) -> str | list[ChatMessage]:
    """Return the content of two messages of one role as one."""
    if isinstance(one, str) and isinstance(two, str):
        return "\n\n".join(text for text in (one, two) if text)
    return [*_as_list(one), *_as_list(two)]


def _as_list(content: str | list[ChatMessage]) -> list[ChatMessage]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
