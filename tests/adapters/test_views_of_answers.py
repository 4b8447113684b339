"""Views of frameworks' answers: signatures, ciphers, refusals, server tools, call ids."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

import eventlog
from eventlog.adapters.langgraph import EverdeltaSaver
from eventlog.adapters.openai_agents import EverdeltaSession
from eventlog.adapters.pydantic_ai import EverdeltaConversationStore
from eventlog.session.session import Session
from projections import ModelView
from projections.requests.anthropic import anthropic_request
from projections.requests.gemini import gemini_request
from projections.requests.openai_responses import responses_request
from projections.view.neutral import Call, Result

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "SIG"}
REDACTED = {"type": "redacted_thinking", "data": "CIPHER"}
ITEM = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}],
    "encrypted_content": "CIPHER",
}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "https://x", "title": "t", "encrypted_content": "E"}],
}


def _langgraph(*messages: AnyMessage) -> Session:
    saver = EverdeltaSaver(eventlog.open("memory:"))
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"]["messages"] = [HumanMessage("hi", id="h"), *messages]
    checkpoint["channel_versions"]["messages"] = 1
    saver.put({"configurable": {"thread_id": "t"}}, checkpoint, {"source": "input", "step": -1}, {"messages": 1})
    return saver.session("t")


def _pydantic(*messages: ModelMessage) -> Session:
    conversations = EverdeltaConversationStore(eventlog.open("memory:"))
    asyncio.run(conversations.save(Conversation(conversation_id="c", messages=list(messages))))
    return conversations.session("c")


def _openai(*items: dict[str, Any]) -> Session:
    session = EverdeltaSession(eventlog.open("memory:"), "s")
    asyncio.run(session.add_items([*items]))
    return session.session


def _answer(provider: str, content: Sequence[Any], **more: Any) -> AIMessage:
    about = {"model_name": "m", "model_provider": provider}
    return AIMessage(list(content), id="a", response_metadata=about, **more)


def _blocks(session: Session) -> list[Any]:
    """Return the blocks of the answers as Anthropic is sent them."""
    view = ModelView.of(session)
    sent = anthropic_request(view.messages, view.system)["messages"]
    return [block for message in sent if message["role"] == "assistant" for block in message["content"]]


def _items(session: Session) -> list[Any]:
    """Return the items behind the first question as OpenAI's Responses are sent them."""
    view = ModelView.of(session)
    return list(responses_request(view.messages, view.system)["input"][1:])


def _pairs(session: Session) -> list[tuple[str, Any, str]]:
    """Return the calls of a view, each with its input and its result."""
    parts = [part for message in ModelView.of(session).messages for part in message.parts]
    outputs = {part.call: part.output for part in parts if isinstance(part, Result)}
    return [(part.tool, json.loads(part.input), outputs[part.call]) for part in parts if isinstance(part, Call)]


@pytest.mark.parametrize(
    "thought",
    [
        THOUGHT,
        {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "SIG"}},
        {"type": "reasoning_content", "reasoning_content": {"text": "hm", "signature": "SIG"}},
    ],
)
def test_signed_thinking_of_langchain_goes_back_signed(thought: dict[str, Any]) -> None:
    """In each spelling of LangChain's integrations the thought keeps its signature."""
    session = _langgraph(_answer("anthropic", [thought, {"type": "text", "text": "Hello"}]))
    assert _blocks(session) == [THOUGHT, {"type": "text", "text": "Hello"}]


@pytest.mark.parametrize("wrapped", [False, True])
def test_redacted_thinking_and_server_tools_of_langchain_go_back(*, wrapped: bool) -> None:
    """Blocks of Anthropic alone, also in the standard form's wrapper, are sent as they came."""
    given = [REDACTED, SEARCH, FOUND]
    content: list[Any] = [{"type": "non_standard", "value": block} if wrapped else block for block in given]
    session = _langgraph(_answer("anthropic", [*content, "Hello"]))
    assert _blocks(session) == [*given, {"type": "text", "text": "Hello"}]


@pytest.mark.parametrize("beside", [False, True])
def test_reasoning_items_of_langchain_keep_cipher_and_summaries(*, beside: bool) -> None:
    """An item of the Responses API is whole again, from the content or from beside it."""
    text = {"type": "text", "text": "Hello", "id": "msg_1"}
    more: dict[str, Any] = {"reasoning": ITEM} if beside else {}
    session = _langgraph(_answer("openai", [text] if beside else [ITEM, text], additional_kwargs=more))
    thought, said = _items(session)
    assert thought == ITEM
    assert said["id"] == "msg_1"


