"""Answers of other APIs, and answers without content, end with a name and no loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import StreamError, UnknownStreamError
from eventlog.session.filling import Filled
from eventlog.session.reply import Reply
from eventlog.session.session import Session
from eventlog.values import Limits
from projections import ModelView, answer_text
from projections.loop import CallModel, ContextWindow, Step, Stop, afill, afill_retrying, fill_retrying
from projections.view.neutral import Reasoning, Text
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
    "": [{"surprise": 1}],
}
ERRORS: list[Chunk] = [
    {"error": {"message": "no credit left", "code": 402}},
    {"type": "error", "error": {"type": "invalid_request_error", "message": "no credit left"}},
    {"choices": [{"delta": {}, "error": {"message": "no credit left", "code": 402}, "finish_reason": "error"}]},
    {"error": {"code": 402, "status": "X", "details": ["no credit left"]}},
]
BEFORE: list[list[Chunk]] = [[], [{"choices": [{"delta": {}}]}], [{"choices": [{"delta": {"content": "Hel"}}]}]]
CASES = [(api, chunk) for api, chunks in FOREIGN.items() for chunk in chunks]
NOT_READ = [(api, chunk) for api, chunk in CASES if api in {"Bedrock Converse", "Ollama chat", ""}]
SAID: list[Chunk] = [{"choices": [{"delta": {"content": "Hello"}, "finish_reason": "stop"}]}]
FORMS: list[tuple[Chunk, str]] = [
    ({"text": "Hello"}, ""),
    ({"message": {"role": "assistant", "content": "Hello"}}, ""),
    ({"delta": None, "message": {"content": "Hello"}}, ""),
    ({"delta": {"refusal": "Hello"}}, ""),
    ({"message": {"content": None, "refusal": "Hello"}}, ""),
    ({"delta": {"content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}}, ""),
    ({"delta": {"content": [{"type": "refusal", "refusal": "Hello"}]}}, ""),
    ({"delta": {"content": {"type": "text", "text": "Hello"}}}, ""),
    ({"delta": {"content": ["Hel", "lo"]}}, ""),
    ({"delta": {"content": "Hello"}, "text": "Hello"}, ""),
    ({"delta": {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}, "Hello"]}}, "Hm"),
    ({"delta": {"content": "Hello", "reasoning_content": "Hm"}}, "Hm"),
]
"""Choices that say "Hello", and what they think."""
UNREAD: list[Chunk] = [
    {"delta": {"content": [{"type": "hologram", "data": "x"}]}},
    {"delta": {"content": {"parts": ["Hello"]}}},
    {"delta": "Hello"},
    {"message": ["Hello"]},
]
EMPTY: list[list[Chunk]] = [[], [{}], [{"choices": []}], [{"choices": [{"delta": {"content": ""}}]}]]


def silent(reason: str, part: Chunk | None) -> dict[str, list[Chunk]]:
    """An answer without words that ends with a reason, in each API; `part` is Gemini's."""
    content = {"content": {"role": "model", "parts": [] if part is None else [part]}}
    text = "" if part is None else part["text"]
    thought = part is not None and part.get("thought")
    delta = {"type": "thinking_delta", "thinking": text} if thought else {"type": "text_delta", "text": text}
    return {
        "gemini": [{"candidates": [{**content, "finishReason": reason}]}],
        "chat": [
            {"choices": [{"delta": {"reasoning_content" if thought else "content": text}}]},
            {"choices": [{"delta": {}, "finish_reason": reason}]},
        ],
        "anthropic": [
            {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "message_delta", "delta": {"stop_reason": reason}},
            {"type": "message_stop"},
        ],
        "responses": [
            {
                "type": "response.output_text.delta",
                "item_id": "m",
                "content_index": 0,
                "delta": "" if thought else text,
            },
            {
                "type": "response.incomplete",
                "response": {"status": "incomplete", "incomplete_details": {"reason": reason}},
            },
        ],
    }


def _filled(way: str, chunks: list[Chunk], reply: Reply) -> Filled:
    return WAYS[way](reply, chunks)


APIS = ("gemini", "chat", "anthropic", "responses")
WITHHELD = {
    "gemini": "PROHIBITED_CONTENT",
    "chat": "content_filter",
    "anthropic": "refusal",
    "responses": "content_filter",
}
CUT = {"gemini": "MAX_TOKENS", "chat": "length", "anthropic": "max_tokens", "responses": "max_output_tokens"}
NOTHING: dict[str, Chunk | None] = {
    "nothing": None,
    "an empty text": {"text": ""},
    "a blank text": {"text": " \n"},
    "a thought": {"text": "Hm.", "thought": True},
}


