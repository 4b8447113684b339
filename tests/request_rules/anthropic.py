"""Rules of the Messages API."""

from __future__ import annotations

import base64
import json
import re
import struct
from itertools import pairwise
from typing import Any

from tests.request_rules import common
from tests.request_rules.common import Object, blank, inside, objects

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
NO_PREFILL = re.compile("claude-(opus|sonnet)-(4-[6-9]|[5-9])")
"""Models that refuse a last message of the assistant."""
BY_USER = {"text", "image", "document", "search_result", "tool_result", "container_upload"}
BY_ASSISTANT = {"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use", "compaction"}


def broken(body: Object, *, whole: bool = True) -> list[str]:
    """The rules that a body breaks; with `whole=False` it may end without a question."""
    messages = objects(body.get("messages"))
    found = common.unsendable(body) + _cache(body) + _images(body)
    roles = [message.get("role") for message in messages]
    found += ["there are no messages"] if whole and not messages else []
    found += ["the user is not first"] if roles[:1] not in ([], ["user"]) else []
    if NO_PREFILL.match(str(body.get("model"))) and roles[-1:] == ["assistant"]:
        found.append("the model takes no prefill")
    found += [f"two messages of {one} in a row" for one, other in pairwise(roles) if one == other]
    found += ["a blank text in the system prompt" for block in objects(body.get("system")) if blank(block.get("text"))]
    if len(json.dumps(body)) > 32 << 20:
        found.append("the request is over 32 MB")
    for message in messages:
        found += _message(message, last=message is messages[-1])
    found += common.twice("the call", [block.get("id") for block in _blocks(messages, "tool_use")])
    return found + _pairs(messages, whole) + _thinking(messages)


def _content(message: Object) -> list[Object]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)


def _blocks(messages: list[Object], kind: str) -> list[Object]:
    return [block for message in messages for block in _content(message) if block.get("type") == kind]


def _message(message: Object, *, last: bool) -> list[str]:
    role, content = message.get("role"), _content(message)
    found: list[str] = []
    if not content and not (last and role == "assistant"):
        found.append(f"a message of {role} is empty")
    if last and role == "assistant" and content and content[-1].get("text", "") != content[-1].get("text", "").rstrip():
        found.append("the last answer ends with a space")
    for block in content:
        kind = str(block.get("type"))
        by_server = role == "assistant" and kind.endswith("_tool_result")
        if not by_server and kind not in (BY_USER if role == "user" else BY_ASSISTANT):
            found.append(f"{kind} by {role}")
        if kind == "text" and blank(block.get("text")):
            found.append("a text is blank")
        if kind in ("tool_use", "server_tool_use"):
            pattern = r"srvtoolu_[a-zA-Z0-9_]+" if kind == "server_tool_use" else "[a-zA-Z0-9_-]+"
            found += common.unfit("the id", block.get("id"), pattern)
            found += common.unfit("the tool", block.get("name"), "[a-zA-Z0-9_-]{1,128}")
            found += [] if common.is_object(block.get("input")) else ["the input is no object"]
        if kind == "tool_result":
            found += _result(block)
        if kind in ("thinking", "redacted_thinking") and not block.get("signature" if kind == "thinking" else "data"):
            found.append(f"{kind} without its signature")
    return found


def _result(block: Object) -> list[str]:
    content = block.get("content")
    parts = objects(content)
    found = ["a text is blank" for part in parts if part.get("type") == "text" and blank(part.get("text"))]
    if block.get("is_error") and (not content or any(part.get("type") != "text" for part in parts)):
        found.append("an error has no content, or media")
    return found


def _pairs(messages: list[Object], whole: bool) -> list[str]:
    found: list[str] = []
    asked: list[Any] = []
    for message in messages:
        content = _content(message)
        kinds = [block.get("type") for block in content]
        answered = [block.get("tool_use_id") for block in content if block.get("type") == "tool_result"]
        found += [f"the call {id!r} is not answered in the next message" for id in asked if id not in answered]
        found += [f"a result without its call {id!r}" for id in answered if id not in asked]
        found += common.twice("the result", answered)
        if answered and "tool_result" in kinds[kinds.index("tool_result") :][len(answered) :]:
            found.append("a result behind other content")
        if answered and kinds[0] != "tool_result":
            found.append("a result behind other content")
        asked = [block.get("id") for block in content if block.get("type") == "tool_use"]
        open_: list[Any] = []
        for block in content if message.get("role") == "assistant" else ():
            kind = str(block.get("type"))
            if kind in ("server_tool_use", "mcp_tool_use"):
                open_.append(block.get("id"))
            elif kind.endswith("_tool_result"):
                found += [] if block.get("tool_use_id") in open_ else ["a server's result without its call"]
                open_ = [id for id in open_ if id != block.get("tool_use_id")]
        found += [f"the server's call {id!r} has no result" for id in open_]
    return found + [f"the call {id!r} is not answered" for id in asked if whole]


def _thinking(messages: list[Object]) -> list[str]:
    found: list[str] = []
    answers = [_content(message) for message in messages if message.get("role") == "assistant"]
    if any(content and content[-1].get("type") in ("thinking", "redacted_thinking") for content in answers):
        found.append("an answer ends with thinking")
    return found


def _cache(body: Object) -> list[str]:
    whole = [body.get("tools"), body.get("system"), body.get("messages")]
    marked = [block for block in inside(whole) if common.is_object(block.get("cache_control"))]
    found = [f"{len(marked)} cache breakpoints"] if len(marked) > 4 else []
    if any(str(block.get("type")).endswith("thinking") for block in marked):
        found.append("a cache breakpoint on thinking")
    times = [block["cache_control"].get("ttl", "5m") for block in marked]
    return found + (["a breakpoint of 1h behind one of 5m"] if times != sorted(times) else [])


def _images(body: Object) -> list[str]:
    images = [block for block in inside(body.get("messages")) if block.get("type") in ("image", "document")]
    sources: list[Any] = [block["source"] for block in images if common.is_object(block.get("source"))]
    shown = sum(block["type"] == "image" for block in images)
    found = [f"{shown} images"] if shown > 100 else []
    for source in sources:
        kind, data = source.get("media_type"), source.get("data")
        if source.get("type") == "url":
            found += common.bad_address(source.get("url"))
        elif source.get("type") == "base64":
            found += common.bad_data(str(kind), data) if kind in (*IMAGES, "application/pdf") else [f"media of {kind}"]
            if kind in IMAGES and len(data or "") > 5 << 20:
                found.append("an image is over 5 MB in base64")
            if kind == "image/png" and max(_size(data)) > (2_000 if shown > 20 else 8_000):
                found.append("an image has too many pixels")
        elif source.get("type") == "text" and blank(data):
            found.append("a document is blank")
    return found


def _size(data: Any) -> tuple[int, ...]:
    """Width and height in the header of a PNG; 0 where it has none."""
    try:
        start = base64.b64decode(str(data)[:40])
        return struct.unpack(">II", start[16:24])
    except (ValueError, struct.error):
        return (0,)
