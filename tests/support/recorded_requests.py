"""Answered requests of recorded exchanges: cassettes of real APIs, and OpenCode's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from tests.request_rules.common import Object, is_object
from tests.support.parity import scenarios
from tests.support.provider_forms import Request
from tests.support.shared import shared_path

APIS = (
    ("api.anthropic.com/v1/messages", "anthropic", ""),
    ("openai.azure.com", "chat", "azure"),
    ("api.groq.com", "chat", "groq"),
    ("openrouter.ai/api/v1/chat", "chat", "openrouter"),
    ("localhost:8080", "chat", "llama.cpp"),
    ("api.openai.com/v1/chat", "chat", "openai"),
    ("/chat/completions", "chat", "openai-compatible"),
    ("api.openai.com/v1/responses", "responses", ""),
)
"""By a part of the address: the API, and the server that speaks Chat Completions."""


def recorded_requests() -> Iterator[Request]:
    """Every request with a body that was answered with status 200."""
    for path in sorted(shared_path("data").glob("*cassettes*/*.y*ml")):
        yield from _cassette(path)
    shared_path("parity")
    for scenario in scenarios():
        for pair in scenario.pairs():
            yield Request("chat", "openai-compatible", {"model": pair.model, "messages": pair.sent})


def _cassette(path: Path) -> Iterator[Request]:
    document: Any = yaml.load(path.read_text("utf-8"), Loader=yaml.CSafeLoader)
    for exchange in document.get("interactions") or document.get("http_interactions"):
        request: Object = exchange["request"]
        answer: Object = exchange["response"]
        code = str(answer.get("code") or answer.get("status"))
        body: Any = request.get("parsed_body") or request.get("body")
        if is_object(body) and "string" in body:
            body = body["string"]
        if isinstance(body, str):
            body = json.loads(body or "null")
        address: str = request.get("url") or request["uri"]
        if body and "200" in code:
            yield from [Request(api, server, body) for part, api, server in APIS if part in address][:1]


def sound_request(api: str, server: str = "") -> Request:
    """A sound request that ends with a call's result, recorded where there is a recording."""
    if api in DOCUMENTED:
        return Request(api, server, deepcopy(DOCUMENTED[api]))
    name, kind = ENDS[api]
    for one in recorded_requests():
        texts = [json.dumps(item) for item in one.body.get(name, ()) if one.api == api and one.server in ("", "openai")]
        ends = [kind in text for text in texts].count(True) == 1 and kind in texts[-1]
        if ends and (api != "anthropic" or "signature" in texts[-2]):
            return Request(api, server, _taken_by(server, one.body))
    raise AssertionError(f"no recorded request of {api}")


def _taken_by(server: str, body: dict[str, Any]) -> dict[str, Any]:
    """A body as a server without recordings takes it: short ids, a thought for DeepSeek."""
    messages: list[dict[str, Any]] = body.get("messages", [])
    calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    text = json.dumps(body)
    for number, name in enumerate(calls if server else ()):
        text = text.replace(name, f"abcdefg{number:02}")
    body = json.loads(text)
    for message in body.get("messages", ()):
        if server == "deepseek" and message["role"] == "assistant":
            message["reasoning_content"] = "hm"
    return body


ENDS = {
    "chat": ("messages", "tool_call_id"),
    "responses": ("input", "function_call_output"),
    "anthropic": ("messages", "tool_result"),
}
"""The list of an API, and a word that its results have."""
DOCUMENTED: dict[str, dict[str, Any]] = {
    "gemini": {
        "model": "gemini-3-pro",
        "contents": [
            {"role": "user", "parts": [{"text": "Which flights?"}]},
            {
                "role": "model",
                "parts": [
                    {
                        "functionCall": {"name": "check_flight", "args": {"flight": "AA100"}, "id": "f1"},
                        "thoughtSignature": "c2ln",
                    }
                ],
            },
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "check_flight", "response": {"status": "late"}, "id": "f1"}}],
            },
        ],
    },
    "ai_sdk": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Which flights?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool-call", "toolCallId": "1", "toolName": "check_flight", "input": {"flight": "AA100"}}
                ],
            },
            {
                "role": "tool",
                "content": [
                    {
                        "type": "tool-result",
                        "toolCallId": "1",
                        "toolName": "check_flight",
                        "output": {"type": "text", "value": "late"},
                    }
                ],
            },
        ],
    },
}
"""Requests as the documentation has them, of APIs without recorded requests."""
