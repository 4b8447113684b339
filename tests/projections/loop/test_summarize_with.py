"""Summaries by the loop's own callable, of any API, blocking or for asyncio."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

import httpx2 as httpx
import pytest

import eventlog
from eventlog.errors import RequestTooLargeError, SummarizerError, SummarizerRefusedError
from eventlog.values import Limits, Tokens, Usage
from projections import ModelView
from projections.loop import ContextWindow, ModelRequest, summarize_with
from projections.view.neutral import NeutralMessage, Text
from projections.window import SummaryRequest, ToolCalled
from projections.window.compaction.summarizer import pieces

Chunk = dict[str, Any]
REQUEST = SummaryRequest("Write notes.", (NeutralMessage("user", (Text("hello"),)),), "Now the notes.", tokens=7)
CHAT: list[Chunk] = [
    {"choices": [{"delta": {"reasoning_content": "Hm"}}]},
    {"choices": [{"delta": {"content": "No"}}]},
    {"choices": [{"delta": {"content": "tes"}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
]
ANSWERS: dict[str, list[Chunk]] = {
    "chat": CHAT,
    "responses": [
        {"type": "response.output_text.delta", "item_id": "m", "content_index": 0, "delta": "Notes"},
        {"type": "response.completed", "response": {"usage": {"input_tokens": 5, "output_tokens": 2}}},
    ],
    "anthropic": [
        {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Notes"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ],
    "gemini": [
        {
            "candidates": [{"content": {"parts": [{"text": "Notes"}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2},
        }
    ],
}


class StatusError(Exception):
    """An error of a client."""

    def __init__(self, status: int, text: str = "no") -> None:
        super().__init__(text)
        self.status_code = status


class Model:
    """Answers one request after another; an exception is raised in its place."""

    def __init__(self, *answers: Sequence[Chunk | Exception]) -> None:
        self.answers = [*answers]
        self.asked: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> Iterator[Chunk]:
        """Yield the chunks of the next answer."""
        self.asked.append(request)
        for chunk in self.answers.pop(0):
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk


def blocking(model: Model) -> Callable[[ModelRequest], object]:
    """The model as it is."""
    return model


def of_asyncio(model: Model) -> Callable[[ModelRequest], object]:
    """The model as a coroutine function."""

    async def ask(request: ModelRequest) -> AsyncIterator[Chunk]:
        async def chunks() -> AsyncIterator[Chunk]:
            for chunk in model(request):
                yield chunk

        return chunks()

    return ask


def _called(ask: Callable[[ModelRequest], object], request: ModelRequest) -> object:
    return ask(request)


def returning_a_coroutine(model: Model) -> Callable[[ModelRequest], object]:
    """The model as a plain function that gives a coroutine, as a client's own method is."""
    return partial(_called, of_asyncio(model))


def returning_a_stream(model: Model) -> Callable[[ModelRequest], object]:
    """The model as a plain function that gives an async iterable."""

    async def chunks(request: ModelRequest) -> AsyncIterator[Chunk]:
        for chunk in model(request):
            yield chunk

    return partial(_called, chunks)


WAYS = pytest.mark.parametrize("way", [blocking, of_asyncio, returning_a_coroutine, returning_a_stream])


def summary(model: Model, way: Callable[[Model], Callable[[ModelRequest], object]]) -> list[Any]:
    """The pieces of a summary."""
    return [*pieces(summarize_with(way(model), sleep=lambda _seconds: None, attempts=3), REQUEST)]


@WAYS
@pytest.mark.parametrize("api", ANSWERS)
def test_a_summary_of_any_api_is_its_text_and_its_tokens(api: str, way: Any) -> None:
    """The model gets the conversation and the prompt, and no tools; reasoning is left out."""
    model = Model([*ANSWERS[api]])
    found = summary(model, way)
    assert "".join(piece for piece in found if isinstance(piece, str)) == "Notes"
    (used,) = [piece for piece in found if isinstance(piece, Usage)][-1:]
    assert (used.tokens.input, used.tokens.output) == (5, 2)
    (asked,) = model.asked
    texts = [part.text for message in asked.messages for part in message.parts if isinstance(part, Text)]
    assert (texts, asked.system, asked.tools, asked.format) == (
        ["hello", "Now the notes."],
        ("Write notes.",),
        None,
        None,
    )


@pytest.mark.parametrize("is_later", [False, True])
def test_a_whole_answer_is_a_summary(is_later: bool) -> None:
    """A function and a coroutine function may return one whole answer in place of a stream."""
    whole = {"choices": [{"message": {"role": "assistant", "content": "Notes"}, "finish_reason": "stop"}]}

    async def later(_request: ModelRequest) -> Chunk:
        return whole

    found = [*pieces(summarize_with(later if is_later else lambda _request: whole), REQUEST)]
    assert [piece for piece in found if isinstance(piece, str)] == ["Notes"]


