"""Parts of Gemini's API, as Gemini CLI and Qwen Code keep them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.support.independent_reader import Item, call_text


def responses_in(messages: Iterable[Any]) -> dict[str, str]:
    """Return the output or error of every `functionResponse`, by the id of its call."""
    found: dict[str, str] = {}
    for message in messages:
        for part in message:
            if "functionResponse" in part:
                response = part["functionResponse"]["response"]
                said = response["error"] if "error" in response else response["output"]
                assert found.setdefault(part["functionResponse"]["id"], said) == said
    return found


def items_of_parts(role: str, parts: Iterable[Any], results: dict[str, str]) -> list[Item]:
    """Return texts, thoughts and calls of a content, each call with its result."""
    items: list[Item] = []
    for part in parts:
        if "functionCall" in part:
            call = part["functionCall"]
            items.append((role, "call", call_text(call["name"], call["args"])))
            if call["id"] in results:
                items.append((role, "result", results.pop(call["id"])))
        elif "text" in part:
            items.append((role, "reasoning" if part.get("thought") else "text", part["text"]))
        else:
            assert part.keys() == {"functionResponse"}, part
    return items
