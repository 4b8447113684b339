"""The renderers, rule by rule: thinking, server tools, call ids, files, failures."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from projections.requests.ai_sdk import model_messages
from projections.requests.anthropic import CONTINUE, OPENING, anthropic_request
from projections.requests.call_ids import CallIds
from projections.requests.openai_responses import responses_request
from projections.view.neutral import Call, File, NeutralMessage, NeutralPart, Reasoning, Result, Text
from tests.request_rules.anthropic import broken
from tests.support.provider_forms import check

PICTURE = "data:image/png;base64,AAAA"


def user(*parts: NeutralPart) -> NeutralMessage:
    """A user message."""
    return NeutralMessage("user", parts, "u")


def assistant(*parts: NeutralPart, source: str = "a") -> NeutralMessage:
    """An assistant message."""
    return NeutralMessage("assistant", parts, source)


def tool(*parts: Result) -> NeutralMessage:
    """The results of the preceding calls."""
    return NeutralMessage("tool", parts, "a")


def metadata(**own: object) -> str:
    """Metadata in Anthropic's and in OpenAI's form."""
    return json.dumps({"anthropic": own, "openai": own})


HELLO = user(Text("hello"))


def blocks(*messages: NeutralMessage) -> list[dict[str, Any]]:
    """The content blocks of the last Anthropic message."""
    check(messages)
    found: list[dict[str, Any]] = anthropic_request(messages)["messages"][-1]["content"]
    return found


def test_thinking_goes_back_with_its_signature() -> None:
    """Signed and redacted thinking is sent to Anthropic unchanged; other thinking is omitted."""
    found = blocks(
        HELLO,
        assistant(
            Reasoning("signed", metadata(signature="s1g")),
            Reasoning("", metadata(redactedData="s3cret")),
            Reasoning("of another provider"),
            Reasoning("", None),
            Text("so it is"),
        ),
    )
    assert found == [
        {"type": "thinking", "thinking": "signed", "signature": "s1g"},
        {"type": "redacted_thinking", "data": "s3cret"},
        {"type": "text", "text": "so it is"},
    ]


def test_thinking_that_nothing_follows_is_left_out() -> None:
    """No assistant message ends with thinking, and one of thinking alone is not sent."""
    assert blocks(HELLO, assistant(Reasoning("x", metadata(signature="s")))) == [{"type": "text", "text": "hello"}]


def test_neighbours_become_one_message() -> None:
    """Consecutive messages of one role become one for Anthropic, results first."""
    messages = [
        user(Text("one")),
        user(Text("two")),
        assistant(Text("three"), Call("c1", "bash", '{"a":1}'), Text("four")),
        tool(Result("c1", "bash", "out")),
        user(Text("five")),
        assistant(Text("six")),
        assistant(Text("seven")),
    ]
    check(messages)
    request = anthropic_request(messages, ["header", "", "rest"], cache="none")
    assert request == {
        "system": [{"type": "text", "text": "header"}, {"type": "text", "text": "rest"}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "three"},
                    {"type": "text", "text": "four"},
                    {"type": "tool_use", "id": "c1", "name": "bash", "input": {"a": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "out"}]},
                    {"type": "text", "text": "five"},
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "six"}, {"type": "text", "text": "seven"}]},
        ],
    }


def test_the_user_begins_and_a_prefill_is_trimmed() -> None:
    """A conversation of the assistant gets an opening; a prefill loses trailing white space."""
    messages = [assistant(Text("one \n")), assistant(Text(" two \n "))]
    check(messages)
    first, second = anthropic_request(messages)["messages"]
    assert first == {"role": "user", "content": [{"type": "text", "text": OPENING}]}
    assert [block["text"] for block in second["content"]] == ["one \n", " two"]
    assert anthropic_request(messages, prefill=False)["messages"][-1] == {
        "role": "user",
        "content": [{"type": "text", "text": CONTINUE}],
    }


SEARCHED = '[{"type":"web_search_result","url":"https://x.org","title":"X","encrypted_content":"e"}]'


def served(output: str, *, error: bool = False, call: str = "srvtoolu_1") -> NeutralMessage:
    """An assistant message with a search run by the provider."""
    given = Call(call, "web_search", '{"query":"x"}', provider_executed=True)
    return assistant(Text("I look"), given, Result(call, "web_search", output, error), Text("found"))


def test_server_tools_stay_in_their_message() -> None:
    """A tool that Anthropic ran has its own blocks in place, and is no call of the client."""
    found = blocks(HELLO, served(SEARCHED))
    assert [block["type"] for block in found] == ["text", "server_tool_use", "web_search_tool_result", "text"]
    assert found[2]["content"] == json.loads(SEARCHED)
    assert found[1]["id"] == found[2]["tool_use_id"] == "srvtoolu_1"
    failed = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    request = anthropic_request([HELLO, served(json.dumps(failed), error=True)])
    assert broken(request, whole=False) == []
    assert request["messages"][1]["content"][2]["content"] == failed


@pytest.mark.parametrize(
    "message",
    [
        served("[Old tool result content cleared]"),
        served('[{"type":"other"}]'),
        served(SEARCHED, call="ws_1"),
        assistant(Call("x", "mcp_thing", "{}", provider_executed=True), Result("x", "mcp_thing", "{}")),
    ],
    ids=["pruned", "of another form", "of another provider", "of an unknown tool"],
)
def test_other_providers_tools_become_ordinary_calls(message: NeutralMessage) -> None:
    """A server tool's result of another provider is sent as an ordinary call."""
    found = blocks(HELLO, message)
    assert [block["type"] for block in found] == ["tool_result"]