@WAYS
def test_a_failure_before_any_text_is_asked_again(way: Any) -> None:
    """A busy server and a broken connection pass; the summary is of the next answer."""
    model = Model([StatusError(503)], [ConnectionResetError("gone")], [*CHAT])
    assert "No" in summary(model, way)
    assert len(model.asked) == 3


FAILURES: list[tuple[list[list[Chunk | Exception]], type[Exception], int]] = [
    ([[StatusError(503)]] * 3, SummarizerError, 3),
    ([[StatusError(401)]], SummarizerRefusedError, 1),
    ([[StatusError(400, "prompt is too long: 9 > 8")]], RequestTooLargeError, 1),
    ([[StatusError(413, "Limit 6000 tokens per minute (TPM)")]], SummarizerRefusedError, 1),
    ([[{"error": {"code": "context_length_exceeded", "message": "x"}}]], RequestTooLargeError, 1),
    ([[CHAT[1], ConnectionResetError("gone")]], SummarizerError, 1),
    ([[CHAT[1]]], SummarizerError, 1),
    ([[{"choices": [{"delta": {"content": "No"}, "finish_reason": "length"}]}]], SummarizerRefusedError, 1),
    ([[{"messageStart": {}}]], SummarizerRefusedError, 1),
]


@WAYS
@pytest.mark.parametrize(("answers", "error", "asked"), FAILURES)
def test_a_failure_is_told_by_its_kind(answers: list[Any], error: type[Exception], asked: int, way: Any) -> None:
    """A summary refused, too large, cut or broken off is the error of its kind."""
    model = Model(*answers)
    with pytest.raises(error) as caught:
        summary(model, way)
    assert type(caught.value) is error
    assert len(model.asked) == asked


@WAYS
def test_a_tool_that_is_called_is_told(way: Any) -> None:
    """The window refuses a summary whose model calls a tool."""
    call = {"index": 0, "id": "c", "function": {"name": "read", "arguments": "{}"}}
    model = Model([{"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}])
    assert ToolCalled("read") in summary(model, way)


@WAYS
def test_a_window_compacts_with_it(way: Any) -> None:
    """The summary stands in the view, and its tokens are recorded."""
    text = "## Goal\n- " + "find the fault in the parser " * 20
    chunks: list[Chunk] = [
        {"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]},
        {"usage": {"prompt_tokens": 50, "completion_tokens": 20}, "choices": []},
    ]
    with eventlog.open("memory:") as store:
        session = store.create_session()
        for turn in range(6):
            session.user(f"question {turn} " + "about a long matter " * 200)
            with session.assistant("p/m") as reply:
                reply.add_text(f"answer {turn}")
                reply.finish()
        window = ContextWindow(
            session, summarizer=summarize_with(way(Model(chunks))), limits=Limits(context=40_000, output=4_000)
        )
        assert window.compact().completed
        said = [
            part.text for message in ModelView.of(session).messages for part in message.parts if isinstance(part, Text)
        ]
        assert any(each.startswith("## Goal\n- find the fault") for each in said)
        used = [
            each.event.usage.tokens
            for each in session.events()
            if isinstance(each.event, eventlog.events.UsageRecorded)
        ]
        assert used == [Tokens(50, 20)]


class Answers(BaseHTTPRequestHandler):
    """Refuses every other request; connections stay open."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        """Answer with a text, or a failure that passes."""
        self.rfile.read(int(self.headers["content-length"]))
        self.asked.append(self.path)
        message = {"role": "assistant", "content": "Notes"}
        body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(503 if len(self.asked) % 2 else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def server() -> Generator[str]:
    """The address of a server that answers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as found:
        thread = Thread(target=found.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{found.server_port}/"
        finally:
            found.shutdown()
            thread.join()


def test_a_client_of_asyncio_serves_all_summaries_of_blocking_code() -> None:
    """Connections belong to one event loop: that of all attempts and all summaries."""
    with server() as address:
        client = httpx.AsyncClient()

        async def ask(_request: ModelRequest) -> Any:
            return (await client.post(address, json={})).raise_for_status().json()

        async def close(_request: SummaryRequest) -> str:
            await client.aclose()
            return ""

        summarizer = summarize_with(ask, sleep=lambda _seconds: None)
        try:
            found = [[*pieces(summarizer, REQUEST)] for _ in range(2)]
        finally:
            assert not [*pieces(close, REQUEST)]
    assert (found, len(Answers.asked)) == ([["Notes"], ["Notes"]], 4)
