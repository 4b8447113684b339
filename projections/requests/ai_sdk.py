"""A view as `ModelMessage` JSON of the AI SDK (version 5).

The AI SDK itself obeys the rules of providers. These messages obey the rules of the AI SDK:

* Every call has one result, and call ids are unique in the list.
* No text is empty. Provider metadata is sent as `providerOptions`.
* The result of a tool that the provider ran is in the assistant message, as JSON if it is JSON.
* Files in results are `media` of a `content` output, which accepts bytes only; a text names a file
  at an address.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from projections.requests.call_ids import CallIds, Names
from projections.requests.files import data_of, placeholder
from projections.requests.metadata import is_array, is_object, parsed
from projections.requests.text import sendable, summary_of
from projections.view.neutral import Call, File, NeutralMessage, NeutralPart, Opaque, Reasoning, Result, Text

__all__ = ["model_messages"]

Part: TypeAlias = dict[str, Any]

_LONGEST_ID = 256


def model_messages(messages: Iterable[NeutralMessage], system: Sequence[str] = ()) -> list[Part]:
    """Return the messages: the system segments, then the view."""
    ids = CallIds(r"[^\ud800-\udfff]+", _LONGEST_ID)
    return [*_system(system), *(made for message in messages for made in _messages(message, ids.names(message)))]


def _system(system: Sequence[str]) -> list[Part]:
    return [{"role": "system", "content": sendable(segment)} for segment in system if segment]


def _messages(message: NeutralMessage, names: Names) -> list[Part]:
    served = message.role == "assistant"
    content = [item for part in message.parts for item in _part(part, names, served=served)]
    return [{"role": message.role, "content": content}] if content else []


def _part(part: NeutralPart, names: Names, *, served: bool) -> list[Part]:
    """Return the content of a part; `served` says that the provider ran the tool of a result."""
    match part:
        case Text():
            return [_with(part.metadata, type="text", text=sendable(part.text))] if part.text else []
        case Reasoning():
            if not part.text and part.metadata is None:
                return []
            return [_with(part.metadata, type="reasoning", text=sendable(part.text))]
        case Opaque():
            return [{"type": "text", "text": sendable(summary_of(part))}]
        case File():
            return [_file(part)]
        case Call():
            return [_call(part, names)]
        case Result():
            return [
                {
                    "type": "tool-result",
                    "toolCallId": names[part.call],
                    "toolName": sendable(part.tool),
                    "output": _output(part, served=served),
                }
            ]


def _with(metadata: str | None, **fields: Any) -> Part:
    """Return the part with its provider's metadata, if that is an object of objects."""
    options = parsed(metadata)
    if is_object(options) and options and all(map(is_object, options.values())):
        fields["providerOptions"] = options
    return fields


def _file(file: File) -> Part:
    part: Part = {"type": "file", "data": sendable(file.url), "mediaType": sendable(file.mime)}
    if file.filename is not None:
        part["filename"] = sendable(file.filename)
    return part


def _call(call: Call, names: Names) -> Part:
    arguments = parsed(call.input)
    fields: Part = {
        "type": "tool-call",
        "toolCallId": names[call.call],
        "toolName": sendable(call.tool),
        "input": {} if arguments is None else arguments,
    }
    if call.provider_executed:
        fields["providerExecuted"] = True
    return _with(call.metadata, **fields)


def _output(result: Result, *, served: bool) -> Part:
    text = sendable(result.output)
    if result.error:
        return {"type": "error-text", "value": text}
    if result.files:
        texts = [{"type": "text", "text": text}] if text else []
        return {"type": "content", "value": [*texts, *map(_media, result.files)]}
    value = parsed(text) if served else None
    return {"type": "json", "value": value} if is_object(value) or is_array(value) else {"type": "text", "value": text}


def _media(file: File) -> Part:
    data = data_of(file)
    if data is None:
        return {"type": "text", "text": placeholder(file)}
    return {"type": "media", "data": data.base64, "mediaType": data.mime}
