"""The Chat Completions renderer has the form that `@ai-sdk/openai-compatible` sends."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from projections.requests.incremental import IncrementalArray
from projections.requests.openai import ChatEncoder, chat_messages, encode_chat
from projections.view.messages import Messages
from projections.view.neutral import Call, File, NeutralMessage, NeutralPart, Reasoning, Result, Text

PICTURE = File("image/png", "data:image/png;base64,AAAA", "a.png")


def assistant(*parts: NeutralPart) -> NeutralMessage:
    """An assistant message."""
    return NeutralMessage("assistant", parts, "a")


def test_user_content_is_a_string_when_it_is_one_text() -> None:
    """One text is a string, several parts are an array, an empty view is an empty request."""
    one = NeutralMessage("user", (Text("hello"),))
    two = NeutralMessage("user", (Text("look"), PICTURE))
    assert chat_messages([one, two]) == [
        {"role": "user", "content": "hello"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ],
        },
    ]
    assert encode_chat([]) == b"[]"


def test_files_by_kind() -> None:
    """Images, sound and documents each have their own form."""
    files = (
        File("image/png", "https://example.com/a.png"),
        File("audio/wav", "data:audio/wav;base64,UklG"),
        File("audio/mpeg", "data:audio/mpeg;base64,SUQz"),
        File("application/pdf", "data:application/pdf;base64,JVBE"),
        File("application/pdf", "data:application/pdf;base64,JVBE", "b.pdf"),
    )
    (message,) = chat_messages([NeutralMessage("user", files)])
    assert message["content"] == [
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
        {"type": "file", "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
        {"type": "file", "file": {"filename": "b.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
    ]


def test_assistant_messages() -> None:
    """Texts and reasoning are joined; arguments are text; each result is its own message."""
    said = assistant(
        Reasoning("hm", '{"s":1}'),
        Reasoning("…"),
        Text("a"),
        Text("b"),
        Call("1", "bash", '{"x": 1}'),
        Call("2", "read", "{}"),
    )
    results = NeutralMessage("tool", (Result("1", "bash", "out"), Result("2", "read", "no", error=True)), "a")
    assert chat_messages([said, results]) == [
        {
            "role": "assistant",
            "content": "ab",
            "reasoning_content": "hm…",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "bash", "arguments": '{"x": 1}'}},
                {"id": "2", "type": "function", "function": {"name": "read", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "out"},
        {"role": "tool", "tool_call_id": "2", "content": "no"},
    ]
    assert chat_messages([assistant(Reasoning(""))]) == [{"role": "assistant", "content": ""}]


def test_results_that_have_no_place_follow() -> None:
    """A result of a provider's tool follows its call; media follow in a user message."""
    inside = assistant(Call("1", "search", "{}", provider_executed=True), Result("1", "search", "found"))
    media = NeutralMessage("tool", (Result("2", "read", "seen", files=(PICTURE,)), Result("3", "read", "x")), "a")
    roles = [message["role"] for message in chat_messages([inside, media])]
    assert roles == ["assistant", "tool", "tool", "tool", "user"]


def test_system_segments_come_first() -> None:
    """Each segment of the system prompt is its own message, so that the first stays cached."""
    encoded = encode_chat([NeutralMessage("user", (Text("hi"),))], ("header", "rest"))
    assert [message["content"] for message in json.loads(encoded)] == ["header", "rest", "hi"]


def test_lone_surrogates_are_replaced() -> None:
    """Lone surrogates are rendered as U+FFFD everywhere; emoji stay."""
    odd = "x\ud83dy 😀"
    said = assistant(Text(odd), Reasoning(odd), Call("1", "bash", f'"{odd}"'))
    results = NeutralMessage("tool", (Result("1", "bash", odd),))
    encoded = encode_chat([NeutralMessage("user", (Text(odd),)), said, results], (odd,)).decode()
    assert encoded.count("x\ufffdy 😀") == 6


parts = st.one_of(
    st.builds(Text, st.text(max_size=5)),
    st.builds(Call, st.text(min_size=1, max_size=3), st.just("bash"), st.just("{}")),
    st.builds(Result, st.text(min_size=1, max_size=3), st.just("bash"), st.text(max_size=5)),
)
messages = st.builds(
    NeutralMessage,
    st.sampled_from(["user", "assistant", "tool"]),
    st.lists(parts, max_size=3).map(tuple),
    st.text(max_size=2),
)


cuts = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 150)), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(messages, min_size=1, max_size=12), cuts, st.lists(st.text(max_size=3), max_size=2))
def test_encoding_what_is_new_is_exact(
    pool: list[NeutralMessage], steps: list[tuple[int, int]], system: list[str]
) -> None:
    """A request encoded from the one before equals the request encoded whole."""
    encoder = ChatEncoder()
    view: list[NeutralMessage] = []
    for keep, more in steps:
        view = view[:keep] + [pool[(keep + number) % len(pool)] for number in range(more)]
        for segments in (system, [*system, "more"], system):
            assert encoder.encode(view, segments) == msgspec.json.encode(chat_messages(view, segments))
        assert encoder.encode(Messages(view)) == encode_chat(view)


def test_only_what_is_new_is_encoded() -> None:
    """Only the messages at a changed end are encoded, however long the request is."""
    asked: list[str] = []

    def make(message: NeutralMessage, clean: Callable[[str], str]) -> list[dict[str, Any]]:
        asked.append(clean(message.source))
        return [{"id": message.source}]

    joined = IncrementalArray(make)
    view = [NeutralMessage("user", (), str(number)) for number in range(500)]
    joined.encode(view, (), ())
    assert len(asked) == 500
    asked.clear()
    view = [*view[:-1], NeutralMessage("user", (), "other"), NeutralMessage("user", (), "new")]
    assert joined.encode(view, (), ()) == msgspec.json.encode([{"id": message.source} for message in view])
    assert asked == ["other", "new"]


def test_an_encoder_that_failed_begins_anew() -> None:
    """A message that cannot be encoded is an error, and the next request is right again."""
    encoder = ChatEncoder()
    good = [NeutralMessage("user", (Text(f"{number}"),)) for number in range(9)]
    assert encoder.encode(good) == encode_chat(good)
    with pytest.raises(UnicodeEncodeError):
        encoder.encode([*good[:5], NeutralMessage("tool", (Result("\ud800", "bash", ""),))])
    assert encoder.encode(good) == encode_chat(good)
