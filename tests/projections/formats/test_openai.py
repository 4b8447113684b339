"""The Chat Completions renderer has the form that `@ai-sdk/openai-compatible` sends."""

from __future__ import annotations

import msgspec

from projections.requests.openai import chat_messages
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
    assert chat_messages([]) == []


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
    assert chat_messages([assistant(Reasoning("only thinking"))]) == []


def test_results_that_have_no_place_follow() -> None:
    """A result of a provider's tool follows its call; media follow in a user message."""
    inside = assistant(Call("1", "search", "{}", provider_executed=True), Result("1", "search", "found"))
    media = NeutralMessage("tool", (Result("2", "read", "seen", files=(PICTURE,)), Result("3", "read", "x")), "a")
    roles = [message["role"] for message in chat_messages([inside, media])]
    assert roles == ["assistant", "tool", "tool", "tool", "user"]


def test_system_segments_come_first() -> None:
    """Each segment of the system prompt is its own message, so that the first stays cached."""
    made = chat_messages([NeutralMessage("user", (Text("hi"),))], ("header", "rest"))
    assert [message["content"] for message in made] == ["header", "rest", "hi"]


def test_lone_surrogates_are_replaced() -> None:
    """Lone surrogates are rendered as U+FFFD everywhere; emoji stay."""
    odd = "x\ud83dy 😀"
    said = assistant(Text(odd), Reasoning(odd), Call("1", "bash", f'"{odd}"'))
    results = NeutralMessage("tool", (Result("1", "bash", odd),))
    made = chat_messages([NeutralMessage("user", (Text(odd),)), said, results], (odd,))
    encoded = msgspec.json.encode(made).decode()
    assert encoded.count("x\ufffdy 😀") == 6
