"""Chunks of Google's package fill a reply as the wire's do, blocking and for asyncio."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from google import genai
from google.genai import types

from tests.eventlog.streams.test_apis import GEMINI, GEMINI_WHOLE, parts_of
from tests.eventlog.streams.test_recorded_streams import chunks_in, filled_in_a_task
from tests.support.shared import shared_path

Chunk = dict[str, Any]


def client(chunks: list[Chunk]) -> Any:
    """A client over a transport that plays these chunks."""
    data = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    headers = {"content-type": "text/event-stream"}
    transport = httpx.MockTransport(lambda _request: httpx.Response(200, headers=headers, content=data))
    options = types.HttpOptions(
        httpx_client=httpx.Client(transport=transport), httpx_async_client=httpx.AsyncClient(transport=transport)
    )
    return genai.Client(api_key="k", http_options=options)


def recorded() -> list[Chunk]:
    """The chunks of a recorded stream."""
    found = shared_path("data", "prism_sse", "tests__Fixtures__gemini__stream-basic-text-1.sse")
    return chunks_in(found.read_bytes())


@pytest.mark.parametrize("chunks", [GEMINI, [GEMINI_WHOLE], None], ids=["stream", "whole", "recorded"])
def test_the_objects_of_the_package_are_read_as_the_wire_is(chunks: list[Chunk] | None) -> None:
    """Texts, thoughts, calls, files, signatures and tokens are those of the chunks."""
    chunks = recorded() if chunks is None else chunks
    parts, end, kept = parts_of(chunks)

    def blocking() -> Iterator[Any]:
        yield from client(chunks).models.generate_content_stream(model="gemini-3", contents="go")

    found, other, others = parts_of(blocking())
    assert (found, other.usage, other.reason, others) == (parts, end.usage, end.reason, kept)

    async def later() -> AsyncIterator[Any]:
        asked = client(chunks).aio.models.generate_content_stream(model="gemini-3", contents="go")
        async for chunk in await asked:
            yield chunk

    _, _, ended = filled_in_a_task(later)
    assert ended is not None
    assert (ended.usage, ended.reason) == (end.usage, end.reason)


def test_a_whole_answer_of_the_package() -> None:
    """A whole answer of `generate_content` fills a reply at once."""
    answer = types.GenerateContentResponse.model_validate(GEMINI_WHOLE)
    assert parts_of(answer)[0] == parts_of(GEMINI_WHOLE)[0]
