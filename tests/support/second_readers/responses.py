"""Bodies of OpenAI Responses and Conversations, and those in recorded exchanges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

from tests.support.independent_reader import Item, call_text
from tests.support.shared import shared_path

Body = dict[str, Any]
PARTS = {"input_text", "output_text", "input_image", "refusal"}


def recorded_bodies() -> Iterator[tuple[str, Body]]:
    """Yield requests and whole responses of cassettes, and responses that streams end with."""
    for path in sorted(shared_path("data").glob("*cassettes*/*.y*ml")):
        document: Any = yaml.load(path.read_text("utf-8"), Loader=yaml.CSafeLoader)
        for exchange in document.get("interactions") or document.get("http_interactions"):
            address: str = exchange["request"].get("url") or exchange["request"]["uri"]
            for side in (exchange["request"], exchange["response"]) if "/responses" in address else ():
                body = side.get("parsed_body") or side.get("body")
                body = body.get("string", body) if hasattr(body, "keys") else body
                if body == f"{body}" and body.startswith("{"):
                    body = json.loads(body)
                if hasattr(body, "keys"):
                    yield path.name, body
    folders = [shared_path("data", "sse_extracted"), shared_path("data", "vercel_ai")]
    for path in sorted(path for folder in folders for path in folder.iterdir()):
        for line in path.read_text("utf-8").splitlines():
            if '"type":"response.completed"' in line.replace(" ", "")[:60]:
                yield path.name, json.loads(line.removeprefix("data:"))["response"]


def outputs_of(items: list[Any]) -> dict[str, list[str]]:
    """Return the results by the id of their call; one without an id has the type of its call."""
    found: dict[str, list[str]] = {}
    for item in items:
        kind: str = item.get("type", "message")
        if kind.endswith("_output"):
            said: Any = item["tools"] if kind == "tool_search_output" else item["output"]
            name: str = item["call_id"] or kind.replace("output", "call")
            found.setdefault(name, []).append(said if said == f"{said}" else compact(said))
    return found


def compact(value: Any) -> str:
    """Return JSON without spaces: the text of a result that is none."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def call_of(item: Any) -> list[str]:
    """Return what a call asks, and what it came to if the provider has said so in the item."""
    kind: str = item["type"]
    if kind in ("function_call", "mcp_call"):
        asked = call_text(item["name"], json.loads(item["arguments"]))
        return [asked, item["output"]] if kind == "mcp_call" else [asked]
    name = kind.removesuffix("_call")
    if kind == "code_interpreter_call":
        return [call_text(name, {"code": item["code"]}), compact(item["outputs"])]
    if kind == "image_generation_call":
        return [call_text(name, {"prompt": item["prompt"]}), ""]
    given: Any = item["action"] if "action" in item else item["arguments"]
    asked = call_text(name, json.loads(given) if given == f"{given}" else given)
    return [asked, ""] if kind == "web_search_call" else [asked]


def read_responses(body: Body) -> list[Item]:
    """Read the items of a body; what the system or the developer says is no message."""
    listed: Any = next(body[name] for name in ("input", "output", "data", "items") if name in body)
    items: list[Any] = [{"role": "user", "content": listed}] if listed == f"{listed}" else listed
    results = outputs_of(items)
    found: list[Item] = []
    for item in items:
        kind: str = item.get("type", "message")
        if kind == "message" and item["role"] in ("user", "assistant"):
            content: Any = item["content"]
            parts: list[Any] = [{"type": "input_text", "text": content}] if content == f"{content}" else content
            assert {part["type"] for part in parts} <= PARTS
            found += [(item["role"], "text", part["text"]) for part in parts if part.get("text")]
        elif kind == "reasoning":
            told = [*item["summary"], *item.get("content", ())]
            found += [("assistant", "reasoning", part["text"]) for part in told]
        elif kind.endswith("_call"):
            asked, *answers = call_of(item)
            waiting = results.get(item.get("call_id") or kind, [])
            answers += waiting[:1]
            del waiting[:1]
            found.append(("assistant", "call", asked))
            found += [("assistant", "result", said) for said in answers]
        else:
            assert kind in ("message", "mcp_list_tools") or kind.endswith("_output"), kind
    assert not any(results.values())
    return found
