"""The summariser over HTTP, against a local server that speaks the protocol."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from eventlog.errors import CallError, RequestTooLargeError, SummarizerError, SummarizerRefusedError
from eventlog.values import Model, Tokens, Usage
from projections.loop.streaming.chat_stream import pieces_of_stream
from projections.loop.streaming.http_summarizer import HttpSummarizer
from projections.view.neutral import Call, NeutralMessage, Result, Text
from projections.window.compaction.request import SummaryRequest
from projections.window.compaction.summarizer import Piece, ToolCalled, pieces
from tests.support.openai_server import Answer, OpenAIServer, ToolCall

KEY = "sk-very-secret"

REQUEST = SummaryRequest(
    "Write notes.",
    (
        NeutralMessage("user", (Text("Fix it \ud800 中文"),)),
        NeutralMessage("assistant", (Text("I look"), Call("c1", "read", '{"path":"a.py"}'))),
        NeutralMessage("tool", (Result("c1", "read", "print()"),)),
    ),
    "Now the notes.",
    Model("fake", "alpha"),
)


class Waits:
    """A sleep that records the durations and returns at once."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        """Record a wait."""
        self.seconds.append(seconds)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go to the local server, despite the machine's proxy settings."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def asked(server: OpenAIServer, **options: Any) -> list[Piece]:
    """All pieces of a summary by this server."""
    return list(pieces(HttpSummarizer(server.url, **options), REQUEST))


def test_streams_text_and_usage() -> None:
    """Pieces arrive as the server sends them, in any script, with their usage."""
    with OpenAIServer(Answer(["## Goal", "\n- 修复\u2028它 ", "🙂"], usage=(100, 7))) as server:
        found = asked(server)
    assert found == ["## Goal", "\n- 修复\u2028它 ", "🙂", Usage(Tokens(100, 7, total=107))]


def test_request_is_the_conversation_with_the_prompt_behind() -> None:
    """The endpoint gets system prompt, messages, prompt and key, and no tools."""
    with OpenAIServer(Answer("x")) as server:
        asked(server, api_key=KEY, body={"temperature": 0})
        request = server.asked[0]
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert "tools" not in request.body
    assert (request.body["model"], request.body["temperature"], request.body["stream"]) == ("alpha", 0, True)
    assert request.body["stream_options"] == {"include_usage": True}
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a.py"}'}}
    assert request.messages == [
        {"role": "system", "content": "Write notes."},
        {"role": "user", "content": "Fix it \ufffd 中文"},
        {"role": "assistant", "content": "I look", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "print()"},
        {"role": "user", "content": "Now the notes."},
    ]


def test_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a given key the environment's is sent; without one, none is."""
    with OpenAIServer(Answer("x")) as server:
        asked(server)
        monkeypatch.setenv("MY_KEY", f" {KEY}\n")
        asked(server, api_key_variable="MY_KEY")
        assert "authorization" not in server.asked[0].headers
        assert server.asked[1].headers["authorization"] == f"Bearer {KEY}"


def test_endpoint_that_does_not_stream() -> None:
    """A whole JSON answer of a server that does not stream is accepted."""
    with OpenAIServer(Answer("all of it", usage=(3, 4))) as server:
        assert asked(server, body={"stream": False}) == ["all of it", Usage(Tokens(3, 4, total=7))]


def test_tool_call_is_told() -> None:
    """A tool call of the model is reported once by the tool's name."""
    with OpenAIServer(Answer("I ", calls=(ToolCall("c", "bash", '{"command":"ls"}'),))) as server:
        assert asked(server) == ["I ", ToolCalled("bash")]
        assert asked(server, body={"stream": False}) == ["I ", ToolCalled("bash")]


def test_tries_again_and_waits_longer_each_time() -> None:
    """Temporary failures are tried again: 5xx with growing waits, 429 after `Retry-After`."""
    waits = Waits()
    busy = Answer(status=429, headers={"retry-after": "7"})
    long = Answer(status=503, headers={"retry-after": "9999"})
    dated = Answer(status=503, headers={"retry-after": "Mon, 02 Mar 2026 10:00:05 GMT"})
    with OpenAIServer(Answer(status=500), Answer(status=502), busy, long, dated, Answer("at last")) as server:
        now = datetime(2026, 3, 2, 10, 0, 0, tzinfo=UTC)
        found = asked(server, attempts=6, backoff=0.5, longest_wait=20, sleep=waits, now=lambda: now)
        assert len(server.asked) == 6
    assert found == ["at last"]
    first, second, *asked_for = waits.seconds
    assert 0.25 <= first <= 0.5 <= second <= 1.0
    assert asked_for == [7.0, 20, 5.0]


def test_gives_up_after_its_attempts() -> None:
    """An unreachable server ends in an error with the last status and the number of attempts."""
    waits = Waits()
    with OpenAIServer(Answer(status=503)) as server, pytest.raises(SummarizerError) as caught:
        asked(server, attempts=3, sleep=waits)
    assert (caught.value.status, caught.value.attempts, len(waits.seconds)) == (503, 3, 2)


def test_nobody_listens() -> None:
    """An unreachable server is tried again and ends in a typed error."""
    with OpenAIServer(Answer("x")) as server:
        gone = HttpSummarizer(server.url, attempts=2, sleep=Waits())
    with pytest.raises(SummarizerError) as caught:
        list(gone(REQUEST))
    assert caught.value.attempts == 2


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=413),
        Answer(status=400, error={"code": "context_length_exceeded", "message": "too long"}),
        Answer(status=400, error={"message": "prompt is too long: 213452 tokens > 200000 maximum"}),
    ],
    ids=["413", "code", "words"],
)
def test_refused_for_size(answer: Answer) -> None:
    """A refusal for size has its own error and is not retried."""
    with OpenAIServer(answer) as server:
        with pytest.raises(RequestTooLargeError) as caught:
            asked(server, sleep=Waits())
        assert len(server.asked) == 1
    assert caught.value.status == answer.status


