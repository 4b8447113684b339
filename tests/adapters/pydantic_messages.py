"""Messages of pydantic-ai of all kinds, and what a model is shown of a list of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, takewhile
from typing import Any

from hypothesis import strategies as st
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    BinaryImage,
    CachePoint,
    CapabilityLoadDeltaPart,
    CompactionPart,
    DocumentUrl,
    FilePart,
    FileUrl,
    ImageUrl,
    InstructionBaselinePart,
    InstructionDeltaPart,
    InstructionPart,
    LoadCapabilityCallPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelSettingsDeltaPart,
    NativeToolCallPart,
    NativeToolReturnPart,
    NativeToolSearchCallPart,
    NativeToolSearchReturnPart,
    RetryFeedbackPart,
    RetryInfo,
    SpeechPart,
    StructuredContent,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    ToolReturnPart,
    ToolSearchCallPart,
    UploadedFile,
    UserPromptPart,
    VideoUrl,
)

from eventlog.importers.common.json_lines import dump, is_array
from projections import ModelView
from projections.view.neutral import Call, File, Result, Text

INTERRUPTED = "[Tool execution was interrupted]"
OUTCOMES: list[Any] = ["success", "failed", "denied", "interrupted", "retried"]
PNG = b"\x89PNG"
Shown = tuple[str, ...]
KINDS = st.lists(
    st.sampled_from(["user", "files", "media", "system", "prompt", "prompt", "speech", "spoken", "answer", "thinks", "call", "call", "native", "search", "file", "results", "results", "feedback", "summary", "deltas", "nothing"]),
    min_size=1,
    max_size=4,
)  # fmt: skip


class Talk:
    """Makes messages; tool returns are those of calls that were made and have none."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def messages(self, kinds: Iterable[str], before: Sequence[ModelMessage]) -> list[ModelMessage]:
        """Return messages of these kinds that come behind others."""
        made: list[ModelMessage] = []
        for kind in kinds:
            dumped = ModelMessagesTypeAdapter.dump_python([self._message(kind, [*before, *made])], mode="json")
            made += ModelMessagesTypeAdapter.validate_python(dumped)  # as any store has it
        return made

    def _message(self, kind: str, before: list[ModelMessage]) -> ModelMessage:
        number = next(self._numbers)
        text = f"{kind} {number} é"
        calls = [
            ToolCallPart("look", {"at": text}, f"call_{number}a"),
            ToolCallPart("find", f'{{"n": {number}}}', f"call_{number}b"),
        ]
        match kind:
            case "files":
                content: list[Any] = [
                    text,
                    ImageUrl(f"http://x/{number}.png"),
                    BinaryContent(PNG, media_type="image/png"),
                    TextContent(content="more"),
                ]
                return ModelRequest([UserPromptPart([*content, CachePoint()])])
            case "media":
                media: list[Any] = [
                    AudioUrl(f"http://x/{number}.mp3"),
                    VideoUrl(f"http://x/{number}.mp4"),
                    DocumentUrl(f"http://x/{number}.pdf"),
                    BinaryContent(PNG, media_type="audio/wav"),
                    UploadedFile(f"file_{number}", "openai", media_type="application/pdf"),
                    StructuredContent({"n": number}),
                ]
                return ModelRequest([UserPromptPart([text, *media])])
            case "spoken":
                sound = BinaryContent(PNG, media_type="audio/wav")
                return ModelResponse([SpeechPart(speaker="assistant", transcript=text, audio=sound)])
            case "search":
                found = NativeToolSearchReturnPart(tool_call_id=f"native_{number}", content={"discovered_tools": []})
                searched = NativeToolSearchCallPart(args={"queries": [text]}, tool_call_id=f"native_{number}")
                asked = ToolSearchCallPart(args={"queries": [text]}, tool_call_id=f"search_{number}")
                loaded = LoadCapabilityCallPart(args={"id": text}, tool_call_id=f"load_{number}")
                return ModelResponse([searched, found, asked, loaded])
            case "deltas":
                return ModelRequest(
                    [
                        InstructionBaselinePart(instructions=[InstructionPart(text)]),
                        InstructionDeltaPart(id=None, content=text),
                        ToolAvailabilityDeltaPart(tools_added=[text]),
                        CapabilityLoadDeltaPart(loaded=[text]),
                        ModelSettingsDeltaPart(settings={}),
                        UserPromptPart(text),
                    ]
                )
            case "nothing":
                return ModelResponse([]) if number % 2 else ModelRequest([UserPromptPart([])])
            case "system":
                return ModelRequest([SystemPromptPart(text), UserPromptPart("asked")], instructions="be brief")
            case "prompt":
                return ModelRequest([SystemPromptPart(text), SystemPromptPart(f"more {text}")])
            case "speech":
                return ModelRequest([SpeechPart(speaker="user", transcript=text)])
            case "answer":
                return ModelResponse([TextPart(text)], model_name="m", provider_name="p", finish_reason="stop")
            case "thinks":
                return ModelResponse([ThinkingPart(text, signature="sig"), TextPart(text), TextPart("and more")])
            case "call":
                return ModelResponse([TextPart(text), *calls], finish_reason="tool_call")
            case "native":
                returned = NativeToolReturnPart("web_search", {"found": [text]}, f"native_{number}")
                return ModelResponse(
                    [NativeToolCallPart("web_search", {"q": text}, f"native_{number}"), returned, TextPart(text)]
                )
            case "file":
                return ModelResponse([FilePart(BinaryImage(PNG, media_type="image/png")), CompactionPart(text)])
            case "feedback":
                return ModelRequest([RetryFeedbackPart(text, retry=RetryInfo(cause="validation_error"))])
            case "summary":
                return ModelRequest([CompactionPart(text), UserPromptPart("go on")])
            case "results":
                waiting = _waiting(before)[: 1 + number % 2]
                outputs: list[Any] = [
                    text,
                    {"found": [number]},
                    None,
                    [text, BinaryContent(PNG, media_type="image/png")],
                ]
                returns = [
                    ToolReturnPart(call.tool_name, outputs[number % 4], call.tool_call_id, outcome=OUTCOMES[number % 5])
                    for call in waiting
                ]
                return ModelRequest([*returns, UserPromptPart(text)])
            case _:
                pass
        return ModelRequest([UserPromptPart(text)])


