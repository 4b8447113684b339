"""Faults that providers refuse, each put into a sound body."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.request_rules.common import Object, inside

Change = Callable[[Object], object]


class Fault(NamedTuple):
    """A fault: the API and the server, the change that puts it in, and who refuses it."""

    api: str
    server: str
    change: Change
    typed: bool = False
    """Whether the packages' types refuse it, and not the rules."""


def png(width: int) -> str:
    """The base64 of the beginning of a PNG."""
    return base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4, "big") * 2).decode()


def picture(url: str) -> Object:
    """An image in Chat Completions."""
    return {"type": "image_url", "image_url": {"url": url}}


SVG = "data:image/svg+xml;base64,PHN2Zy8+"


def add(name: str, *items: Object) -> Change:
    """Put messages at the beginning of a list of the body."""
    return lambda body: body[name].__setitem__(slice(0, 0), items)


def end(name: str, *items: Object) -> Change:
    """Put messages at the end of a list of the body."""
    return lambda body: body[name].extend(items)


def every(kind: str, **members: Any) -> Change:
    """Set members of each object of a type or role, within the body; None takes one away."""

    def change(body: Object) -> None:
        found = 0
        for one in list(inside(body)):
            if _is_of(one, kind):
                found += 1
                target: Object = one[kind] if isinstance(one.get(kind), dict) else one
                target.update(members)
                for name in [name for name, value in members.items() if value is None]:
                    del target[name]
        assert found, f"there is no {kind}"

    return change


def without(name: str, kind: str) -> Change:
    """Take away the messages of a type or role, or those that have a part of it."""

    def change(body: Object) -> None:
        kept = [one for one in body[name] if not any(_is_of(part, kind) for part in inside(one))]
        assert len(kept) < len(body[name])
        body[name] = kept

    return change


def _is_of(one: Object, kind: str) -> bool:
    return kind in {one.get("type"), one.get("role"), *one}


def reasoned(change: Change) -> Change:
    """Make the change, and name a model that reasons."""
    return lambda body: (body.update(model="gpt-5"), change(body))


def said(role: str, content: Any, **more: Any) -> Object:
    """A message."""
    return {"role": role, "content": content, **more}


def asked(*parts: Any) -> Object:
    """A user message."""
    return {"role": "user", "content": [*parts]}


def text(words: str) -> Object:
    """A text."""
    return {"type": "text", "text": words}


def image(data: str = "AAAA", kind: str = "image/png") -> Object:
    """An image in Messages."""
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def thought(**more: Any) -> Object:
    """An answer that begins with thinking, in Messages."""
    return said("assistant", [{"type": "thinking", "thinking": "hm", "signature": "s", **more}, text("a")])


def call(**more: Any) -> Object:
    """A call of a function in Chat Completions."""
    return {"function": {"name": "ls", "arguments": "{}", **more}}