def test_a_call_of_langchain_stands_behind_its_reasoning() -> None:
    """A call keeps its item's id, and its place among reasoning items."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
    later = {**ITEM, "id": "rs_2"}
    calls: list[dict[str, Any]] = [{"name": "f", "args": {}, "id": "c1"}, {"name": "g", "args": {}, "id": "c2"}]
    other = {**call, "id": "fc_2", "call_id": "c2", "name": "g"}
    session = _langgraph(_answer("openai", [ITEM, call, later, other], tool_calls=calls))
    assert [one.get("id") for one in _items(session)][:4] == ["rs_1", "fc_1", "rs_2", "fc_2"]


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_beside_the_content_is_reasoning(key: str) -> None:
    """Reasoning that DeepSeek and others keep beside the content is the answer's."""
    session = _langgraph(AIMessage("Hello", id="a", additional_kwargs={key: "deep thoughts"}))
    (answer,) = [message for message in ModelView.of(session).messages if message.role == "assistant"]
    assert [getattr(part, "text", None) for part in answer.parts] == ["deep thoughts", "Hello"]


def test_refusals_are_texts() -> None:
    """A refusal is the text that the model said, in each framework, and no file."""
    block: Any = {"type": "refusal", "refusal": "I can't"}
    beside = AIMessage("", id="a", additional_kwargs={"refusal": "I can't"})
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [block]}
    sessions = [
        _langgraph(AIMessage([block], id="a")),
        _langgraph(beside),
        _openai({"role": "user", "content": "hi"}, item),
    ]
    for session in sessions:
        assert _blocks(session) == [{"type": "text", "text": "I can't"}]


def test_code_that_gemini_ran_goes_back() -> None:
    """Code and its outcome, and the signature of a call, are in the next request."""
    code = {"type": "executable_code", "executable_code": "1+1", "language": "PYTHON"}
    ran: dict[str, Any] = {"type": "code_execution_result", "code_execution_result": "2", "outcome": 1}
    signatures = {"__gemini_function_call_thought_signatures__": {"c1": "SIG"}}
    calls: list[dict[str, Any]] = [{"name": "f", "args": {}, "id": "c1"}]
    answer = _answer("google_genai", [code, ran], tool_calls=calls, additional_kwargs=signatures)
    view = ModelView.of(_langgraph(answer))
    parts = gemini_request(view.messages)["contents"][1]["parts"]
    assert parts[0] == {"executableCode": {"code": "1+1", "language": "PYTHON"}}
    assert parts[1] == {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}
    assert parts[2]["thoughtSignature"] == "SIG"


def test_tools_that_openai_ran_have_their_results() -> None:
    """An item with code is a call of the provider's, with what it gave."""
    item = {"type": "code_interpreter_call", "id": "ci_1", "code": "1+1", "outputs": [{"type": "logs", "logs": "2"}]}
    standard = [
        {"type": "server_tool_call", "id": "ci_1", "name": "code_interpreter", "args": {"code": "1+1"}},
        {"type": "server_tool_result", "tool_call_id": "ci_1", "status": "success", "output": item["outputs"]},
    ]
    for content in ([item], standard):
        assert _pairs(_langgraph(_answer("openai", content))) == [
            ("code_interpreter", {"code": "1+1"}, '[{"type":"logs","logs":"2"}]')
        ]


def test_pydantic_ai_gives_signed_and_redacted_thinking_back() -> None:
    """Parts of Anthropic's thinking have their signature and their cipher."""
    thoughts = [
        ThinkingPart("hm", signature="SIG", provider_name="anthropic"),
        ThinkingPart("", id="redacted_thinking", signature="CIPHER", provider_name="anthropic"),
    ]
    answer = ModelResponse([*thoughts, TextPart("Hello")], model_name="m", provider_name="anthropic")
    session = _pydantic(ModelRequest([UserPromptPart("hi")]), answer)
    assert _blocks(session) == [THOUGHT, REDACTED, {"type": "text", "text": "Hello"}]


def test_pydantic_ai_gives_reasoning_items_back() -> None:
    """Summaries of one item are one item again, with its cipher and the id of the text."""
    thoughts = [
        ThinkingPart("one", id="rs_1", signature="CIPHER", provider_name="openai"),
        ThinkingPart("two", id="rs_1", provider_name="openai"),
    ]
    answer = ModelResponse(
        [*thoughts, TextPart("Hello", id="msg_1", provider_name="openai")], model_name="m", provider_name="openai"
    )
    thought, said = _items(_pydantic(ModelRequest([UserPromptPart("hi")]), answer))
    assert thought == ITEM
    assert said["id"] == "msg_1"


def test_pydantic_ai_gives_geminis_signatures_and_code_back() -> None:
    """A signature stands at the part behind the thought; code has its outcome."""
    code = NativeToolCallPart("code_execution", {"code": "1+1", "language": "PYTHON"}, "k", provider_name="google")
    ran = NativeToolReturnPart("code_execution", {"outcome": "OUTCOME_OK", "output": "2"}, "k", provider_name="google")
    thought = ThinkingPart("hm", signature="SIG", provider_name="google")
    answer = ModelResponse([code, ran, thought, ToolCallPart("f", {}, "c1")], model_name="m", provider_name="google")
    view = ModelView.of(_pydantic(ModelRequest([UserPromptPart("hi")]), answer))
    parts = gemini_request(view.messages)["contents"][1]["parts"]
    assert parts[0] == {"executableCode": {"code": "1+1", "language": "PYTHON"}}
    assert parts[1] == {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}
    assert parts[-1]["thoughtSignature"] == "SIG"


