"""Each provider rule of the renderers' tests refuses a request that breaks it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.support.provider_rules import anthropic_faults, model_message_faults, responses_faults
from tests.support.server_rules import chat_faults, gemini_faults

Object = dict[str, Any]


def text(said: str) -> Object:
    """A text block."""
    return {"type": "text", "text": said}


CALL: Object = {"type": "tool_use", "id": "c1", "name": "bash", "input": {}}
ANSWER: Object = {"type": "tool_result", "tool_use_id": "c1", "content": [text("out")]}
SEARCH: Object = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND: Object = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
PICTURE: Object = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


def conversation(*contents: list[Object]) -> Object:
    """A request of user and assistant in turn."""
    roles = ("user", "assistant")
    return {"system": [], "messages": [{"role": roles[n % 2], "content": found} for n, found in enumerate(contents)]}


SOUND: Object = conversation(
    [text("hi"), PICTURE], [text("yes"), CALL], [ANSWER, text("go on")], [SEARCH, FOUND, text("done")]
)


def test_a_sound_messages_request_has_no_fault() -> None:
    """A Messages request that keeps the rules has no fault."""
    assert anthropic_faults(SOUND) == []


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        ({"system": [], "messages": []}, "no messages"),
        ({**SOUND, "system": [text(" ")]}, "an empty system block"),
        ({"system": [], "messages": SOUND["messages"][1:]}, "the user does not begin"),
        ({"system": [], "messages": [SOUND["messages"][0], *SOUND["messages"]]}, "two messages of user"),
        (conversation([]), "without content"),
        (conversation([text("\n")]), "blank text"),
        (conversation([text("\ud800")]), "lone surrogate"),
        (conversation([text("a")], [text("b ")]), "prefill"),
        (conversation([text("a")], [CALL]), "not answered"),
        (conversation([text("a")], [CALL], [text("b")]), "answered by []"),
        (conversation([text("a")], [CALL], [text("b"), ANSWER]), "behind other content"),
        (conversation([text("a")], [CALL, text("b")], [ANSWER]), "content behind a call"),
        (conversation([text("a")], [CALL], [ANSWER], [CALL], [ANSWER]), "used twice"),
        (conversation([text("a")], [{**CALL, "id": "c.1"}], [{**ANSWER, "tool_use_id": "c.1"}]), "id or name"),
        (conversation([text("a")], [{**CALL, "name": "a b"}], [ANSWER]), "id or name"),
        (conversation([text("a")], [{**CALL, "input": []}], [ANSWER]), "not an object"),
        (conversation([text("a")], [CALL], [{**ANSWER, "content": [text("")]}]), "blank text"),
        (conversation([text("a")], [CALL], [{**ANSWER, "content": [], "is_error": True}]), "error without content"),
        (conversation([text("a")], [SEARCH, text("b")]), "server tools"),
        (conversation([text("a")], [{**SEARCH, "id": "x"}, {**FOUND, "tool_use_id": "x"}]), "id of a server tool"),
        (conversation([text("a")], [PICTURE]), "image by the assistant"),
        (conversation([CALL]), "tool_use by the user"),
        (conversation([text("a")], [{"type": "thinking", "thinking": "x", "signature": "s"}]), "ends with thinking"),
        (conversation([text("a")], [{"type": "thinking", "thinking": "x", "signature": ""}, text("b")]), "signature"),
        (conversation([{**PICTURE, "source": {**PICTURE["source"], "data": ""}}]), "without bytes"),
        (conversation([{**PICTURE, "source": {**PICTURE["source"], "data": "?"}}]), "not base64"),
        (conversation([{**PICTURE, "source": {**PICTURE["source"], "data": "A" * (5 << 20) + "AAAA"}}]), "over 5 MB"),
        (conversation([{**PICTURE, "source": {**PICTURE["source"], "data": "/9j/"}}]), "another type"),
        (conversation([{**PICTURE, "source": {**PICTURE["source"], "media_type": "image/svg+xml"}}]), "svg"),
        (conversation([PICTURE] * 101), "more than 100"),
        (conversation([{**text("a"), "cache_control": {}}] * 5), "cache breakpoints"),
        (conversation([text("a")], [CALL], [{**ANSWER, "content": [PICTURE], "is_error": True}]), "with media"),
    ],
)
def test_each_messages_rule_is_looked_at(request_: Object, fault: str) -> None:
    """Each violation of a Messages rule is reported."""
    assert any(fault in found for found in anthropic_faults(request_)), anthropic_faults(request_)


ITEMS: list[Object] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": ""},
    {"type": "message", "role": "assistant", "content": "done"},
]


def responses(*places: tuple[int, Object | None]) -> Object:
    """The sound request with items replaced, or removed from the end on."""
    items: list[Object] = deepcopy(ITEMS)
    for place, item in sorted(places, key=lambda pair: -pair[0]):
        if item is None:
            del items[place]
        else:
            items[place] = {**items[place], **item}
    return {"input": items}


def test_a_sound_responses_request_has_no_fault() -> None:
    """A Responses request that keeps the rules has no fault."""
    assert responses_faults(responses()) == []


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        (responses((3, None)), "without a call or an answer"),
        (responses((2, None)), "answer before its call"),
        ({"input": ITEMS + ITEMS[2:4]}, "made twice"),
        ({"input": ITEMS + ITEMS[3:4]}, "answered twice"),
        ({"input": [*ITEMS[:3], ITEMS[0], *ITEMS[3:]]}, "the user speaks before"),
        ({"input": ITEMS[:2]}, "reasoning that nothing follows"),
        (responses((0, {"content": []})), "without content"),
        (responses((0, {"content": [{"type": "input_text", "text": ""}]})), "empty text"),
        (responses((4, {"content": ""})), "empty text"),
        (responses((2, {"call_id": "c" * 65}), (3, {"call_id": "c" * 65})), "id or name"),
        (responses((2, {"name": "a b"})), "id or name"),
        (responses((2, {"id": "fc_" + "x" * 62})), "item id"),
        (responses((2, {"id": "call_1"})), "item id"),
        (responses((4, {"id": "msg_1"})), "without its reasoning"),
        (responses((1, {"type": "message", "role": "assistant", "content": "x"}), (2, {"id": "fc_1"})), "without its"),
        ({"input": [*ITEMS[:4], ITEMS[1], *ITEMS[4:]]}, "there twice"),
        (responses((0, {"content": [{"type": "input_image", "image_url": "data:image/svg+xml,x"}]})), "address"),
        ({"input": ITEMS, "instructions": ""}, "empty instructions"),
        (responses((3, {"output": "\udfff"})), "lone surrogate"),
    ],
)
def test_each_responses_rule_is_looked_at(request_: Object, fault: str) -> None:
    """Each violation of a Responses rule is reported."""
    assert any(fault in found for found in responses_faults(request_)), responses_faults(request_)


TOOL_CALL: Object = {"type": "tool-call", "toolCallId": "c1", "toolName": "bash", "input": {}}
TOOL_RESULT: Object = {
    "type": "tool-result",
    "toolCallId": "c1",
    "toolName": "bash",
    "output": {"type": "text", "value": ""},
}
MODEL: list[Object] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": [text("hi")]},
    {"role": "assistant", "content": [TOOL_CALL]},
    {"role": "tool", "content": [TOOL_RESULT]},
]


def with_output(output: Object) -> list[Object]:
    """The sound messages with another output."""
    return [*MODEL[:3], {"role": "tool", "content": [{**TOOL_RESULT, "output": output}]}]


def test_sound_model_messages_have_no_fault() -> None:
    """Model messages that keep the rules have no fault."""
    assert model_message_faults(MODEL) == []


BROKEN: list[tuple[list[Object], str]] = [
    (MODEL[:3], "not answered"),
    ([*MODEL[:3], MODEL[1]], "speaks before"),
    ([*MODEL, *MODEL[2:]], "used twice"),
    ([{"role": "system", "content": ""}], "empty system"),
    ([{"role": "user", "content": []}], "without content"),
    ([{"role": "user", "content": [text("")]}], "an empty text"),
    ([{"role": "user", "content": [TOOL_CALL]}], "by user"),
    ([{"role": "user", "content": [{"type": "text", "txt": "a"}]}], "a text with"),
    ([{"role": "user", "content": [{**text("a"), "providerOptions": {"p": 1}}]}], "provider options"),
    ([{"role": "user", "content": [text("\ud800")]}], "surrogate"),
    ([{"role": "user", "content": [text("a")], "id": 1}], "the members"),
    ([{"role": "assistant", "content": [{**TOOL_CALL, "providerExecuted": True}]}], "provider's tools"),
    (with_output({"type": "text", "value": 1}), "an output"),
    (with_output({"type": "content", "value": [{"type": "media", "data": "", "mediaType": "a/b"}]}), "bytes"),
    (with_output({"type": "content", "value": [{"type": "media", "data": "AAAA", "mediaType": ""}]}), "no type"),
    (with_output({"type": "content", "value": [{"type": "file"}]}), "content of type"),
]


@pytest.mark.parametrize(("messages", "fault"), BROKEN)
def test_each_model_message_rule_is_looked_at(messages: list[Object], fault: str) -> None:
    """Each violation of a model message rule is reported."""
    found: list[str] = []
    try:
        found = model_message_faults(messages)
    except KeyError as error:  # a part without the member that a later rule looks at
        found = [f"a text with no {error}"]
    assert any(fault in one for one in found), found


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([{"role": "tool", "tool_call_id": "c1", "content": ""}], "without a call"),
        ([{"role": "assistant", "content": "", "tool_calls": [{"id": "c1"}]}], "not answered"),
        (
            [
                {"role": "assistant", "content": "", "tool_calls": [{"id": "c1"}]},
                {"role": "user", "content": "x"},
                {"role": "tool", "tool_call_id": "c1", "content": ""},
            ],
            "speaks before",
        ),
        ([{"role": "user", "content": "\ud800"}], "surrogate"),
    ],
)
def test_each_chat_rule_is_looked_at(messages: list[Object], fault: str) -> None:
    """Each violation of a Chat rule is reported."""
    assert any(fault in found for found in chat_faults(messages)), chat_faults(messages)


ASKED: Object = {"role": "user", "content": "hi"}


def called(id: str = "c1", name: str = "bash", arguments: str = "{}") -> list[Object]:
    """An answer with a call, and its result."""
    function = {"name": name, "arguments": arguments}
    answer = {"role": "assistant", "content": "", "tool_calls": [{"id": id, "function": function}]}
    return [answer, {"role": "tool", "tool_call_id": id, "content": "out"}]


def shown(url: str) -> list[Object]:
    """A question with an image."""
    return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]


NOTHING: list[Any] = []


@pytest.mark.parametrize(
    ("messages", "server", "fault"),
    [
        (called("c" * 41), "openai", "id or name"),
        (called(name="a.b"), "openai", "id or name"),
        (called(name="a" * 65), "openai", "id or name"),
        (called(arguments="[]"), "openai", "no object"),
        (called() + called(), "openai", "used twice"),
        (called("call_1"), "mistral", "id or name"),
        ([*called("a" * 9), ASKED], "mistral", "follows results"),
        ([ASKED, ASKED], "vllm", "in a row"),
        ([{"role": "system", "content": "a"}] * 2, "llama.cpp", "two system"),
        ([{"role": "developer", "content": "a"}], "openai", "role"),
        ([{"role": "assistant", "content": ""}], "openai", "empty"),
        ([{"role": "user", "content": [text("")]}], "openai", "empty text"),
        ([{"role": "assistant", "content": [{"type": "image_url"}]}], "openai", "in assistant"),
        ([{"role": "assistant", "content": "a", "reasoning_content": "b"}], "groq", "reasoning"),
        ([{"role": "assistant", "content": "a", "tool_calls": NOTHING}], "openai", "no calls"),
        (shown("data:image/svg+xml;base64,AAAA"), "openai", "the file"),
        (shown("data:image/png;base64,AAAA"), "deepseek", "the file"),
        (shown("https://x.org/a.png"), "gemini-compatible", "address"),
        ([{"role": "user", "content": [{"type": "input_audio"}]}], "groq", "audio"),
    ],
)
def test_each_rule_of_a_server_is_looked_at(messages: list[Object], server: str, fault: str) -> None:
    """Each violation of a server's rule is reported, and is sound where it is allowed."""
    assert any(fault in found for found in chat_faults(messages, server)), chat_faults(messages, server)
    assert chat_faults([ASKED, *called()], "openai") == []