class Dumped:
    """A chunk as the providers' packages give it."""

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk

    def model_dump(self, **_options: object) -> Chunk:
        """The chunk as a mapping."""
        return self._chunk


async def streamed(chunks: list[Any]) -> AsyncIterator[Any]:
    """The chunks of an asynchronous client."""
    for chunk in chunks:
        yield chunk


def ending(fill: Callable[[Reply, list[Any]], Filled]) -> Callable[[Reply, list[Any]], Filled]:
    """Return a way of filling that ends the reply where the provider's answer is an error."""

    def filled(reply: Reply, chunks: list[Any]) -> Filled:
        try:
            return fill(reply, chunks)
        except (StreamError, UnknownStreamError) as error:
            reply.close(error)
            raise

    return filled


WAYS: dict[str, Callable[[Reply, list[Any]], Filled]] = {
    "fill": ending(Reply.fill),
    "fill_retrying": lambda reply, chunks: fill_retrying(reply, lambda: chunks, sleep=lambda _seconds: None),
    "afill": ending(lambda reply, chunks: asyncio.run(afill(reply, streamed(chunks)))),
    "afill_retrying": lambda reply, chunks: asyncio.run(afill_retrying(reply, lambda: streamed(chunks))),
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
@pytest.mark.parametrize(("api", "chunk"), NOT_READ)
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


@pytest.mark.parametrize("dumped", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("chunk", ERRORS)
def test_an_error_in_a_stream_fails_the_reply_and_is_quoted(
    session: Session, chunk: Chunk, before: list[Chunk], way: str, *, dumped: bool
) -> None:
    """The first chunk or a later one is the provider's error: the stop has its text."""

    def answer(reply: Reply) -> None:
        with pytest.raises(StreamError, match="no credit left"):
            WAYS[way](reply, [*before, Dumped(chunk) if dumped else chunk])

    asked, step = loop(session, answer)
    assert isinstance(step, Stop)
    assert (asked, step.reason, step.goes_on) == (1, "failed", "turn.retry()")
    assert "no credit left" in step.sentence


@pytest.mark.parametrize("way", ["fill_retrying", "afill_retrying"])
@pytest.mark.parametrize("error", [{"code": 503, "message": "busy"}, {"type": "overloaded_error", "message": "busy"}])
def test_a_stream_that_says_that_it_is_overloaded_is_asked_for_again(session: Session, error: Chunk, way: str) -> None:
    """An error that passes is one attempt; what was said before it leaves the view."""
    answers: list[list[Chunk]] = [[{"choices": [{"delta": {"content": "Hel"}}]}, {"error": error}], SAID]
    tries = iter(answers)

    def answer(reply: Reply) -> None:
        if way == "fill_retrying":
            fill_retrying(reply, lambda: next(tries), sleep=lambda _seconds: None)
        else:
            asyncio.run(afill_retrying(reply, lambda: streamed(next(tries)), first_wait=0))

    assert loop(session, answer) == (1, Stop("finished"))
    parts = [part for message in ModelView.of(session).messages for part in message.parts]
    assert [part.text for part in parts if isinstance(part, Text)] == ["hello", "Hello"]


def test_a_refusal_for_its_size_in_a_stream_is_an_overflow(session: Session) -> None:
    """The error's code says it, as that of a refused request does."""
    too_long: list[Chunk] = [{"error": {"message": "too long", "code": "context_length_exceeded"}}]
    with pytest.raises(StreamError):
        loop(session, lambda reply: reply.fill(too_long))
    (end,) = [each.event for each in session.events() if isinstance(each.event, ev.MessageFinished)]
    assert end.error is not None
    assert end.error.name == "overflow"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("choice", "thought"), FORMS)
def test_text_in_any_form_of_chat_completions_is_the_answer(
    session: Session, choice: Chunk, thought: str, way: str
) -> None:
    """Text as parts, whole, of a refusal or of legacy completions is said once, never dropped."""
    chunks: list[Chunk] = [{"choices": [choice]}, {"choices": [{"delta": {}, "finish_reason": "stop"}]}]
    assert loop(session, lambda reply: WAYS[way](reply, chunks)) == (1, Stop("finished"))
    parts = [part for message in ModelView.of(session).messages for part in message.parts]
    assert [part.text for part in parts if isinstance(part, Text)] == ["hello", "Hello"]
    assert [part.text for part in parts if isinstance(part, Reasoning)] == ([thought] if thought else [])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("choice", UNREAD)
@pytest.mark.parametrize("before", [[], SAID[0]["choices"]])
def test_content_in_a_form_that_is_not_read_is_an_error(
    session: Session, choice: Chunk, before: list[Chunk], way: str
) -> None:
    """The reply has failed and says so, at the first chunk or a later one."""
    chunks: list[Chunk] = [{"choices": before}, {"choices": [{**choice, "finish_reason": "stop"}]}]

    def answer(reply: Reply) -> None:
        with pytest.raises(UnknownStreamError):
            WAYS[way](reply, chunks)

    asked, step = loop(session, answer)
    assert (asked, getattr(step, "reason", "")) == (1, "failed")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("content", [5, True, [1.5]])
def test_content_that_is_no_content_is_a_damaged_chunk(session: Session, content: object, way: str) -> None:
    """A number where a text stands breaks the answer off, as a damaged line does."""
    chunks: list[Chunk] = [*SAID[:1], {"choices": [{"delta": {"content": content}}]}]
    with session.turn("hello", "r1"), pytest.raises(ConnectionError, match="broke off"):
        loop(session, lambda reply: WAYS[way](reply, chunks))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("choice", [{"delta": {}}, {"delta": {"content": ""}}, {"message": {"content": None}}, {}])
def test_an_answer_that_a_content_filter_withheld_has_failed(session: Session, choice: Chunk, way: str) -> None:
    """The stop has the word of the provider, and `retry` begins the turn again."""
    usage = {"prompt_tokens": 7, "completion_tokens": 1}
    chunks: list[Chunk] = [{"choices": [{**choice, "finish_reason": "content_filter"}], "usage": usage}]
    asked, step = loop(session, lambda reply: WAYS[way](reply, chunks))
    assert isinstance(step, Stop)
    assert (asked, step.reason, step.goes_on) == (1, "failed", "turn.retry()")
    assert "content-filter" in step.sentence
    used = [each.event for each in session.events() if isinstance(each.event, ev.UsageRecorded)]
    assert [event.usage.tokens.input for event in used] == [7]
    with session.turn() as turn:
        turn.retry()
        cut = [{"choices": [{"delta": {"content": "Hel"}, "finish_reason": "content_filter"}]}]
        assert loop(session, lambda reply: WAYS[way](reply, cut)) == (1, Stop("finished"))
    assert answer_text(session, turn.answer) == "Hel"


@pytest.mark.parametrize("part", NOTHING)
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("way", WAYS)
def test_an_answer_without_words_is_never_done(session: Session, way: str, api: str, part: str) -> None:
    """One that a filter withheld has failed; one of another reason is asked for again."""
    withheld = silent(WITHHELD[api], NOTHING[part])[api]
    asked, step = loop(session, lambda reply: WAYS[way](reply, withheld))
    assert isinstance(step, Stop)
    assert (asked, step.reason, step.error and step.error.name) == (1, "failed", "content-filter")
    for reason in (CUT[api], "OTHER"):
        session.user("again")
        chunks = silent(reason, NOTHING[part])[api]
        asked, step = loop(session, partial(_filled, way, chunks))
        assert isinstance(step, Stop)
        assert (asked, step.reason, step.error and step.error.name) == (2, "failed", "empty")
        assert f"ended with '{'OTHER' if reason == 'OTHER' else 'length'}'" in step.sentence
    session.user("again")
    answers = [chunks, SAID]
    assert loop(session, lambda reply: WAYS[way](reply, answers.pop(0))) == (2, Stop("finished"))


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
        assert loop(session, lambda reply: reply.fill(SAID)) == (1, Stop("finished"))
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
    assert loop(session, lambda reply: reply.fill(answers.pop(0))) == (2, Stop("finished"))
    session.user("again")
    with ContextWindow(session, model=MODEL, limits=Limits(), environment={}) as window:
        for question in ("", "and again", "and once more"):
            if question:
                session.user(question)
            step = window.next_step()
            assert isinstance(step, CallModel)
            window.begin(step)[0].fill([])
        assert isinstance(window.next_step(), CallModel)