def test_openai_searches_are_items() -> None:
    """A web search that OpenAI ran is its own item; any other tool is a function call."""
    action = '{"type":"search","query":"x"}'
    search = Call("c", "web_search", action, provider_executed=True, metadata=metadata(itemId="ws_1"))
    messages = [HELLO, assistant(search, Result("c", "web_search", "[]"), Text("found"))]
    check(messages)
    items = responses_request(messages)["input"]
    assert items[1] == {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }
    messages[1] = served(SEARCHED)
    check(messages)
    kinds = [item["type"] for item in responses_request(messages)["input"]]
    assert kinds == ["message", "message", "function_call", "function_call_output", "message"]


def test_reasoning_items_are_gathered_and_followed() -> None:
    """Summaries of one reasoning item are one item; an item without a successor is omitted."""
    own = metadata(itemId="rs_1", reasoningEncryptedContent="e")
    messages = [
        HELLO,
        assistant(
            Reasoning("nameless"),
            Text("first"),
            Reasoning("one", own),
            Reasoning("two", own),
            Text("said", metadata(itemId="msg_1")),
            Text("more", metadata(itemId="msg_1")),
            Reasoning("last", metadata(itemId="rs_2")),
        ),
    ]
    check(messages)
    reasoning, said = responses_request(messages, ["a", "", "b"])["input"][2:]
    assert reasoning == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}],
        "encrypted_content": "e",
    }
    assert said["id"] == "msg_1"
    assert [part["text"] for part in said["content"]] == ["said", "more"]
    assert responses_request(messages, ["a", "", "b"])["instructions"] == "a\n\nb"


def test_repeated_call_ids_become_unique() -> None:
    """Call ids that repeat across messages become unique, and never change."""
    messages: list[NeutralMessage] = [HELLO]
    for source in ("a", "b", "c"):
        messages += [
            assistant(Call("call_0", "bash", "{}"), Call("call:1", "bash", "{}"), source=source),
            tool(Result("call_0", "bash", source), Result("call:1", "bash", "x")),
        ]
    check(messages)
    request = anthropic_request(messages)["messages"]
    calls = [block["id"] for message in request[1::2] for block in message["content"]]
    results = [block["tool_use_id"] for message in request[2::2] for block in message["content"]]
    assert calls == results
    assert calls[0] == "call_0"
    assert len(set(calls)) == 6
    assert anthropic_request(messages[:5])["messages"] == request[:5]


def test_call_ids_are_kept_as_far_as_they_may_be() -> None:
    """An allowed, new id stays; a long, empty or forbidden one is replaced."""
    ids = CallIds("[a-z]+", 30)
    names = ids.names(assistant(*(Call(name, "t", "{}") for name in ("abc", "abcdef" * 6, "", "a.b", "toolu_x.y"))))
    assert names["abc"] == "abc"
    assert names["toolu_x.y"].startswith("toolu_")
    assert len(set(names.values())) == 5
    assert ids.names(tool(Result("abc", "t", ""))) == {"abc": "abc"}


FILES = [
    (File("image/png", PICTURE, "a.png"), "image", "base64"),
    (File("image/jpg", "data:image/jpg;base64,AAAA"), "image", "base64"),
    (File("image/png", "https://x.org/a.png"), "image", "url"),
    (File("image/png", "file:file_1"), "image", "file"),
    (File("application/pdf", "data:application/pdf;base64,AAAA", "a.pdf"), "document", "base64"),
    (File("application/pdf", "https://x.org/a.pdf"), "document", "url"),
    (File("text/csv", "data:text/csv,a%2Cb"), "document", "text"),
    (File("image/tiff", "data:image/tiff;base64,AAAA"), "text", None),
    (File("image/png", "data:image/png;base64,"), "text", None),
    (File("image/png", "data:nothing"), "text", None),
    (File("image/png", "file:///a.png"), "text", None),
    (File("audio/wav", "data:audio/wav;base64,AAAA"), "text", None),
]


