"""Exports of ChatGPT: conversations, each a tree of which one branch is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.independent_reader import Item, call_text


def branch_of(conversation: Any) -> list[Any]:
    """Return the messages from the root to the current node."""
    mapping, name = conversation["mapping"], conversation["current_node"]
    found: list[Any] = []
    while name:
        found.append(mapping[name]["message"])
        name = mapping[name]["parent"]
    return [message for message in reversed(found) if message is not None]


def pieces_of(content: Any) -> list[tuple[str, str]]:
    """Return kind and text of each piece of a content; an asset is a file by its reference."""
    kind = content["content_type"]
    if kind == "tether_browsing_display":
        return [("text", content["result"])]
    if kind not in ("text", "multimodal_text"):
        return [("text", content["text"])]
    found: list[tuple[str, str]] = []
    for part in content["parts"]:
        if part == f"{part}":
            found.append(("text", part))
        else:
            found.append(("file", part["asset_pointer"]) if "asset_pointer" in part else ("text", part["text"]))
    return found


def input_of(text: str) -> Any:
    """Return what a tool is asked: an object, or a text such as a program."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return {"input": text}
    return found if hasattr(found, "keys") else {"input": text}


def read_chatgpt(path: Path) -> dict[str, list[Item]]:
    """Read the shown branch of each conversation; a call has its result behind it."""
    sessions: dict[str, list[Item]] = {}
    for conversation in json.loads(path.read_text()):
        items = sessions.setdefault(conversation["conversation_id"], [])
        for message in branch_of(conversation):
            role, content = message["author"]["role"], message["content"]
            kind = content["content_type"]
            if kind == "thoughts":
                texts = [one[key] for one in content["thoughts"] for key in ("summary", "content")]
                items += [("assistant", "reasoning", text) for text in texts if text]
            elif role == "tool":
                items.append(("assistant", "result", pieces_of(content)[0][1]))
            elif role == "assistant" and message.get("recipient", "all") != "all":
                items.append(("assistant", "call", call_text(message["recipient"], input_of(pieces_of(content)[0][1]))))
            elif role in ("user", "assistant"):
                items += [(role, *piece) for piece in pieces_of(content)]
    return sessions
