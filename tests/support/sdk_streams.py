"""Streams of providers' packages, over a transport that plays recorded bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager
from typing import Any

import anthropic
import httpx2 as httpx
import openai

PACKAGES = {
    "openai_chat_sse": "openai-chat",
    "openai_responses_sse": "openai-responses",
    "anthropic_sse": "anthropic",
}
"""The API of each kind of recorded stream."""
_ASKED: list[Any] = [{"role": "user", "content": "hi"}]


def _played(data: bytes) -> httpx.MockTransport:
    return httpx.MockTransport(
        lambda _request: httpx.Response(200, headers={"content-type": "text/event-stream"}, content=data)
    )


def synchronous(kind: str, data: bytes) -> Iterator[Any]:
    """Yield the objects of the blocking client for a recorded stream."""
    with httpx.Client(transport=_played(data)) as http:
        if kind == "anthropic_sse":
            claude = anthropic.Anthropic(api_key="k", http_client=http, max_retries=0)
            yield from claude.messages.create(model="m", max_tokens=9, messages=_ASKED, stream=True)
        elif kind == "openai_responses_sse":
            client = openai.OpenAI(api_key="k", http_client=http, max_retries=0)
            yield from client.responses.create(model="m", input="hi", stream=True)
        else:
            client = openai.OpenAI(api_key="k", http_client=http, max_retries=0)
            yield from client.chat.completions.create(model="m", messages=_ASKED, stream=True)


async def asynchronous(kind: str, data: bytes) -> AsyncIterator[Any]:
    """Yield the objects of the client for asyncio."""
    async with httpx.AsyncClient(transport=_played(data)) as http:
        if kind == "anthropic_sse":
            claude = anthropic.AsyncAnthropic(api_key="k", http_client=http, max_retries=0)
            async for event in await claude.messages.create(model="m", max_tokens=9, messages=_ASKED, stream=True):
                yield event
        elif kind == "openai_responses_sse":
            client = openai.AsyncOpenAI(api_key="k", http_client=http, max_retries=0)
            async for each in await client.responses.create(model="m", input="hi", stream=True):
                yield each
        else:
            client = openai.AsyncOpenAI(api_key="k", http_client=http, max_retries=0)
            async for chunk in await client.chat.completions.create(model="m", messages=_ASKED, stream=True):
                yield chunk


def helped(kind: str, data: bytes) -> Iterator[Any]:
    """Yield the events of a helper stream, which repeats each text."""
    with httpx.Client(transport=_played(data)) as http:
        managed: AbstractContextManager[Any]
        if kind == "anthropic_sse":
            claude = anthropic.Anthropic(api_key="k", http_client=http, max_retries=0)
            managed = claude.messages.stream(model="m", max_tokens=9, messages=_ASKED)
        elif kind == "openai_responses_sse":
            client = openai.OpenAI(api_key="k", http_client=http, max_retries=0)
            managed = client.responses.stream(model="m", input="hi")
        else:
            client = openai.OpenAI(api_key="k", http_client=http, max_retries=0)
            managed = client.chat.completions.stream(model="m", messages=_ASKED)
        with managed as events:
            yield from events