@pytest.mark.parametrize(("file", "kind", "source"), FILES)
def test_files_are_sent_as_the_provider_takes_them(file: File, kind: str, source: str | None) -> None:
    """Files are sent as bytes, address or uploaded id; a file that is not accepted is named."""
    answer = tool(Result("c", "read", "", files=(file,)))
    found = blocks(user(file), assistant(Call("c", "read", "{}")), answer)[0]["content"]
    assert found == blocks(user(file))
    assert found[0]["type"] == kind
    if source is None:
        assert found[0]["text"].startswith("[Attached ")
    else:
        assert found[0]["source"]["type"] == source


def test_plain_data_urls_are_decoded() -> None:
    """A data URL without base64 yields its percent-decoded bytes."""
    assert blocks(user(File("text/csv", "data:text/csv,a%2Cb")))[0]["source"]["data"] == "a,b"


def test_what_the_assistant_made_is_named() -> None:
    """An assistant's file, which no provider takes back, is sent as a text."""
    messages = [HELLO, assistant(File("image/png", PICTURE, "a.png"))]
    assert blocks(*messages) == [{"type": "text", "text": "[Attached image/png: a.png]"}]
    assert responses_request(messages)["input"][1]["content"] == "[Attached image/png: a.png]"
    assert model_messages(messages)[1]["content"][0]["type"] == "file"


def test_failures_and_empty_outputs() -> None:
    """A failure is marked and never without text; an empty output is a result without content."""
    calls = assistant(Call("c", "t", "[1]"), Call("d", "t x", "no JSON"), Call("e", "", "{}"))
    answer = tool(Result("c", "t", " ", error=True), Result("d", "t x", ""), Result("e", "", "out", error=True))
    found = blocks(HELLO, calls, answer)
    assert found[0]["is_error"]
    assert found[0]["content"]
    assert "content" not in found[1]
    given = anthropic_request([HELLO, calls, answer])["messages"][1]["content"]
    assert [call["input"] for call in given] == [{"value": [1]}, {}, {}]
    assert [call["name"] for call in given] == ["t", "t_x", "tool"]


def test_model_messages_have_the_shape_of_the_ai_sdk() -> None:
    """Calls, results and provider options are where AI SDK 5 has them."""
    messages = [
        user(Text("hello"), File("image/png", PICTURE, "a.png")),
        assistant(
            Reasoning("hm", metadata(signature="s")),
            Text("so", '"no object"'),
            Call("s", "web_search", '{"q":1}', provider_executed=True),
            Result("s", "web_search", "[1]"),
            Call("c", "bash", '{"a":1}', metadata=metadata(itemId="fc_1")),
            Call("d", "bash", "{}"),
            Call("e", "bash", "{}"),
        ),
        tool(
            Result("c", "bash", "[1]"),
            Result("d", "bash", "bad", error=True),
            Result("e", "bash", "seen", files=(File("image/png", PICTURE), File("image/png", "https://x.org/a"))),
        ),
    ]
    check(messages, ["be brief"])
    system, first, second, third = model_messages(messages, ["be brief"])
    assert system == {"role": "system", "content": "be brief"}
    assert first["content"][1] == {"type": "file", "data": PICTURE, "mediaType": "image/png", "filename": "a.png"}
    assert second["content"][0]["providerOptions"]["anthropic"] == {"signature": "s"}
    assert second["content"][1] == {"type": "text", "text": "so"}
    assert second["content"][2]["providerExecuted"] is True
    assert second["content"][3]["output"] == {"type": "json", "value": [1]}
    assert second["content"][4]["providerOptions"]["openai"] == {"itemId": "fc_1"}
    assert [part["output"] for part in third["content"]] == [
        {"type": "text", "value": "[1]"},
        {"type": "error-text", "value": "bad"},
        {
            "type": "content",
            "value": [
                {"type": "text", "text": "seen"},
                {"type": "media", "data": "AAAA", "mediaType": "image/png"},
                {"type": "text", "text": "[Attached image/png: file]"},
            ],
        },
    ]


def test_citations_go_back_to_anthropic() -> None:
    """A text's citations are sent back to Anthropic."""
    cited = {
        "type": "web_search_result_location",
        "url": "https://x.org",
        "title": "X",
        "encrypted_index": "e",
        "cited_text": "t",
    }
    assert blocks(HELLO, assistant(Text("so", metadata(citations=[cited]))))[0]["citations"] == [cited]


