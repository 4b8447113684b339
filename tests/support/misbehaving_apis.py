"""Answers of the four APIs, right and wrong, as the packages read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import anthropic
import httpx2 as httpx
import openai
from google.genai import errors as google

from eventlog.values import Json
from projections.loop import ModelRequest
from projections.requests.anthropic import anthropic_request
from projections.requests.gemini import gemini_request
from projections.requests.openai import chat_messages
from projections.requests.openai_responses import responses_request
from tests.request_rules import anthropic as anthropic_rules
from tests.request_rules import gemini, openai_chat, openai_responses

Chunk = dict[str, Any]
REFUSALS = (openai.APIStatusError, anthropic.APIStatusError, google.APIError)
"""How clients say that a request was refused."""


class Answer(NamedTuple):
    """A thought with state of the provider's own, a text, and calls: (id, name, arguments)."""

    number: int
    text: str
    calls: tuple[tuple[str, str, Json], ...] = ()


class Refused(NamedTuple):
    """Status, code and words of a refusal."""

    status: int
    code: str
    text: str


class Api(NamedTuple):
    """One API: the request of a view, its faults, the chunks of an answer, and its refusals."""

    body: Callable[[ModelRequest], Chunk]
    faults: Callable[[Chunk], list[str]]
    chunks: Callable[[Answer], list[Chunk]]
    error: Chunk
    """A failure inside a stream."""
    too_large: Chunk
    """A refusal for the size inside a stream."""
    first: int
    """The chunk that comes too late in an answer in the wrong order; -1: the last, too early."""
    state: str
    """Found in a request that has state of the provider's own; "" if it has no such state."""
    refusals: dict[str, Refused]
    """By kind: media, opaque-state, overflow."""
    ask: Callable[[httpx.Client], Callable[[], Iterator[Any]]] | None = None
    """A stream of the package's own client; None: chunks are taken as they are."""


# -- Chat Completions ------------------------------------------------------------------------------


def _chat_body(request: ModelRequest) -> Chunk:
    return {"messages": chat_messages(request.messages, request.system)}


