"""The Chat Completions renderer has the form that `@ai-sdk/openai-compatible` sends."""

from __future__ import annotations

import msgspec

from projections.requests.openai import BRIDGE, chat_messages
from projections.requests.servers import SERVERS
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


def test_files_that_no_server_reads_are_named() -> None:
    """SVGs, bad addresses and damaged base64 are named; an image of unknown type is sent."""
    files = (
        File("image/svg+xml", "https://x.org/a.svg", "a.svg"),
        File("image/*", "https://x.org/a.svg?v=1", "a.svg"),
        File("image/png", "https://x.org/a b", "a.svg"),
        File("image/png", "data:image/png;base64,iVBO [cut]", "b.png"),
        File("image/*", "https://x.org/a"),
        File("image/jpg", "https://x.org/b"),
    )
    (message,) = chat_messages([NeutralMessage("user", files)])
    *named, one, other = message["content"]
    kinds = ("svg+xml: a.svg", "*: a.svg", "png: a.svg", "png: b.png")
    assert [part["text"] for part in named] == [f"[Attached image/{kind}]" for kind in kinds]
    sent = [one, other]
    assert [part["type"] for part in sent] == ["image_url", "image_url"]


def test_deepseek_gets_reasoning_in_every_answer() -> None:
    """An answer without reasoning, of another model or redacted, has a space as its reasoning."""
    view = [assistant(Text("a")), assistant(Reasoning("hm"), Text("b"))]
    assert [answer["reasoning_content"] for answer in chat_messages(view, server="deepseek")] == [" ", "hm"]
    assert "reasoning_content" not in chat_messages(view, server="groq")[1]


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


def test_reasoning_goes_only_where_it_is_taken() -> None:
    """`reasoning_content` is sent to the servers that take it, and to no other."""
    said = [assistant(Reasoning("hm"), Text("so"))]
    taken = {server for server in (*SERVERS, "another") if "reasoning_content" in chat_messages(said, server=server)[0]}
    assert taken == {"openai-compatible", "openrouter", "deepseek", "llama.cpp", "vllm"}


def test_a_file_that_a_server_refuses_is_named() -> None:
    """A file is sent by the server's rules, or else its name, or the text of a text file."""
    files = (
        File("image/svg+xml", "data:image/svg+xml;base64,PHN2Zy8+", "a.svg"),
        File("application/pdf", "https://x.org/a.pdf", "a.pdf"),
        File("text/csv", "data:text/csv,a%2Cb", "a.csv"),
    )
    asked = [NeutralMessage("user", files)]
    assert [part["text"] for part in chat_messages(asked)[0]["content"]] == [
        "[Attached image/svg+xml: a.svg]",
        "[Attached application/pdf: a.pdf]",
        "[Attached text/csv: a.csv]\na,b",
    ]
    assert chat_messages(asked, server="openrouter")[0]["content"][1]["type"] == "file"
    made = chat_messages([assistant(Text("here"), PICTURE)])
    assert made == [{"role": "assistant", "content": "here\n[Attached image/png: a.png]"}]


def test_a_server_without_a_row_gets_the_strictest_form() -> None:
    """Another server gets one system message, alternating roles, short ids and a bridge."""
    user = NeutralMessage("user", (Text("a"),))
    call = assistant(Call("call_1", "ls", "[1]"))
    results = NeutralMessage("tool", (Result("call_1", "ls", " ", error=True, files=(PICTURE,)),), "a")
    made = chat_messages([user, user, call, results, user], ("one", " ", "two"), server="my own")
    assert [message["role"] for message in made] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert made[0]["content"] == "one\n\ntwo"
    assert made[1]["content"] == "a\n\na"
    (sent,) = made[2]["tool_calls"]
    assert len(sent["id"]) == 9
    assert sent["function"]["arguments"] == '{"value":[1]}'
    assert made[3] == {"role": "tool", "tool_call_id": sent["id"], "content": "The tool failed."}
    assert made[4]["content"] == BRIDGE
    assert [part["type"] for part in made[5]["content"]] == ["text", "image_url", "text"]
