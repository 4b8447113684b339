"""Messages of pydantic-ai of all kinds, and what a model is shown of a list of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from hypothesis import strategies as st
from pydantic_ai.messages import (
    BinaryContent,
    BinaryImage,
    CachePoint,
    CompactionPart,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryFeedbackPart,
    RetryInfo,
    SpeechPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from eventlog.importers.common.json_lines import dump
from projections.view.neutral import Call, File, NeutralMessage, Result, Text

__all__ = ["INTERRUPTED", "KINDS", "Talk", "listed", "viewed"]

INTERRUPTED = "[Tool execution was interrupted]"
PNG = b"\x89PNG"
Shown = tuple[str, ...]
KINDS = st.lists(
    st.sampled_from(["user", "files", "system", "speech", "answer", "thinks", "call", "call", "native", "file", "results", "feedback", "summary"]),
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
            case "system":
                return ModelRequest([SystemPromptPart(text), UserPromptPart("asked")], instructions="be brief")
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
                outputs: list[Any] = [text, {"found": [number]}, None]
                returns = [
                    ToolReturnPart(
                        call.tool_name,
                        outputs[number % 3],
                        call.tool_call_id,
                        outcome="failed" if number % 4 == 0 else "success",
                    )
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
    return content if isinstance(content, str) else "" if content is None else dump(content)


def listed(messages: Sequence[ModelMessage]) -> list[Shown]:
    """Return what a model is shown of messages: texts, files, and calls with their returns.

    Leading system prompts are left out: they are the view's system prompt.
    """
    parts = [(message.kind, part) for message in messages for part in message.parts]
    outputs = {
        part.tool_call_id: _text(part.content)
        for _, part in parts
        if isinstance(part, (ToolReturnPart, NativeToolReturnPart))
    }
    shown: list[Shown] = []
    for kind, part in parts:
        match part:
            case SystemPromptPart(content=content):
                shown += [("user", content)] if shown else []
            case UserPromptPart(content=content):
                for one in [content] if isinstance(content, str) else content:
                    if isinstance(one, (ImageUrl, BinaryContent)):
                        shown.append(("user", "file", one.media_type))
                    elif isinstance(one, (str, TextContent)):
                        shown.append(("user", one if isinstance(one, str) else one.content))
            case SpeechPart(transcript=transcript):
                shown.append(("user", str(transcript)))
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


def viewed(messages: Iterable[NeutralMessage]) -> list[Shown]:
    """Return the same of the messages of a view."""
    parts = [(message.role, part) for message in messages for part in message.parts]
    outputs = {part.call: part.output for _, part in parts if isinstance(part, Result)}
    shown: list[Shown] = []
    for role, part in parts:
        if isinstance(part, Text):
            shown.append((role, part.text))
        elif isinstance(part, File):
            shown.append((role, "file", part.mime))
        elif isinstance(part, Call):
            shown.append(("call", part.call, part.tool, part.input, outputs[part.call]))
    return shown
