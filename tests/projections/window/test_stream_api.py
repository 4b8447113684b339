"""Answers of other APIs, and answers without content, end with a name and no loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pytest

import eventlog
from eventlog.errors import SummarizerRefusedError, UnknownStreamError
from eventlog.session.reply import Reply
from eventlog.session.session import Session
from eventlog.values import Limits
from projections.window import CallModel, ContextWindow, Step, Stop, afill, afill_retrying, fill, fill_retrying
from projections.window.compaction.chat_stream import pieces_of_answer, pieces_of_stream
from projections.window.stream_api import is_chat
from tests.support.window_loop import MODEL

Chunk = dict[str, Any]
FOREIGN: dict[str, list[Chunk]] = {
    "OpenAI Responses": [
        {"type": "response.output_text.delta", "delta": "Hello"},
        {"object": "response", "output": []},
    ],
    "Anthropic Messages": [
        {"type": "message_start", "message": {"role": "assistant", "content": []}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
        {"type": "ping"},
        {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hello"}]},
    ],
    "Gemini generateContent": [{"candidates": [{"content": {"parts": [{"text": "Hello"}]}}]}],
    "Bedrock Converse": [{"contentBlockDelta": {"delta": {"text": "Hello"}}}],
    "Ollama chat": [{"model": "m", "message": {"content": "Hello"}, "done": False}],
    "": [{"surprise": 1}, {"type": "error", "error": {"message": "no"}}],
}
CASES = [(api, chunk) for api, chunks in FOREIGN.items() for chunk in chunks]
SAID: list[Chunk] = [{"choices": [{"delta": {"content": "Hello"}, "finish_reason": "stop"}]}]
EMPTY: list[list[Chunk]] = [[], [{}], [{"choices": []}], [{"choices": [{"delta": {"content": ""}}]}]]


class Dumped:
    """A chunk as the providers' packages give it."""

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk

    def model_dump(self) -> Chunk:
        """The chunk as a mapping."""
        return self._chunk


async def each(chunks: list[Any]) -> AsyncIterator[Any]:
    """The chunks of an asynchronous client."""
    for chunk in chunks:
        yield chunk


WAYS: dict[str, Callable[[Reply, list[Any]], str]] = {
    "fill": fill,
    "fill_retrying": lambda reply, chunks: fill_retrying(reply, lambda: chunks, sleep=lambda _seconds: None),
    "afill": lambda reply, chunks: asyncio.run(afill(reply, each(chunks))),
    "afill_retrying": lambda reply, chunks: asyncio.run(afill_retrying(reply, lambda: each(chunks))),
}


@pytest.fixture
def session() -> Iterator[Session]:
    """A session with a question."""
    with eventlog.open("memory:") as store:
        found = store.create_session()
        found.user("hello")
        yield found


def loop(session: Session, answer: Callable[[Reply], object], most: int = 10) -> tuple[int, Step]:
    """Run a loop; returns how often the model was asked, and the last step."""
    with ContextWindow(session, model=MODEL, limits=Limits(), environment={}) as window:
        for asked in range(most):
            step = window.next_step()
            if not isinstance(step, CallModel):
                return asked, step
            answer(window.begin(step)[0])
    raise AssertionError("the model is asked without end")


@pytest.mark.parametrize("dumped", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("api", "chunk"), CASES)
def test_a_stream_of_another_api_is_an_error_that_names_it(
    session: Session, api: str, chunk: Chunk, way: str, *, dumped: bool
) -> None:
    """The first chunk of another API ends the reply as failed, with the name of the API."""

    def answer(reply: Reply) -> None:
        with pytest.raises(UnknownStreamError) as caught:
            WAYS[way](reply, [{}, Dumped(chunk) if dumped else chunk])
        assert caught.value.api == api

    asked, step = loop(session, answer)
    assert asked == 1
    assert isinstance(step, Stop)
    assert step.reason == "failed"
    assert (api or "not known") in step.sentence


@pytest.mark.parametrize(("api", "chunk"), CASES)
def test_a_summary_of_another_api_is_refused(api: str, chunk: Chunk) -> None:
    """A summariser's endpoint that speaks another API is named, streamed or whole."""
    data = msgspec.json.encode(chunk)
    for answer in (pieces_of_stream([b"data: " + data + b"\n\n"]), pieces_of_answer(data)):
        with pytest.raises(Exception, match=api or "error|not known") as caught:
            list(answer)
        assert isinstance(caught.value, SummarizerRefusedError) or "error" in chunk


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": []},
        {"object": "chat.completion.chunk", "id": "c"},
        {"usage": {"prompt_tokens": 1, "completion_tokens": 1}},
        {"id": "", "choices": [], "prompt_filter_results": []},
    ],
)
def test_every_chunk_of_chat_completions_is_known(chunk: Chunk) -> None:
    """First chunks of compatible servers are known; an empty one says nothing."""
    assert is_chat(chunk)
    assert not is_chat({})


@pytest.mark.parametrize("chunks", EMPTY)
@pytest.mark.parametrize("way", ["fill", "afill"])
def test_two_empty_answers_to_one_request_are_a_failed_turn(session: Session, chunks: list[Chunk], way: str) -> None:
    """The model is asked twice; then the turn has failed, with the API that was recognised."""
    asked, step = loop(session, lambda reply: WAYS[way](reply, chunks))
    assert asked == 2
    assert isinstance(step, Stop)
    assert step.reason == "failed"
    assert "no content" in step.sentence
    assert ("OpenAI Chat Completions" if "choices" in str(chunks) else "no API") in step.sentence
    with session.turn() as turn:
        turn.retry()
        assert loop(session, lambda reply: fill(reply, SAID)) == (1, Stop("finished"))
    assert turn.state == "done"


@pytest.mark.parametrize("reason", ["unknown", "tool-calls", "tool_use"])
@pytest.mark.parametrize("text", [None, ""])
def test_a_program_that_says_nothing_is_bounded_too(session: Session, reason: str, text: str | None) -> None:
    """Replies that the program finishes without content count like those of a stream."""

    def answer(reply: Reply) -> None:
        if text is not None:
            reply.add_text(text)
        reply.finish(reason)

    asked, step = loop(session, answer)
    assert (asked, getattr(step, "reason", "")) == (2, "failed")


def test_only_empty_answers_in_a_row_are_counted(session: Session) -> None:
    """A word between two empty answers is an answer; a new question begins the count again."""
    answers: list[list[Chunk]] = [[], [{"choices": [{"delta": {"content": "and"}}]}]]
    assert loop(session, lambda reply: fill(reply, answers.pop(0))) == (2, Stop("finished"))
    session.user("again")
    with ContextWindow(session, model=MODEL, limits=Limits(), environment={}) as window:
        for question in ("", "and again", "and once more"):
            if question:
                session.user(question)
            step = window.next_step()
            assert isinstance(step, CallModel)
            fill(window.begin(step)[0], [])
        assert isinstance(window.next_step(), CallModel)
