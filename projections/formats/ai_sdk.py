"""The view as `ModelMessage` JSON of the AI SDK (version 5): messages of system, user, assistant and tool with content parts.

Not a client.  Providers' rules are the AI SDK's own business; here only: every call has one result, call ids are
unique in the list (`calls.py`), no text is empty, and provider metadata goes back as `providerOptions`.  The result of a tool
that the provider ran stands in the assistant message, as JSON if it is JSON; files in results are `media` of a `content`
output, which takes bytes only, so one that is elsewhere is named in a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from projections.formats.calls import CallIds, Names, Rendered
from projections.formats.files import data_of, named
from projections.formats.metadata import is_array, is_object, parsed
from projections.formats.text import sendable
from projections.view.neutral import Call, File, NeutralMessage, NeutralPart, Reasoning, Result, Text

__all__ = ["ModelMessageEncoder", "encode_model_messages", "model_messages"]

Part: TypeAlias = dict[str, Any]

_LONGEST_ID = 256


def model_messages(messages: Iterable[NeutralMessage], system: Sequence[str] = ()) -> list[Part]:
    """The system segments, then the view."""
    found = _system(system)
    found.extend(made for some in Rendered(_messages).of(messages, _ids()) for made in some)
    return found


def encode_model_messages(messages: Iterable[NeutralMessage], system: Sequence[str] = ()) -> bytes:
    """The same as a JSON array."""
    return msgspec.json.encode(model_messages(messages, system))


class ModelMessageEncoder:
    """Encodes one view after another, each message of them once."""

    __slots__ = ("_rendered",)

    def __init__(self) -> None:
        self._rendered = Rendered(_encoded)

    def encode(self, messages: Iterable[NeutralMessage], system: Sequence[str] = ()) -> bytes:
        """The JSON array: equal to `encode_model_messages`, joined from what is known of the view before."""
        pieces = [msgspec.json.encode(_system(system))[1:-1], *self._rendered.of(messages, _ids())]
        return b"[" + b",".join(piece for piece in pieces if piece) + b"]"


def _ids() -> CallIds:
    return CallIds(r"[^\ud800-\udfff]+", _LONGEST_ID)


def _encoded(message: NeutralMessage, names: Names) -> bytes:
    return msgspec.json.encode(_messages(message, names))[1:-1]


def _system(system: Sequence[str]) -> list[Part]:
    return [{"role": "system", "content": sendable(segment)} for segment in system if segment]


def _messages(message: NeutralMessage, names: Names) -> list[Part]:
    served = message.role == "assistant"
    content = [part for found in message.parts for part in _part(found, names, served=served)]
    return [{"role": message.role, "content": content}] if content else []


def _part(part: NeutralPart, names: Names, *, served: bool) -> list[Part]:
    """What stands for a part; `served` says that results are those of tools that the provider ran."""
    match part:
        case Text():
            return [_with(part.metadata, type="text", text=sendable(part.text))] if part.text else []
        case Reasoning():
            if not part.text and part.metadata is None:
                return []
            return [_with(part.metadata, type="reasoning", text=sendable(part.text))]
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
    """The part with its provider's metadata, if that is an object of objects."""
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
    given = parsed(call.input)
    fields: Part = {
        "type": "tool-call",
        "toolCallId": names[call.call],
        "toolName": sendable(call.tool),
        "input": {} if given is None else given,
    }
    if call.provider_executed:
        fields["providerExecuted"] = True
    return _with(call.metadata, **fields)


def _output(result: Result, *, served: bool) -> Part:
    text = sendable(result.output)
    if result.error:
        return {"type": "error-text", "value": text}
    if result.files:
        said = [{"type": "text", "text": text}] if text else []
        return {"type": "content", "value": [*said, *map(_media, result.files)]}
    value = parsed(text) if served else None
    return {"type": "json", "value": value} if is_object(value) or is_array(value) else {"type": "text", "value": text}


def _media(file: File) -> Part:
    data = data_of(file)
    if data is None:
        return {"type": "text", "text": named(file)}
    return {"type": "media", "data": data.base64, "mediaType": data.mime}