GIVEN: Object = {"functionCall": {"name": "ls", "args": {}}}
MISNAMED: Object = {"functionCall": {"name": "1", "args": {}}}
FOUND_BY: Object = {"functionResponse": {"name": "ls", "response": {"output": ""}}}


@pytest.mark.parametrize(
    ("contents", "fault"),
    [
        ([[{"text": "a"}], [GIVEN]], "not answered"),
        ([[{"text": "a"}], [GIVEN], [{"text": "b"}]], "answered by"),
        ([[{"text": "a"}], [GIVEN], [FOUND_BY, {"text": "b"}]], "answered by"),
        ([[GIVEN], [FOUND_BY]], "by the user"),
        ([[{"text": "a"}], [MISNAMED]], "name or arguments"),
        ([[{"text": "a"}], [{"text": "b", "thought": True}]], "without a signature"),
        ([[{"text": ""}]], "empty text"),
        ([NOTHING], "without parts"),
        ([[{"inlineData": {"mimeType": "image/svg+xml", "data": "AAAA"}}]], "svg"),
    ],
)
def test_each_gemini_rule_is_looked_at(contents: list[list[Object]], fault: str) -> None:
    """Each violation of a rule of Gemini is reported."""
    roles = ("user", "model")
    request = {"contents": [{"role": roles[n % 2], "parts": parts} for n, parts in enumerate(contents)]}
    assert any(fault in found for found in gemini_faults(request)), gemini_faults(request)
    assert gemini_faults({"contents": [{"role": "user", "parts": [{"text": "a"}]}]}) == []
    assert gemini_faults({"contents": [{"role": "model", "parts": [{"text": "a"}]}]}) == ["the user does not begin"]