def _chat(answer: Answer) -> list[Chunk]:
    def chunk(reason: str | None = None, **delta: Any) -> Chunk:
        return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    calls = [
        chunk(tool_calls=[{"index": at, "id": id, "function": {"name": name, "arguments": arguments}}])
        for at, (id, name, arguments) in enumerate(answer.calls)
    ]
    half = len(answer.text) // 2
    return [
        chunk(reasoning_content="hm"),
        chunk(content=answer.text[:half]),
        chunk(content=answer.text[half:]),
        *calls,
        chunk("tool_calls" if calls else "stop"),
        {"object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}},
    ]


def _chat_stream(http: httpx.Client) -> Callable[[], Iterator[Any]]:
    client = openai.OpenAI(api_key="k", http_client=http, max_retries=0)
    return lambda: iter(client.chat.completions.create(model="m", messages=[], stream=True))


# -- Responses -------------------------------------------------------------------------------------


def _responses_body(request: ModelRequest) -> Chunk:
    return responses_request(request.messages, request.system)


def _responses(answer: Answer) -> list[Chunk]:
    number, half = answer.number, len(answer.text) // 2
    thought: Chunk = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
    message: Chunk = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": []}
    chunks: list[Chunk] = [
        {"type": "response.created", "response": {"object": "response", "output": []}},
        {"type": "response.output_item.added", "item": thought},
        {"type": "response.output_item.done", "item": {**thought, "encrypted_content": "c1pher"}},
        {"type": "response.output_item.added", "item": message},
        {"type": "response.output_text.delta", "item_id": message["id"], "content_index": 0, "delta": answer.text[:half]},
        {"type": "response.output_text.delta", "item_id": message["id"], "content_index": 0, "delta": answer.text[half:]},
        {"type": "response.output_item.done", "item": message},
    ]  # fmt: skip
    for at, (id, name, arguments) in enumerate(answer.calls):
        item = {"type": "function_call", "id": f"fc_{number}_{at}", "call_id": id, "name": name, "arguments": ""}
        chunks += [
            {"type": "response.output_item.added", "item": item},
            {"type": "response.function_call_arguments.delta", "item_id": item["id"], "delta": arguments},
            {"type": "response.output_item.done", "item": {**item, "arguments": arguments}},
        ]
    usage = {"input_tokens": 9, "output_tokens": 2}
    return [*chunks, {"type": "response.completed", "response": {"object": "response", "output": [], "usage": usage}}]


def _responses_stream(http: httpx.Client) -> Callable[[], Iterator[Any]]:
    client = openai.OpenAI(api_key="k", http_client=http, max_retries=0)
    return lambda: iter(client.responses.create(model="m", input="hi", stream=True))


# -- Messages --------------------------------------------------------------------------------------


def _anthropic_body(request: ModelRequest) -> Chunk:
    return anthropic_request(request.messages, request.system)


def _anthropic(answer: Answer) -> list[Chunk]:
    half = len(answer.text) // 2
    blocks: list[tuple[Chunk, list[Chunk]]] = [
        (
            {"type": "thinking", "thinking": ""},
            [{"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "s1gned"}],
        ),
        (
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": piece} for piece in (answer.text[:half], answer.text[half:])],
        ),
    ]
    for id, name, arguments in answer.calls:
        called: Chunk = {"type": "tool_use", "id": id, "name": name, "input": {}}
        blocks.append((called, [{"type": "input_json_delta", "partial_json": arguments}]))
    chunks: list[Chunk] = [
        {"type": "message_start", "message": {"type": "message", "role": "assistant", "content": []}}
    ]
    for index, (block, deltas) in enumerate(blocks):
        chunks.append({"type": "content_block_start", "index": index, "content_block": block})
        chunks += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        chunks.append({"type": "content_block_stop", "index": index})
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use" if answer.calls else "end_turn"}}
    return [*chunks, {**end, "usage": {"input_tokens": 9, "output_tokens": 2}}, {"type": "message_stop"}]


def _anthropic_stream(http: httpx.Client) -> Callable[[], Iterator[Any]]:
    client = anthropic.Anthropic(api_key="k", http_client=http, max_retries=0)
    return lambda: iter(client.messages.create(model="m", max_tokens=9, messages=[], stream=True))


# -- Gemini ----------------------------------------------------------------------------------------


def _gemini_body(request: ModelRequest) -> Chunk:
    return gemini_request(request.messages, request.system)


def _gemini(answer: Answer) -> list[Chunk]:
    def chunk(*parts: Chunk, **more: Any) -> Chunk:
        return {"candidates": [{"content": {"role": "model", "parts": [*parts]}, **more}]}

    half = len(answer.text) // 2
    calls = [
        {"functionCall": {"id": id, "name": name, "args": json.loads(arguments)}, "thoughtSignature": "s1gned"}
        for id, name, arguments in answer.calls
    ]
    return [
        {"usageMetadata": {"promptTokenCount": 9}},
        chunk({"text": "hm", "thought": True, "thoughtSignature": "s1gned"}),
        chunk({"text": answer.text[:half]}),
        chunk({"text": answer.text[half:]}, *calls, finishReason="STOP"),
    ]


_OPENAI = {
    "media": Refused(400, "invalid_image", "You uploaded an unsupported image."),
    "opaque-state": Refused(400, "invalid_encrypted_content", "The encrypted content c1pher could not be verified."),
    "overflow": Refused(400, "context_length_exceeded", "This model's maximum context length is 9 tokens."),
}
APIS: dict[str, Api] = {
    "openai-chat": Api(
        _chat_body,
        openai_chat.broken,
        _chat,
        {"error": {"message": "the upstream is down", "code": 502}},
        {"error": {"message": "too long", "code": "context_length_exceeded"}},
        -1,
        "",
        _OPENAI,
        _chat_stream,
    ),
    "openai-responses": Api(
        _responses_body,
        openai_responses.broken,
        _responses,
        {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "try again"}}},
        {"type": "error", "code": "context_length_exceeded", "message": "Your input exceeds the context window."},
        3,
        "c1pher",
        _OPENAI,
        _responses_stream,
    ),
    "anthropic": Api(
        _anthropic_body,
        anthropic_rules.broken,
        _anthropic,
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8"}},
        5,
        "s1gned",
        {
            "media": Refused(400, "invalid_request_error", "Could not process image"),
            "opaque-state": Refused(400, "invalid_request_error", "Invalid `signature` in `thinking` block"),
            "overflow": Refused(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
        },
        _anthropic_stream,
    ),
    "gemini": Api(
        _gemini_body,
        gemini.broken,
        _gemini,
        {"error": {"code": 503, "status": "UNAVAILABLE", "message": "The model is overloaded."}},
        {"error": {"code": 400, "message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}},
        0,
        "s1gned",
        {
            "media": Refused(400, "INVALID_ARGUMENT", "Provided image is not valid."),
            "opaque-state": Refused(400, "INVALID_ARGUMENT", "Corrupted thought signature."),
            "overflow": Refused(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens"),
        },
    ),
}  # fmt: skip