def _waiting(messages: Iterable[ModelMessage]) -> list[ToolCallPart]:
    """Return the calls without a return."""
    calls: dict[str, ToolCallPart] = {}
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, ToolCallPart):
            calls[part.tool_call_id] = part
        elif isinstance(part, ToolReturnPart):
            calls.pop(part.tool_call_id, None)
    return list(calls.values())


def _text(content: Any) -> str:
    if is_array(content):
        content = next(one for one in content if isinstance(one, str))  # beside a file
    return content if isinstance(content, str) else "" if content is None else dump(content)


BEGINNING = (UserPromptPart, SpeechPart, RetryFeedbackPart, CompactionPart)
"""Parts of a request that are user messages."""


def _begins(message: ModelMessage) -> bool:
    return message.kind == "response" or any(isinstance(part, BEGINNING) for part in message.parts)


def _prompts(messages: Sequence[ModelMessage]) -> list[SystemPromptPart]:
    """Return the system prompts of the first request with any, before the conversation begins."""
    for message in messages:
        parts: Sequence[Any] = message.parts if message.kind == "request" else ()
        leading = takewhile(lambda part: not isinstance(part, BEGINNING), parts)
        prompts = [part for part in leading if isinstance(part, SystemPromptPart)]
        if prompts or _begins(message):
            return prompts
    return []


def listed(messages: Sequence[ModelMessage]) -> list[Shown]:
    """Return what a model is shown of messages: texts, files, and calls with their returns."""
    parts = [(message.kind, part) for message in messages for part in message.parts]
    outputs = {
        part.tool_call_id: _text(part.content)
        for _, part in parts
        if isinstance(part, (ToolReturnPart, NativeToolReturnPart))
    }
    leading = _prompts(messages)
    shown: list[Shown] = [("prompt", "\n\n".join(part.content for part in leading))] if leading else []
    asked = [one for one in messages if any(isinstance(part, (UserPromptPart, SpeechPart)) for part in one.parts)]
    newest = next((one for one in reversed(asked) if isinstance(one, ModelRequest)), None)
    shown += [("prompt", newest.instructions)] if newest is not None and newest.instructions else []
    for kind, part in parts:
        match part:
            case SystemPromptPart(content=content):
                shown += [] if any(part is one for one in leading) else [("user", content)]
            case UserPromptPart(content=content):
                for one in [content] if isinstance(content, str) else content:
                    if isinstance(one, (FileUrl, BinaryContent, UploadedFile)):
                        shown.append(("user", "file", one.media_type))
                    elif isinstance(one, (str, TextContent, StructuredContent)):
                        shown.append(("user", one if isinstance(one, str) else one.content))
            case SpeechPart(transcript=transcript):
                shown.append(("user" if kind == "request" else "assistant", str(transcript)))
            case RetryFeedbackPart(content=content) | CompactionPart(content=content) | TextPart(content=content):
                shown.append(("user" if kind == "request" else "assistant", _text(content)))
            case FilePart():
                shown.append(("assistant", "file", "image/png"))
            case ToolCallPart() | NativeToolCallPart():
                shown.append(
                    (
                        "call",
                        part.tool_call_id,
                        part.tool_name,
                        _text(part.args),
                        outputs.get(part.tool_call_id, INTERRUPTED),
                    )
                )
            case _:
                pass
    return shown


def viewed(view: ModelView) -> list[Shown]:
    """Return the same of a view."""
    parts = [(message.role, part) for message in view.messages for part in message.parts]
    outputs = {part.call: part.output for _, part in parts if isinstance(part, Result)}
    shown: list[Shown] = [("prompt", text) for text in view.system if text]
    for role, part in parts:
        if isinstance(part, Text):
            shown.append((role, part.text))
        elif isinstance(part, File):
            shown.append((role, "file", part.mime))
        elif isinstance(part, Call):
            shown.append(("call", part.call, part.tool, part.input, outputs[part.call]))
    return shown