MARK = {"cache_control": {"type": "ephemeral"}}
CODE: Object = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND: Object = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
SUMMARY: Object = {"type": "compaction", "encrypted_content": "c"}
CHAT: dict[str, Change] = {
    "an id over 40": every("tool_calls", tool_calls=[{"id": "c" * 41, "type": "function", **call()}]),
    "a name with a dot": every("function", name="a.b"),
    "a name over 64": every("function", name="n" * 65),
    "arguments no JSON": every("function", arguments='{"a":'),
    "arguments an array": every("function", arguments="[]"),
    "a call without its result": without("messages", "tool"),
    "a result without its call": without("messages", "assistant"),
    "a user before the result": lambda body: body["messages"].insert(-1, said("user", "wait")),
    "one id twice": lambda body: body["messages"].extend(body["messages"][-2:]),
    "an SVG": end("messages", asked(picture(SVG))),
    "an address of an SVG": end("messages", asked(picture("https://x.org/a.svg"))),
    "an address as a file": end("messages", asked({"type": "file", "file": {"file_data": "https://x.org/a.pdf"}})),
    "a path as an image": end("messages", asked(picture("file:///a.png"))),
    "an image of another type": end("messages", asked(picture("data:image/png;base64,/9j/AAAA"))),
    "an image that is empty": end("messages", asked(picture("data:image/png;base64,"))),
    "an image no base64": end("messages", asked(picture("data:image/png;base64,?"))),
    "an answer without content": end("messages", said("assistant", None), asked(text("a"))),
    "no content": end("messages", asked()),
    "an empty text": end("messages", asked(text(""))),
    "no calls": end("messages", said("assistant", "a", tool_calls=[]), asked(text("a"))),
    "a lone surrogate": end("messages", said("user", "\ud800")),
    "no question": lambda body: body.update(messages=[said("system", "a")]),
    "sound of another kind": end(
        "messages", asked({"type": "input_audio", "input_audio": {"data": "AA==", "format": "ogg"}})
    ),
}
SERVERS: dict[str, tuple[str, Change]] = {
    "reasoning to Groq": ("groq", end("messages", said("assistant", "a", reasoning_content="b"), asked(text("c")))),
    "reasoning to Cerebras": (
        "cerebras",
        end("messages", said("assistant", "a", reasoning_content="b"), said("user", "c")),
    ),
    "reasoning to Mistral": (
        "mistral",
        end("messages", said("assistant", "a", reasoning_content="b"), said("user", "c")),
    ),
    "no reasoning to DeepSeek": ("deepseek", every("assistant", reasoning_content=None)),
    "an id for Mistral": ("mistral", every("tool_calls", tool_calls=[{"id": "call_1", "type": "function", **call()}])),
    "a user behind Mistral's result": ("mistral", end("messages", said("user", "a"))),
    "Mistral's last answer": ("mistral", end("messages", said("assistant", "a"))),
    "an empty answer to Groq": ("groq", end("messages", said("assistant", ""), said("user", "a"))),
    "two users to a template": ("vllm", add("messages", said("user", "a"), said("user", "a"))),
    "two systems to a template": ("llama.cpp", add("messages", said("system", "a"), said("system", "a"))),
    "an address for Ollama": ("ollama-compatible", end("messages", asked(picture("https://x.org/a.png")))),
    "an image for DeepSeek": ("deepseek", end("messages", asked(picture("https://x.org/a.png")))),
    "WebP for llama.cpp": ("llama.cpp", end("messages", asked(picture("data:image/webp;base64,UklGRAAA")))),
}
RESPONSES: dict[str, Change] = {
    "an item's id over 64": every("function_call", id="fc_" + "x" * 62),
    "an item's id of another kind": every("function_call", id="call_1"),
    "a call without its reasoning": reasoned(every("function_call", id="fc_1")),
    "a text without its reasoning": reasoned(
        end(
            "input",
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                **said("assistant", [{"type": "output_text", "text": "a", "annotations": []}]),
            },
        )
    ),
    "reasoning alone": end("input", {"type": "reasoning", "id": "rs_1", "summary": []}),
    "reasoning before a question": end("input", {"type": "reasoning", "id": "rs_1", "summary": []}, said("user", "a")),
    "a call id over 64": every("function_call", call_id="c" * 65),
    "a name over 128": every("function_call", name="n" * 129),
    "a call without its output": without("input", "function_call_output"),
    "an output without its call": without("input", "function_call"),
    "an output before its call": lambda body: body["input"].reverse(),
    "a call twice": lambda body: body["input"].extend(list(body["input"])),
    "a compaction without its cipher": end("input", {"type": "compaction", "encrypted_content": ""}),
    "a compaction twice": end("input", {**SUMMARY, "id": "cmp_1"}, {**SUMMARY, "id": "cmp_1"}),
    "a phase of the user": end("input", said("user", "a", phase="commentary")),
    "an address as a file": end("input", asked({"type": "input_file", "file_url": "file:///a.pdf"})),
    "an SVG": end("input", asked({"type": "input_image", "image_url": SVG, "detail": "auto"})),
    "no content": end("input", asked()),
    "an empty text": end("input", asked({"type": "input_text", "text": ""})),
    "arguments no JSON": every("function_call", arguments="{"),
    "no input": lambda body: body.update(input=[]),
    "reasoning that is not stored": lambda body: (
        body.update(store=False),
        body["input"].insert(0, {"type": "reasoning", "id": "rs_1", "summary": []}),
    ),
}
ANTHROPIC: dict[str, Change] = {
    "the assistant first": add("messages", said("assistant", "a")),
    "two users in a row": add("messages", asked(text("a"))),
    "thinking without its signature": every("thinking", signature=""),
    "redacted thinking without its cipher": end(
        "messages", said("assistant", [{"type": "redacted_thinking", "data": ""}, text("a")]), asked(text("b"))
    ),
    "an end of thinking": end("messages", said("assistant", thought()["content"][:1]), asked(text("b"))),
    "a call without its result": lambda body: body["messages"].pop(),
    "a result without its call": every("tool_result", tool_use_id="toolu_other"),
    "a result behind text": lambda body: body["messages"][-1]["content"].insert(0, text("a")),
    "a call's id": every("tool_use", id="c.1"),
    "a name over 128": every("tool_use", name="n" * 129),
    "a call twice": lambda body: body["messages"].extend(body["messages"][-2:]),
    "a blank text": end("messages", said("assistant", [text("a"), text(" ")]), asked(text("b"))),
    "an empty message": end("messages", said("assistant", [text("a")]), asked()),
    "a space at the end": end("messages", said("assistant", "a ")),
    "a prefill that the model refuses": lambda body: (
        body.update(model="claude-opus-4-6"),
        body["messages"].append(said("assistant", "a")),
    ),
    "an error without words": every("tool_result", is_error=True, content=[]),
    "an error with an image": every("tool_result", is_error=True, content=[image()]),
    "five breakpoints": end("messages", said("assistant", [{**text("a"), **MARK} for _ in range(5)])),
    "a breakpoint on thinking": every("thinking", **MARK),
    "a later breakpoint of an hour": end(
        "messages",
        said("assistant", [{**text("a"), **MARK}, {**text("a"), "cache_control": {"type": "ephemeral", "ttl": "1h"}}]),
    ),
    "an image over 5 MB": end("messages", said("assistant", "a"), asked(image("A" * (5 << 20) + "AAAA"))),
    "101 images": end("messages", said("assistant", "a"), asked(*[image()] * 101)),
    "2,001 pixels among 21": end("messages", said("assistant", "a"), asked(image(png(2_001)), *[image()] * 20)),
    "8,001 pixels": end("messages", said("assistant", "a"), asked(image(png(8_001)))),
    "an SVG": end("messages", said("assistant", "a"), asked(image(kind="image/svg+xml"))),
    "an image of another type": end("messages", said("assistant", "a"), asked(image("/9j/AAAA"))),
    "an image by the assistant": end("messages", said("assistant", [image()]), asked(text("a"))),
    "a compaction by the user": end("messages", said("assistant", "a"), asked({"type": "compaction", "content": "a"})),
    "a server's call without its result": end("messages", said("assistant", [CODE])),
    "a server's result without its call": end("messages", said("assistant", [FOUND, text("a")])),
    "a server's call id": end("messages", said("assistant", [{**CODE, "id": "x"}, {**FOUND, "tool_use_id": "x"}])),
    "over 32 MB": end("messages", said("assistant", "a" * (32 << 20))),
    "a blank system prompt": lambda body: body.update(system=[text("")]),
}
GEMINI: dict[str, Change] = {
    "calls without responses": lambda body: body["contents"].pop(),
    "a response too many": lambda body: body["contents"][-1]["parts"].append(dict(body["contents"][-1]["parts"][0])),
    "a response of another call": every("functionResponse", id="other"),
    "words among responses": lambda body: body["contents"][-1]["parts"].append({"text": "a"}),
    "a call without its signature": lambda body: body["contents"][1]["parts"][0].pop("thoughtSignature"),
    "a signature no base64": lambda body: [part.update(thoughtSignature="?") for part in body["contents"][1]["parts"]],
    "a thought without its signature": lambda body: body["contents"][1]["parts"].append({"text": "a", "thought": True}),
    "a name that begins with a digit": every("functionCall", name="1st"),
    "a response no object": every("functionResponse", response=None),
    "inline data of SVG": lambda body: body["contents"][0]["parts"].append(
        {"inlineData": {"mimeType": "image/svg+xml", "data": "AAAA"}}
    ),
    "a path as a file": lambda body: body["contents"][0]["parts"].append(
        {"fileData": {"mimeType": "image/png", "fileUri": "/a.png"}}
    ),
    "an empty text": lambda body: body["contents"][0]["parts"].append({"text": ""}),
    "no parts": lambda body: body["contents"][0].update(parts=[]),
    "two kinds of data": lambda body: body["contents"][0]["parts"][0].update(
        inlineData={"mimeType": "image/png", "data": "AAAA"}
    ),
    "the model first": lambda body: body["contents"].pop(0),
    "an empty instruction": lambda body: body.update(systemInstruction={"parts": [{"text": ""}]}),
    "a call by the user": lambda body: body["contents"][1].update(role="user"),
}
AI_SDK: dict[str, Change] = {
    "a call without its result": lambda body: body["messages"].pop(),
    "a result without its call": without("messages", "assistant"),
    "an empty text": add("messages", asked(text(""))),
    "a call by the user": every("tool-call", type="tool-approval-response"),
    "options no objects": every("tool-call", providerOptions={"p": 1}),
    "an output of no kind": every("tool-result", output={"type": "text", "value": 1}),
    "an empty system prompt": add("messages", said("system", "")),
    "another member": every("tool-call", args={}),
    "media without bytes": every(
        "tool-result", output={"type": "content", "value": [{"type": "media", "data": "", "mediaType": "a/b"}]}
    ),
}
TYPES: dict[str, tuple[str, Change]] = {
    "reasoning to OpenAI": ("chat", end("messages", said("assistant", "a", reasoning_content="b"))),
    "an unknown role": ("chat", end("messages", said("model", "a"))),
    "an image in a result": ("chat", every("tool", content=[picture("https://x.org/a.png")])),
    "an image as a text": ("chat", end("messages", asked({"type": "image_url", "image_url": "https://x.org/a.png"}))),
    "arguments an object": ("chat", every("function", arguments={})),
    "a call without its kind": ("chat", every("tool_calls", tool_calls=[{"id": "1", **call()}])),
    "an output an object": ("responses", every("function_call_output", output={})),
    "reasoning without a summary": ("responses", add("input", {"type": "reasoning", "id": "rs_1"})),
    "an input of the assistant": ("responses", end("input", said("assistant", [{"type": "input_txt", "text": "a"}]))),
    "a thought without its member": ("anthropic", every("thinking", signature=None)),
    "a document's kind": ("anthropic", end("messages", asked({"type": "file", "source": {}}))),
    "a block's other member": ("anthropic", end("messages", asked({**text("a"), "title": "b"}))),
    "a content as a text": ("gemini", lambda body: body["contents"].append({"role": "user", "parts": {"txt": "a"}})),
    "a part's other member": (
        "gemini",
        lambda body: body["contents"][0]["parts"].append({"text": "a", "signature": "b"}),
    ),
    "an unknown part": ("ai_sdk", add("messages", asked({"type": "picture"}))),
    "an input as a string": ("ai_sdk", every("tool-call", toolName=1)),
}
FAULTS = {
    **{f"chat: {name}": Fault("chat", "openai", change) for name, change in CHAT.items()},
    **{f"chat: {name}": Fault("chat", server, change) for name, (server, change) in SERVERS.items()},
    **{f"responses: {name}": Fault("responses", "", change) for name, change in RESPONSES.items()},
    **{f"anthropic: {name}": Fault("anthropic", "", change) for name, change in ANTHROPIC.items()},
    **{f"gemini: {name}": Fault("gemini", "", change) for name, change in GEMINI.items()},
    **{f"ai_sdk: {name}": Fault("ai_sdk", "", change) for name, change in AI_SDK.items()},
    **{f"{api}: {name}": Fault(api, "openai", change, typed=True) for name, (api, change) in TYPES.items()},
}
"""By name."""
