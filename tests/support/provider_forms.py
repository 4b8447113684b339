"""Checks of a view in every provider's form: official types and providers' rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from anthropic.types import (
    BashCodeExecutionToolResultBlockParam,
    CodeExecutionToolResultBlockParam,
    DocumentBlockParam,
    ImageBlockParam,
    MessageParam,
    RedactedThinkingBlockParam,
    ServerToolUseBlockParam,
    TextBlockParam,
    TextEditorCodeExecutionToolResultBlockParam,
    ThinkingBlockParam,
    ToolResultBlockParam,
    ToolSearchToolResultBlockParam,
    ToolUseBlockParam,
    WebFetchToolResultBlockParam,
    WebSearchToolResultBlockParam,
)
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputParam
from pydantic import ConfigDict, TypeAdapter

from projections.requests.ai_sdk import model_messages
from projections.requests.anthropic import anthropic_request
from projections.requests.gemini import gemini_request
from projections.requests.openai import chat_messages
from projections.requests.openai_responses import responses_request
from projections.view.neutral import NeutralMessage
from tests.support.provider_rules import anthropic_faults, model_message_faults, responses_faults
from tests.support.server_rules import SERVERS, chat_faults, gemini_faults

STRICT = ConfigDict(extra="forbid")
ANTHROPIC: TypeAdapter[Any] = TypeAdapter(list[MessageParam], config=STRICT)
BLOCKS: TypeAdapter[Any] = TypeAdapter(
    list[
        TextBlockParam
        | ImageBlockParam
        | DocumentBlockParam
        | ThinkingBlockParam
        | RedactedThinkingBlockParam
        | ToolUseBlockParam
        | ToolResultBlockParam
        | ServerToolUseBlockParam
        | WebSearchToolResultBlockParam
        | WebFetchToolResultBlockParam
        | CodeExecutionToolResultBlockParam
        | BashCodeExecutionToolResultBlockParam
        | TextEditorCodeExecutionToolResultBlockParam
        | ToolSearchToolResultBlockParam
    ],
    config=STRICT,
)
"""A request's blocks without the response's, whose type admits any members."""
SYSTEM: TypeAdapter[Any] = TypeAdapter(list[TextBlockParam], config=STRICT)
RESPONSES: TypeAdapter[Any] = TypeAdapter(ResponseInputParam, config=STRICT)
CHAT: TypeAdapter[Any] = TypeAdapter(list[ChatCompletionMessageParam])


def checked(adapter: TypeAdapter[Any], value: object) -> None:
    """Validate a whole value, also what pydantic leaves to be iterated."""
    layer: list[Any] = [adapter.validate_python(value)]
    while layer:
        found = layer.pop()
        if isinstance(found, dict):
            layer.extend(cast("dict[str, Any]", found).values())
        elif isinstance(found, list) or hasattr(found, "__next__"):
            layer.extend(cast("Iterable[Any]", found))


def check(messages: Sequence[NeutralMessage], system: Sequence[str] = ()) -> None:
    """Check all promises about a view in every form."""
    request = anthropic_request(messages, system)
    assert anthropic_faults(request, whole=False) == []
    checked(ANTHROPIC, request["messages"])
    for message in request["messages"]:
        checked(BLOCKS, message["content"])
    checked(SYSTEM, request["system"])
    turned = anthropic_request(messages, prefill=False)["messages"]
    assert not turned or turned[-1]["role"] == "user"

    responses = responses_request(messages, system)
    assert responses_faults(responses) == []
    checked(RESPONSES, responses["input"])

    model = model_messages(messages, system)
    assert model_message_faults(model) == []

    for server in SERVERS:
        assert chat_faults(chat_messages(messages, system, server=server), server) == [], server
    for ids in (True, False):
        assert gemini_faults(gemini_request(messages, system, ids=ids)) == []
    stateless = responses_request(messages, system, store=False)
    assert responses_faults(stateless) == []
    assert all(item.get("encrypted_content") for item in stateless["input"] if item["type"] == "reasoning")
    assert anthropic_faults(anthropic_request(messages, system, cache="prefix"), whole=False) == []
