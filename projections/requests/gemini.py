"""A view as a request of Gemini `generateContent`: `systemInstruction` and `contents`.

Tool declarations and sampling are the caller's. The request obeys the rules of the API:

* The user begins; `OPENING` precedes a conversation that begins with the model. Neighbours of one
  role become one content, and no text is empty.
* A content of calls is followed by a content of as many responses and nothing else; media of
  results are in the user content behind it.
* The first call of a content has a signature, which Gemini 3 demands; one that has none, of another
  model or refused, has the text that the documentation gives for it.
* A part keeps its `thoughtSignature`. A thought without one, of another model or edited, is
  omitted, and so is a content of thoughts alone.
* Code that Gemini ran has its own parts; another tool of a provider is an ordinary call.
* Files are `inlineData` or `fileData`; one that the API does not take is named by a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from eventlog.values import Json
from projections.requests.call_ids import CallIds, Names
from projections.requests.files import data_of, is_web, mime_of, readable
from projections.requests.metadata import arguments, is_object, of_provider, parsed, tool_name
from projections.requests.servers import GEMINI
from projections.requests.text import failure, sendable, summary_of
from projections.view.neutral import Call, File, NeutralMessage, NeutralPart, Opaque, Reasoning, Result, Text
from projections.view.part_rendering import MEDIA_HEADING

__all__ = ["gemini_request"]

Item: TypeAlias = dict[str, Any]

UNSIGNED = "skip_thought_signature_validator"
"""Signature of a call of another provider (ai.google.dev, thought signatures)."""
OPENING = "(The conversation begins with the model.)"


def gemini_request(
    messages: Iterable[NeutralMessage], system: Sequence[str] = (), *, ids: bool = True
) -> dict[str, Any]:
    """Return `contents` of a request, and `systemInstruction` unless it is empty.

    `ids` says whether calls and responses have ids, which older versions of the API refuse.
    """
    contents = _Contents(ids=ids)
    for message in messages:
        contents.take(message)
    request: dict[str, Any] = {}
    segments = [{"text": sendable(segment)} for segment in system if segment.strip()]
    if segments:
        request["systemInstruction"] = {"parts": segments}
    request["contents"] = contents.end()
    return request


class _Contents:
    """The contents of one request as they are made."""

    def __init__(self, *, ids: bool) -> None:
        self._with_ids = ids
        self._ids = CallIds(GEMINI.ids, GEMINI.longest_id)
        self._contents: list[Item] = []
        self._responses: list[Item] = []
        self._media: list[Item] = []
        """Responses to the newest calls, and their media, until all are there."""

    def take(self, message: NeutralMessage) -> None:
        """Take the next message of the view."""
        names = self._ids.names(message)
        if message.role == "tool":
            self._respond([part for part in message.parts if isinstance(part, Result)], names)
            return
        self._end_results()
        if message.role == "user":
            self._add("user", [item for part in message.parts for item in _said(part)])
            return
        self._answer(message.parts, names)

    def end(self) -> list[Item]:
        """Return all contents."""
        self._end_results()
        return self._contents

    # -- contents ----------------------------------------------------------------------------------

    def _add(self, role: str, parts: list[Item]) -> None:
        if not parts:
            return
        if not self._contents and role == "model":
            self._contents.append({"role": "user", "parts": [{"text": OPENING}]})
        last: Item = self._contents[-1] if self._contents else {"role": "", "parts": [{}]}
        if last["role"] == role and "functionResponse" not in last["parts"][0]:
            last["parts"].extend(parts)
        else:
            self._contents.append({"role": role, "parts": parts})

    def _answer(self, parts: tuple[NeutralPart, ...], names: Names) -> None:
        answers = {part.call: part for part in parts if isinstance(part, Result)}
        said: list[Item] = []
        results: list[Result] = []
        for part in parts:
            if isinstance(part, Call):
                answer = answers.get(part.call)
                code = _code(part, answer)
                said += code or [self._call(part, names)]
                results += [answer] if answer is not None and not code else []
            else:
                said += _said(part)
        if all(item.get("thought") for item in said):
            return
        calls = [item for item in said if "functionCall" in item]
        if self._with_ids and calls:
            calls[0].setdefault("thoughtSignature", UNSIGNED)
        self._add("model", said)
        self._respond(results, names)

    def _call(self, call: Call, names: Names) -> Item:
        function = {"name": _name(call.tool), "args": arguments(call.input)} | self._id(names[call.call])
        return _signed({"functionCall": function}, call.metadata)

    def _id(self, name: str) -> Item:
        return {"id": name} if self._with_ids else {}

    def _respond(self, results: list[Result], names: Names) -> None:
        for result in results:
            output = failure(result.output) if result.error else result.output
            response = {"error" if result.error else "output": sendable(output)}
            function = {"name": _name(result.tool), "response": response} | self._id(names[result.call])
            self._responses.append({"functionResponse": function})
            self._media += map(_file, result.files)

    def _end_results(self) -> None:
        responses, media, self._responses, self._media = self._responses, self._media, [], []
        if responses:
            self._contents.append({"role": "user", "parts": responses})
        if media:
            self._add("user", [{"text": MEDIA_HEADING}, *media])


# -- parts -------------------------------------------------------------------------------------


def _said(part: NeutralPart) -> list[Item]:
    """Return the parts of a text, a thought or a file; none of an empty or unsigned one."""
    if isinstance(part, Text):
        item = _signed({"text": sendable(part.text)}, part.metadata)
        return [item] if part.text else []
    if isinstance(part, Reasoning):
        item = _signed({"text": sendable(part.text), "thought": True}, part.metadata)
        return [item] if "thoughtSignature" in item else []
    if isinstance(part, Opaque):
        return [{"text": sendable(summary_of(part))}]
    return [_file(part)] if isinstance(part, File) else []


def _signed(item: Item, metadata: Json | None) -> Item:
    """Return the part with the signature of its metadata, if there is one."""
    signature = of_provider(metadata, "google").get("thoughtSignature")
    return {**item, "thoughtSignature": signature} if isinstance(signature, str) and signature else item


def _name(tool: str) -> str:
    """Return a tool's name, which begins with a letter or an underscore."""
    name = tool_name(tool, GEMINI.longest_name)
    return name if name[0].isalpha() or name[0] == "_" else tool_name(f"_{name}", GEMINI.longest_name)


def _code(call: Call, result: Result | None) -> list[Item]:
    """Return the parts of code that Gemini ran; none for any other call."""
    code, found = parsed(call.input), parsed(result.output) if result is not None else None
    if not call.provider_executed or call.tool != "code_execution" or not is_object(code) or not is_object(found):
        return []
    if "code" not in code or "outcome" not in found:
        return []
    return [_signed({"executableCode": code}, call.metadata), {"codeExecutionResult": found}]


def _file(file: File) -> Item:
    data = data_of(file)
    if data is not None and GEMINI.takes(data.mime):
        return {"inlineData": {"mimeType": data.mime, "data": data.base64}}
    mime = mime_of(file, None)
    if (is_web(file) or file.url.startswith("gs://")) and GEMINI.takes(mime, address=True) and "*" not in mime:
        return {"fileData": {"mimeType": sendable(mime), "fileUri": sendable(file.url)}}
    return {"text": readable(file)}
