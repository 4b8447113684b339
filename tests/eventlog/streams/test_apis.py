"""Answers of Anthropic, OpenAI Responses and Gemini become parts of a reply."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import ArgumentValueError, StreamError, UnknownStreamError
from eventlog.session.filling import Filled
from eventlog.values import File, Reasoning, Text, Tool

Chunk = dict[str, Any]


def block(index: int, start: Chunk, *deltas: Chunk) -> list[Chunk]:
    """The events of a content block of Anthropic."""
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def item(found: Chunk, *events: Chunk, **done: Any) -> list[Chunk]:
    """The events of an output item of Responses."""
    return [
        {"type": "response.output_item.added", "item": found},
        *events,
        {"type": "response.output_item.done", "item": found | done},
    ]


SEARCH: Chunk = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}}
RESULT: Chunk = {
    "type": "web_search_tool_result",
    "tool_use_id": "srv",
    "content": [{"type": "web_search_result", "url": "u"}],
}
ANTHROPIC: list[Chunk] = [
    {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 5, "output_tokens": 1}}},
    {"type": "ping"},
    *block(
        0,
        {"type": "thinking", "thinking": ""},
        {"type": "thinking_delta", "thinking": "Hm"},
        {"type": "signature_delta", "signature": "S"},
    ),
    *block(1, {"type": "redacted_thinking", "data": "D"}),
    *block(2, SEARCH, {"type": "input_json_delta", "partial_json": '{"q":"x"}'}),
    *block(3, RESULT),
    *block(
        4,
        {"type": "text", "text": ""},
        {"type": "text_delta", "text": "Hello"},
        {"type": "citations_delta", "citation": {"url": "u"}},
    ),
    *block(
        5,
        {"type": "tool_use", "id": "t", "name": "ls", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"p":1}'},
    ),
    *block(6, {"type": "tool_use", "id": "u", "name": "cat", "input": {}}),
    *block(7, {"type": "container_upload", "file_id": "f"}),
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]
ANTHROPIC_WHOLE: Chunk = {
    "type": "message",
    "content": [
        {"type": "thinking", "thinking": "Hm", "signature": "S"},
        {"type": "redacted_thinking", "data": "D"},
        SEARCH | {"input": {"q": "x"}},
        RESULT,
        {"type": "text", "text": "Hello", "citations": [{"url": "u"}]},
        {"type": "tool_use", "id": "t", "name": "ls", "input": {"p": 1}},
        {"type": "tool_use", "id": "u", "name": "cat", "input": {}},
        {"type": "container_upload", "file_id": "f"},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 5, "output_tokens": 9},
}
WS = {"type": "web_search_call", "id": "ws", "action": {"type": "search", "query": "x"}}
FC = {"type": "function_call", "id": "fc", "call_id": "t", "name": "ls", "arguments": '{"p":1}'}
NO_ARGUMENTS = {"type": "function_call", "id": "fd", "call_id": "u", "name": "cat", "arguments": "{}"}
THOUGHT = {
    "type": "reasoning",
    "id": "rs",
    "summary": [{"type": "summary_text", "text": "Hm"}],
    "encrypted_content": "E",
}
SAID = {
    "type": "message",
    "id": "msg",
    "phase": "final",
    "content": [{"type": "output_text", "text": "Hello", "annotations": [{"url": "u"}]}],
}
COMPACTION = {"type": "compaction", "id": "cmp", "encrypted_content": "C"}
USED = {"input_tokens": 7, "input_tokens_details": {"cached_tokens": 2}, "output_tokens": 9}
RESPONSES: list[Chunk] = [
    {"type": "response.created", "response": {"id": "r"}},
    *item(
        {"type": "reasoning", "id": "rs", "summary": []},
        {"type": "response.reasoning_summary_text.delta", "item_id": "rs", "summary_index": 0, "delta": "Hm"},
        encrypted_content="E",
    ),
    *item(WS | {"action": None}, **WS),
    *item(
        {"type": "message", "id": "msg", "content": []},
        {"type": "response.output_text.delta", "item_id": "msg", "content_index": 0, "delta": "Hel"},
        {"type": "response.output_text.delta", "item_id": "msg", "content_index": 0, "delta": "lo"},
        {
            "type": "response.output_text.annotation.added",
            "item_id": "msg",
            "content_index": 0,
            "annotation": {"url": "u"},
        },
        phase="final",
    ),
    *item(
        FC | {"arguments": ""},
        {"type": "response.function_call_arguments.delta", "item_id": "fc", "delta": '{"p":'},
        {"type": "response.function_call_arguments.delta", "item_id": "fc", "delta": "1}"},
        **FC,
    ),
    *item(NO_ARGUMENTS),
    *item(COMPACTION),
    {"type": "response.completed", "response": {"status": "completed", "usage": USED}},
]
RESPONSES_WHOLE: Chunk = {
    "object": "response",
    "status": "completed",
    "output": [THOUGHT, WS, SAID, FC, NO_ARGUMENTS, COMPACTION],
    "usage": USED,
}
GEMINI_PARTS: list[Chunk] = [
    {"text": "Hm", "thought": True},
    {"executableCode": {"language": "PYTHON", "code": "1+1"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
    {"text": "Hel"},
    {"text": "lo"},
    {"functionCall": {"name": "ls", "args": {"p": 1}}, "thoughtSignature": "U2ln"},
    {"functionCall": {"id": "u", "name": "cat"}},
    {"inlineData": {"mimeType": "image/png", "data": "AA-_"}},
]
TOLD = {"promptTokenCount": 7, "cachedContentTokenCount": 2, "candidatesTokenCount": 6, "thoughtsTokenCount": 3}
GEMINI_WHOLE: Chunk = {
    "candidates": [{"content": {"parts": GEMINI_PARTS}, "finishReason": "STOP"}],
    "usageMetadata": TOLD,
}
GEMINI: list[Chunk] = [
    *({"candidates": [{"content": {"parts": [part]}}]} for part in GEMINI_PARTS),
    {"candidates": [{"finishReason": "STOP"}], "usageMetadata": TOLD},
]


def parts_of(answer: object, **options: Any) -> tuple[list[Any], Filled, list[ev.Custom]]:
    """Fill a reply; return its parts with their metadata, its end, and the facts kept."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        session.user("go")
        with session.assistant("p/m") as reply:
            end = reply.fill(answer, **options)
            for each in end.calls:
                each.fail("no")
            if reply.is_open:
                reply.finish("tool-calls")
        events = [each.event for each in session.events()]
        texts: dict[str, str] = {}
        about: dict[str, Any] = {}
        for event in events:
            if isinstance(event, ev.PartDelta):
                texts[event.part] = texts.get(event.part, "") + event.text
            elif isinstance(event, ev.PartEnded) and event.metadata:
                about[event.part] = json.loads(event.metadata)
            elif isinstance(event, ev.ToolCompleted):
                about[event.part] = session.text(event.output)
        found: list[Any] = []
        for event in events:
            if isinstance(event, ev.PartStarted):
                text, more = texts.get(event.part, ""), about.get(event.part)
                match event.kind:
                    case Text() if event.message == reply.id:
                        found.append(("text", text, more))
                    case Reasoning():
                        found.append(("reasoning", text, more))
                    case Tool() as tool:
                        said = None if tool.metadata is None else json.loads(tool.metadata)
                        found.append(("tool", tool.call, tool.tool, json.loads(text or "{}"), said, more))
                    case File() as file:
                        found.append(("file", file.mime, session.text(file.url)))
                    case _:
                        pass
        return found, end, [event for event in events if isinstance(event, ev.Custom)]


