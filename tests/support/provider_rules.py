"""Provider rules for finished requests, written from documentation, not from renderers."""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, TypeGuard

Object = dict[str, Any]

NAME = re.compile("[a-zA-Z0-9_-]+")
SERVER_ID = re.compile("srvtoolu_[a-zA-Z0-9_]+")
PICTURES = {"image/gif", "image/jpeg", "image/png", "image/webp"}
BEGINNINGS = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lGO": "image/gif", "UklGR": "image/webp"}
SURROGATE = re.compile("[\ud800-\udfff]")


def is_object(value: object) -> TypeGuard[Object]:
    """Whether a value is a JSON object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a value is a JSON array."""
    return isinstance(value, list)


def repeated(names: list[str]) -> list[str]:
    """The names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def texts(value: Any) -> Iterator[str]:
    """Every string within a JSON value."""
    if isinstance(value, str):
        yield value
    elif is_object(value):
        yield from texts([*value.keys(), *value.values()])
    elif is_array(value):
        for item in value:
            yield from texts(item)


def unsendable(value: Any) -> list[str]:
    """A fault for each text that is invalid Unicode."""
    return ["a lone surrogate" for text in texts(value) if SURROGATE.search(text)]


def bytes_faults(data: str) -> list[str]:
    """List the faults of base64 data."""
    try:
        return [] if base64.b64decode(data, validate=True) else ["a file without bytes"]
    except binascii.Error:
        return ["data that is not base64"]


def anthropic_faults(request: Object, *, whole: bool = True) -> list[str]:
    """Faults of a Messages request; `whole` false if the conversation may be empty."""
    messages: list[Object] = request["messages"]
    faults = unsendable(request)
    if not messages:
        return faults + (["no messages"] if whole else [])
    if messages[0]["role"] != "user":
        faults.append("the user does not begin")
    faults += ["an empty system block" for block in request["system"] if not block["text"].strip()]
    faults += [
        f"two messages of {one['role']} in a row" for one, two in pairwise(messages) if one["role"] == two["role"]
    ]
    used: list[str] = []
    waiting: list[str] = []
    for message in messages:
        content: list[Object] = message["content"]
        kinds = [block["type"] for block in content]
        if not content:
            faults.append("a message without content")
        for block in content:
            faults += _anthropic_block(block, message["role"])
        if message["role"] == "user":
            answered = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
            if sorted(answered) != sorted(waiting):
                faults.append(f"calls {waiting} are answered by {answered}")
            if "tool_result" in kinds[len(answered) :]:
                faults.append("a result behind other content")
            waiting = []
        else:
            waiting = [block["id"] for block in content if block["type"] == "tool_use"]
            used += [block["id"] for block in content if block["type"] in {"tool_use", "server_tool_use"}]
            faults += _served(content)
            if "tool_use" in kinds and any(kind != "tool_use" for kind in kinds[kinds.index("tool_use") :]):
                faults.append("content behind a call")
            if kinds and kinds[-1] in {"thinking", "redacted_thinking"}:
                faults.append("a message that ends with thinking")
    if waiting:
        faults.append(f"calls {waiting} are not answered")
    faults += [f"the id {name} is used twice" for name in repeated(used)]
    faults += _marks(request) + _pictures([block for block in objects(messages) if block.get("type") == "image"])
    last = messages[-1]["content"][-1:]
    if messages[-1]["role"] == "assistant" and last and last[0]["type"] == "text" and last[0]["text"][-1:].isspace():
        faults.append("a prefill that ends with white space")
    return faults


def objects(value: Any) -> Iterator[Object]:
    """Every object within a JSON value."""
    if is_object(value):
        yield value
        yield from objects([*value.values()])
    elif is_array(value):
        for item in value:
            yield from objects(item)


def _marks(request: Object) -> list[str]:
    """Faults of cache breakpoints."""
    marked = [found for found in objects(request) if "cache_control" in found]
    faults = ["more than four cache breakpoints"] if len(marked) > 4 else []
    return faults + ["a breakpoint on thinking" for found in marked if "thinking" in found["type"]]


def _pictures(images: list[Object]) -> list[str]:
    """Faults of images by number, bytes and types."""
    faults = ["more than 100 images"] if len(images) > 100 else []
    for source in (image["source"] for image in images if image["source"]["type"] == "base64"):
        faults += ["an image over 5 MB"] if len(source["data"]) > 5 * 1024 * 1024 else []
        faults += [] if source["media_type"] in PICTURES else [f"an image of {source['media_type']}"]
        begun = next((mime for begin, mime in BEGINNINGS.items() if source["data"].startswith(begin)), None)
        faults += ["an image of another type"] if begun not in {None, source["media_type"]} else []
    return faults


def _anthropic_block(block: Object, role: str) -> list[str]:
    kind = block["type"]
    faults: list[str] = []
    if kind == "text" and not block["text"].strip():
        faults.append("a blank text")
    if kind in {"tool_use", "server_tool_use"}:
        if not NAME.fullmatch(block["id"]) or not NAME.fullmatch(block["name"]) or len(block["name"]) > 128:
            faults.append(f"the id or name of a call: {block['id']!r}, {block['name']!r}")
        if kind == "server_tool_use" and not SERVER_ID.fullmatch(block["id"]):
            faults.append(f"the id of a server tool: {block['id']!r}")
        if not isinstance(block["input"], dict):
            faults.append("an input that is not an object")
    if kind in {"tool_use", "thinking", "redacted_thinking"} and role != "assistant":
        faults.append(f"{kind} by the user")
    if kind in {"tool_result", "image", "document"} and role != "user":
        faults.append(f"{kind} by the assistant")
    if kind == "thinking" and not block["signature"]:
        faults.append("thinking without a signature")
    if kind in {"image", "document"} and block["source"]["type"] == "base64":
        faults += bytes_faults(block["source"]["data"])
    if kind == "tool_result":
        if block.get("is_error") and any(inner["type"] != "text" for inner in block.get("content", [])):
            faults.append("an error with media")
        faults += [fault for inner in block.get("content", []) for fault in _anthropic_block(inner, "user")]
        if block.get("is_error") and not block.get("content"):
            faults.append("an error without content")
    return faults


def _served(content: list[Object]) -> list[str]:
    """Faults of server tools: each call needs one result in its own message."""
    calls = [block["id"] for block in content if block["type"] == "server_tool_use"]
    results = [
        block["tool_use_id"] for block in content if block["type"].endswith("_tool_result") and "tool_use_id" in block
    ]
    return [] if calls == results else [f"server tools {calls} are answered by {results}"]


def responses_faults(request: Object) -> list[str]:
    """Faults of a Responses request."""
    items: list[Object] = request["input"]
    faults = unsendable(request)
    if not request.get("instructions", "x"):
        faults.append("empty instructions")
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    results = [item["call_id"] for item in items if item["type"] == "function_call_output"]
    faults += [f"the call {name} is made twice" for name in repeated(calls)]
    faults += [f"the call {name} is answered twice" for name in repeated(results)]
    if set(calls) != set(results):
        faults.append(f"calls {set(calls) ^ set(results)} without a call or an answer")
    ids = [item["id"] for item in items if "id" in item]
    faults += [f"the item {name} is there twice" for name in repeated(ids)]
    faults += [f"the address {address[:30]}" for address in _addresses(request) if not SENT.match(address)]
    made: set[str] = set()
    waiting: set[str] = set()
    for number, item in enumerate(items):
        kind = item["type"]
        faults += _item_id(item, items[number - 1] if number else {})
        if kind == "function_call":
            made.add(item["call_id"])
            waiting.add(item["call_id"])
            if not 0 < len(item["call_id"]) <= 64 or not NAME.fullmatch(item["name"]) or len(item["name"]) > 128:
                faults.append(f"the id or name of a call: {item['call_id']!r}, {item['name']!r}")
        elif kind == "function_call_output":
            waiting.discard(item["call_id"])
            if item["call_id"] not in made:
                faults.append("an answer before its call")
        elif kind == "message" and item["role"] == "user":
            if waiting:
                faults.append(f"the user speaks before {waiting} are answered")
            if not item["content"]:
                faults.append("a message without content")
        if kind == "reasoning" and (number + 1 == len(items) or items[number + 1].get("role") == "user"):
            faults.append("reasoning that nothing follows")
        if kind == "message":
            said = (
                [item["content"]] if isinstance(item["content"], str) else [x.get("text", "x") for x in item["content"]]
            )
            faults += ["an empty text" for text in said if not text]
    return faults


def _addresses(request: Object) -> Iterator[str]:
    for found in objects(request):
        yield from (found[name] for name in ("image_url", "file_data", "file_url") if isinstance(found.get(name), str))


def _item_id(item: Object, before: Object) -> list[str]:
    """Faults of the id of an item that follows another."""
    kind, name = item["type"], item.get("id")
    if name is None:
        return ["reasoning without an id"] if kind == "reasoning" else []
    faults = [] if 3 < len(name) <= 64 and name.startswith(ITEM_IDS[kind]) else [f"the item id {name!r} of {kind}"]
    hangs = kind in {"message", "function_call"} and before.get("type") != "reasoning"
    return [*faults, f"the item id {name!r} without its reasoning"] if hangs else faults


ITEM_IDS = {"message": "msg_", "reasoning": "rs_", "function_call": "fc_", "web_search_call": "ws_"}
SENT = re.compile("https?://|data:(image/(png|jpeg|gif|webp)|application/pdf);base64,")


PARTS = {
    "user": {"text": {"text"}, "file": {"data", "mediaType"}, "image": {"image"}},
    "assistant": {
        "text": {"text"},
        "file": {"data", "mediaType"},
        "reasoning": {"text"},
        "tool-call": {"toolCallId", "toolName", "input"},
        "tool-result": {"toolCallId", "toolName", "output"},
    },
    "tool": {"tool-result": {"toolCallId", "toolName", "output"}},
}
OPTIONAL = {
    "file": {"filename"},
    "tool-call": {"providerExecuted"},
}
OUTPUTS: dict[str, Any] = {"text": str, "json": (dict, list), "error-text": str, "content": list}


def model_message_faults(messages: list[Object]) -> list[str]:
    """Faults of AI SDK 5 model messages, by the schema of its documentation."""
    faults = unsendable(messages)
    used: list[str] = []
    waiting: list[str] = []
    for message in messages:
        role, content = message["role"], message["content"]
        if message.keys() != {"role", "content"}:
            faults.append(f"the members {sorted(message)}")
        if role == "system":
            faults += [] if isinstance(content, str) and content else ["an empty system message"]
            continue
        if not content:
            faults.append("a message without content")
        for part in content:
            faults += _model_part(role, part)
        calls = [part for part in content if part["type"] == "tool-call"]
        results = [part["toolCallId"] for part in content if part["type"] == "tool-result"]
        served = [part["toolCallId"] for part in calls if part.get("providerExecuted")]
        if role == "tool":
            if sorted(results) != sorted(waiting):
                faults.append(f"calls {waiting} are answered by {results}")
            waiting = []
        else:
            if waiting:
                faults.append(f"{role} speaks before {waiting} are answered")
            if results != served:
                faults.append(f"the provider's tools {served} are answered by {results}")
            waiting = [part["toolCallId"] for part in calls if part["toolCallId"] not in served]
            used += [part["toolCallId"] for part in calls]
    if waiting:
        faults.append(f"calls {waiting} are not answered")
    return faults + [f"the id {name} is used twice" for name in repeated(used)]


def _model_part(role: str, part: Object) -> list[str]:
    kind = part["type"]
    wanted = PARTS[role].get(kind)
    if wanted is None:
        return [f"a part of type {kind} by {role}"]
    faults: list[str] = []
    members = part.keys() - {"type", "providerOptions"} - OPTIONAL.get(kind, set())
    if members != wanted:
        faults.append(f"a {kind} with {sorted(members)}")
    if kind == "text" and not part["text"]:
        faults.append("an empty text")
    options = part.get("providerOptions", {})
    if not is_object(options) or not all(map(is_object, options.values())):
        faults.append("provider options that are not objects")
    if kind == "tool-result":
        output = part["output"]
        if output.keys() != {"type", "value"} or not isinstance(output["value"], OUTPUTS[output["type"]]):
            faults.append(f"an output {output}")
        elif output["type"] == "content":
            for inner in output["value"]:
                if inner["type"] == "media":
                    faults += bytes_faults(inner["data"])
                    faults += [] if inner["mediaType"] else ["media of no type"]
                elif inner["type"] != "text" or not inner["text"]:
                    faults.append(f"content of type {inner['type']}, or empty")
    return faults