def test_cache_breakpoints_stand_at_the_ends() -> None:
    """Breakpoints are behind the system segments, and on demand behind newest questions."""
    messages = [
        message
        for name in "abc"
        for message in (user(Text(f"question {name}")), assistant(Text(f"answer {name}"), source=name))
    ]
    check(messages, ["header", "middle", "rest"])

    def marked(**options: Any) -> list[str]:
        request = anthropic_request(messages, ["header", "middle", "rest"], **options)
        blocks = [*request["system"], *(block for message in request["messages"] for block in message["content"])]
        return [block["text"] for block in blocks if "cache_control" in block]

    assert marked() == ["header", "rest"]
    assert marked(cache="prefix") == ["header", "rest", "question b", "question c"]
    assert marked(cache="none") == []


def test_images_over_the_limits_are_named() -> None:
    """Images that are too large, or the oldest of too many, are named for Anthropic."""
    large = File("image/png", "data:image/png;base64," + "A" * (5 << 20) + "AAAA", "large.png")
    found = blocks(user(large, *[File("image/png", PICTURE, f"{number}.png") for number in range(102)]))
    assert [block["text"] for block in found if block["type"] == "text"] == [
        "[Attached image/png: large.png]",
        "[Attached image/png: 0.png]",
        "[Attached image/png: 1.png]",
    ]
    size = (3000).to_bytes(4, "big") + (10).to_bytes(4, "big")
    wide = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + size).decode()
    wide_file = File("image/png", f"data:image/png;base64,{wide}", "wide.png")
    assert blocks(user(wide_file))[0]["type"] == "image"
    assert blocks(user(wide_file, *[File("image/png", PICTURE)] * 20))[0]["type"] == "text"
    wider = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (8001).to_bytes(4, "big") * 2).decode()
    assert blocks(user(File("image/png", f"data:image/png;base64,{wider}")))[0]["type"] == "text"
    disguised = File("image/png", "data:image/png;base64,/9j/AAAA")
    assert blocks(user(disguised))[0]["source"]["media_type"] == "image/jpeg"


def test_item_ids_need_their_reasoning() -> None:
    """An id is sent only right behind its reasoning, if it is short, of its kind, and new."""
    own = metadata(itemId="rs_1", reasoningEncryptedContent="e")
    long = metadata(itemId="rs_" + "x" * 62, reasoningEncryptedContent="e")
    messages = [
        HELLO,
        assistant(Text("a", metadata(itemId="msg_0", phase="commentary"))),
        assistant(Reasoning("r", own), Call("1", "ls", "{}", metadata=metadata(itemId="fc_1"))),
        tool(Result("1", "ls", "")),
        assistant(Reasoning("r", own), Text("b", metadata(itemId="msg_1"))),
        assistant(Reasoning("r", long), Text("c", metadata(itemId="msg_2"))),
        assistant(Reasoning("edited"), Reasoning("r", metadata(itemId="rs_2")), Text("d", metadata(itemId="msg_3"))),
    ]
    check(messages)
    items = responses_request(messages)["input"]
    assert [item["id"] for item in items if "id" in item] == ["rs_1", "fc_1"]
    assert items[1]["phase"] == "commentary"


def test_a_search_needs_the_reasoning_before_it() -> None:
    """A web search that does not stand behind its reasoning is an ordinary call."""

    def search(number: int) -> Call:
        own = metadata(itemId=f"ws_{number}")
        return Call(f"ws_{number}", "web_search", '{"type":"search","query":"x"}', provider_executed=True, metadata=own)

    def sent(*parts: NeutralPart) -> list[str]:
        check([HELLO, assistant(*parts)])
        items = responses_request([HELLO, assistant(*parts)])["input"]
        return [item["type"] for item in items if "call" in item["type"] or item["type"] == "reasoning"]

    own = metadata(itemId="rs_1", reasoningEncryptedContent="e")
    found, other = (Result(f"ws_{number}", "web_search", "") for number in (1, 2))
    both = (search(1), found, search(2), other)
    assert sent(Reasoning("r", own), *both) == ["reasoning", "web_search_call", "web_search_call"]
    assert sent(search(1), found) == ["web_search_call"]
    pair = ["function_call", "function_call_output"]
    assert sent(Reasoning("edited"), search(1), found) == pair
    assert sent(Reasoning("r", own), Text("a"), search(1), found) == ["reasoning", *pair]


def test_reasoning_without_a_cipher_is_left_out_before_a_file() -> None:
    """Without storage, reasoning that has no cipher is not sent before a file either."""
    image = File("image/png", PICTURE, "a.png")
    answer = assistant(Reasoning("r", metadata(itemId="rs_1", reasoningEncryptedContent="")), image)
    check([HELLO, answer])
    assert [item["type"] for item in responses_request([HELLO, answer], store=False)["input"]] == ["message"] * 2


def test_a_served_call_has_an_id_of_its_kind() -> None:
    """A tool that Anthropic ran is an ordinary call if its id has other characters."""
    kinds = [block["type"] for block in blocks(HELLO, served(SEARCHED, call="srvtoolu_a-b"), HELLO)]
    assert kinds == ["tool_result", "text"]