EXPECTED: dict[str, tuple[list[Any], tuple[int, ...], list[str]]] = {
    "anthropic": (
        [
            ("reasoning", "Hm", {"anthropic": {"signature": "S"}}),
            ("reasoning", "", {"anthropic": {"redactedData": "D"}}),
            ("tool", "srv", "web_search", {"q": "x"}, None, json.dumps(RESULT["content"], separators=(",", ":"))),
            ("text", "Hello", {"anthropic": {"citations": [{"url": "u"}]}}),
            ("tool", "t", "ls", {"p": 1}, None, None),
            ("tool", "u", "cat", {}, None, None),
        ],
        (5, 9, 0),
        ["anthropic.container_upload"],
    ),
    "openai-responses": (
        [
            ("reasoning", "Hm", {"openai": {"itemId": "rs", "reasoningEncryptedContent": "E"}}),
            ("tool", "ws", "web_search", WS["action"], {"openai": {"itemId": "ws"}}, ""),
            ("text", "Hello", {"openai": {"itemId": "msg", "annotations": [{"url": "u"}], "phase": "final"}}),
            ("tool", "t", "ls", {"p": 1}, {"openai": {"itemId": "fc"}}, None),
            ("tool", "u", "cat", {}, {"openai": {"itemId": "fd"}}, None),
        ],
        (5, 9, 2),
        [],
    ),
    "gemini": (
        [
            ("reasoning", "Hm", None),
            (
                "tool",
                "code_0",
                "code_execution",
                GEMINI_PARTS[1]["executableCode"],
                None,
                '{"outcome":"OUTCOME_OK","output":"2"}',
            ),
            ("text", "Hello", None),
            ("tool", "call_1", "ls", {"p": 1}, {"google": {"thoughtSignature": "U2ln"}}, None),
            ("tool", "u", "cat", {}, None, None),
            ("file", "image/png", "data:image/png;base64,AA+/"),
        ],
        (5, 9, 2),
        [],
    ),
}
ANSWERS: list[tuple[str, object]] = [
    ("anthropic", ANTHROPIC),
    ("anthropic", ANTHROPIC_WHOLE),
    ("openai-responses", RESPONSES),
    ("openai-responses", RESPONSES_WHOLE),
    ("gemini", GEMINI),
    ("gemini", GEMINI_WHOLE),
]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(("api", "answer"), ANSWERS)
def test_an_answer_is_its_parts(api: str, answer: object, named: bool) -> None:
    """Texts, thoughts, ciphers, calls, provider's results, files, tokens: none is dropped."""
    parts, tokens, kept = EXPECTED[api]
    found, end, customs = parts_of(answer, **({"api": api} if named else {}))
    assert found == parts
    assert (end.reason, [each.call_id for each in end.calls][-1]) == ("tool-calls", "u")
    assert end.usage is not None
    assert (end.usage.tokens.input, end.usage.tokens.output, end.usage.tokens.cache_read) == tokens
    assert [custom.namespace for custom in customs] == kept