def test_refused() -> None:
    """Any other refusal is not retried and reports status and provider code."""
    with OpenAIServer(Answer(status=401, error={"code": "invalid_api_key", "message": f"Wrong key: {KEY}"})) as server:
        with pytest.raises(SummarizerRefusedError, match=r"HTTP 401, invalid_api_key") as caught:
            asked(server, api_key=KEY)
        assert len(server.asked) == 1
    assert not isinstance(caught.value, RequestTooLargeError)


def test_broken_stream_is_a_failure() -> None:
    """A stream that breaks off is an error, never a short summary, and is not begun again."""
    with OpenAIServer(Answer(["a", "b", "c"], cut=2)) as server:
        summary = HttpSummarizer(server.url, sleep=Waits())(REQUEST)
        assert [next(summary), next(summary)] == ["a", "b"]
        with pytest.raises(SummarizerError):
            next(summary)
        assert len(server.asked) == 1


def test_stream_that_breaks_off_at_once_is_tried_again() -> None:
    """A stream that breaks before any text is retried."""
    with OpenAIServer(Answer("a", cut=0), Answer("whole")) as server:
        assert asked(server, sleep=Waits()) == ["whole"]


def said_before_silence(timeout: float) -> str:
    """Return the answer of a server that stops sending for longer than the timeout.

    "" if it was slower than that from the start.
    """
    hold = threading.Event()
    with OpenAIServer(Answer(["a", "b"], hold=hold)) as server:
        try:
            summary = HttpSummarizer(server.url, timeout=timeout)(REQUEST)
            said = ""
            with suppress(SummarizerError):
                said = str(next(summary))
            if said:
                with pytest.raises(SummarizerError, match="ReadTimeout"):
                    next(summary)
        finally:
            hold.set()
    return said


def test_silent_server_times_out() -> None:
    """A server that goes silent in mid-answer is an error after the timeout."""
    assert (said_before_silence(0.2) or said_before_silence(2.0) or said_before_silence(20.0)) == "a"


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_cut_answer_is_refused(reason: str) -> None:
    """A summary cut short by the model's limit is refused."""
    with OpenAIServer(Answer("half", finish=reason)) as server, pytest.raises(SummarizerRefusedError, match=reason):
        asked(server)


def test_error_inside_a_stream() -> None:
    """An error inside a stream is raised, one about the size as its own type."""
    for record, kind in (
        (b'{"error":{"code":"server_error","message":"m"}}', SummarizerError),
        (b'{"error":{"code":"context_length_exceeded"}}', RequestTooLargeError),
        (b"<html>", SummarizerError),
    ):
        with pytest.raises(kind):
            list(pieces_of_stream([b"data: " + record + b"\n\n"]))


def test_stream_in_any_pieces() -> None:
    """A stream reads the same however the network cuts its bytes."""
    data = (
        b': comment\r\n\r\ndata: {"choices":[{"delta":{"content":"\xe4\xb8\xad\xe2\x80\xa8"}}]}\r\n\r\n'
        b'event: x\ndata:{"choices":[{"delta":{"content":"b","reasoning_content":"r"},"finish_reason":"stop"}]}\n\n'
        b"data: [DONE]\n\n"
    )
    for size in range(1, len(data) + 1):
        cuts = [data[at : at + size] for at in range(0, len(data), size)]
        assert list(pieces_of_stream(cuts)) == ["中\u2028", "b"]


def test_no_secret_in_any_error() -> None:
    """No error, nor its causes, holds the key, the address or the provider's words."""
    refused = Answer(status=400, error={"message": f"key {KEY}", "code": f"bad key {KEY}"})
    with OpenAIServer(refused, Answer(status=500), Answer(["a", "b"], cut=1)) as server:
        for _ in range(3):
            with pytest.raises((SummarizerError, SummarizerRefusedError)) as caught:
                asked(server, api_key=KEY, attempts=1)
            assert KEY not in str(caught.value)
            assert "127.0.0.1" not in str(caught.value)
            assert caught.value.__cause__ is None
            assert caught.value.__context__ is None
    assert KEY not in repr(HttpSummarizer("http://x", api_key=KEY))


def test_unusable_settings_are_the_callers_error() -> None:
    """An unusable address, key or model is a wrong call at once."""
    for summarizer in (
        HttpSummarizer("nonsense://x", sleep=Waits()),
        HttpSummarizer("http://127.0.0.1:1", api_key="schlüssel"),
    ):
        with pytest.raises(CallError):
            list(summarizer(REQUEST))
    with pytest.raises(CallError, match="no model"):
        list(HttpSummarizer("http://127.0.0.1:1")(SummaryRequest("s", (), "p")))


def test_client_of_ones_own() -> None:
    """A given client is used and stays open."""
    with OpenAIServer(Answer("x")) as server, httpx2.Client() as client:
        assert asked(server, client=client) == ["x"]
        assert not client.is_closed


def test_closing_gives_the_request_up() -> None:
    """A caller who stops reading closes the connection, though the server has more to send."""
    hold = threading.Event()
    with OpenAIServer(Answer(["a", "b"], hold=hold)) as server, httpx2.Client() as client:
        found = pieces(HttpSummarizer(server.url, client=client), REQUEST)
        assert next(found) == "a"
        found.close()
        hold.set()
        assert asked(server, client=client)[0] == "a"