def test_a_providers_compaction_stands_for_what_came_before() -> None:
    """Anthropic's compaction in an answer of pydantic-ai is the beginning of the view."""
    summary = CompactionPart("we said hi", provider_name="anthropic")
    answer = ModelResponse([summary, TextPart("Hello")], model_name="m", provider_name="anthropic")
    session = _pydantic(ModelRequest([UserPromptPart("hi")]), answer, ModelRequest([UserPromptPart("and now?")]))
    assert _blocks(session) == [{"type": "compaction", "content": "we said hi"}, {"type": "text", "text": "Hello"}]


def test_instructions_are_the_system_prompt() -> None:
    """Of the instructions of pydantic-ai's requests the newest are in the view."""
    asked = [ModelRequest([UserPromptPart(f"q{n}")], instructions=f"be brief {n}") for n in range(2)]
    session = _pydantic(asked[0], ModelResponse([TextPart("a")]), asked[1])
    assert ModelView.of(session).system == ("be brief 1",)


@pytest.mark.parametrize("id", ["call_0", ""])
def test_parallel_calls_of_one_id_or_none_get_their_own_results(id: str) -> None:
    """Each call of an answer has the result that came for it, in the order of the results."""
    asked = [HumanMessage("q")]
    calls: list[Any] = [{"name": name, "args": {"n": n}, "id": id} for n, name in enumerate("fgf")]
    results = [ToolMessage(text, tool_call_id=id, name=name) for text, name in zip("BAC", "gff", strict=True)]
    langgraph = _langgraph(*asked, AIMessage("", id="a", tool_calls=calls), *results)
    parts = [ToolCallPart(name, {"n": n}, id) for n, name in enumerate("fgf")]
    returns = [ToolReturnPart(name, text, id) for text, name in zip("BAC", "gff", strict=True)]
    pydantic = _pydantic(ModelRequest([UserPromptPart("q")]), ModelResponse(parts), ModelRequest(returns))
    for session in (langgraph, pydantic):
        assert _pairs(session) == [("f", {"n": 0}, "A"), ("g", {"n": 1}, "B"), ("f", {"n": 2}, "C")]


def test_parallel_items_of_one_id_get_their_results_in_order() -> None:
    """Items of OpenAI name no tool: the oldest call that waits gets the next result."""
    calls = [{"type": "function_call", "call_id": "x", "name": "f", "arguments": f'{{"n":{n}}}'} for n in range(2)]
    results = [{"type": "function_call_output", "call_id": "x", "output": text} for text in "AB"]
    session = _openai({"role": "user", "content": "q"}, *calls, *results)
    assert _pairs(session) == [("f", {"n": 0}, "A"), ("f", {"n": 1}, "B")]


def test_results_find_their_calls_in_later_appends() -> None:
    """Calls of one id are told apart also by a process that did not tell them."""
    store = eventlog.open("memory:")
    calls = [{"type": "function_call", "call_id": "x", "name": "f", "arguments": f'{{"n":{n}}}'} for n in range(2)]
    asyncio.run(EverdeltaSession(store, "s").add_items([{"role": "user", "content": "q"}, *calls]))
    for text in "AB":
        item = {"type": "function_call_output", "call_id": "x", "output": text}
        asyncio.run(EverdeltaSession(store, "s").add_items([item]))
    assert _pairs(EverdeltaSession(store, "s").session) == [("f", {"n": 0}, "A"), ("f", {"n": 1}, "B")]


@pytest.mark.parametrize("given", ["{'a'", '{"a": 1', "[1]", '{"a": NaN}', "null"])
def test_malformed_arguments_reach_no_provider(given: str) -> None:
    """Arguments that are no JSON object are sent as one, whole in its member `input`."""
    called = AIMessage(
        "",
        id="a",
        invalid_tool_calls=[{"name": "f", "args": given, "id": "c", "error": None, "type": "invalid_tool_call"}],
    )
    answer = ModelResponse([ToolCallPart("f", given, "c")])
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": given}
    asked: dict[str, Any] = {"role": "user", "content": "q"}
    for session in (_langgraph(called), _pydantic(ModelRequest([UserPromptPart("q")]), answer), _openai(asked, item)):
        (sent,) = [one["arguments"] for one in _items(session) if one["type"] == "function_call"]
        assert json.loads(sent, parse_constant=pytest.fail) == {"input": given}
        (block,) = [one for one in _blocks(session) if one["type"] == "tool_use"]
        assert block["input"] == {"input": given}