@pytest.mark.parametrize(
    ("sent", "recorded"),
    [
        (1.13e-05, "0.0000113"),
        (0.1 + 0.2, "0.3"),
        (0.000021 + 0.0000000000000002, "0.0000210000000002"),
        (123456.789012345, "123456.789012345"),
        (7, "7"),
    ],
)
def test_a_cost_that_a_server_sends_is_recorded(sent: float, recorded: str) -> None:
    """OpenRouter prices its calls, in Responses as well; what adding floats leaves is no cost."""
    usage = {"input_tokens": 7, "output_tokens": 2, "cost": sent}
    _, end, _ = parts_of({**RESPONSES_WHOLE, "usage": usage})
    assert end.usage is not None
    assert str(end.usage.cost) == str(Decimal(recorded))


@pytest.mark.parametrize(
    ("chunk", "code"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "overloaded_error"),
        (
            {
                "type": "response.failed",
                "response": {"status": "failed", "error": {"code": "server_error", "message": "busy"}},
            },
            "server_error",
        ),
        ({"error": {"code": 503, "status": "UNAVAILABLE", "message": "busy"}}, "UNAVAILABLE"),
    ],
)
@pytest.mark.parametrize("places", [0, 1, 4])
def test_an_error_of_the_provider_is_raised(chunk: Chunk, code: str, places: int) -> None:
    """An error in a stream is a `StreamError` with the provider's words, at any place."""
    before = {"overloaded_error": ANTHROPIC, "server_error": RESPONSES, "UNAVAILABLE": GEMINI}[code]
    with pytest.raises(StreamError, match="busy") as caught:
        parts_of([*before[:places], chunk])
    assert caught.value.code == code


def test_the_api_is_known_or_named() -> None:
    """An API that is not read is refused by name; empty chunks are held, not for ever."""
    with pytest.raises(UnknownStreamError, match="Bedrock Converse"):
        parts_of([{}, {"messageStart": {"role": "assistant"}}])
    with pytest.raises(UnknownStreamError, match="not known"):
        parts_of([Chunk() for _ in range(9)])
    with pytest.raises(ArgumentValueError, match="anthropic"):
        parts_of([], api="bedrock")
    with pytest.raises(eventlog.CallError, match="AsyncReply"):
        parts_of(_later())


async def _later() -> Any:
    yield {}
