"""Sessions of Gemini CLI as lines: messages, and `$set`, which may replace them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.independent_reader import Item, call_text
from tests.support.second_readers.gemini_parts import items_of_parts, responses_in

ROLES = {"user": "user", "gemini": "assistant"}


def read_gemini_lines(path: Path) -> dict[str, list[Item]]:
    """Read each message where it came first, in the newest form that is a line of its own."""
    messages: dict[str, Any] = {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for record in lines:
        assert "$rewindTo" not in record
        for message in record.get("$set", {}).get("messages", ()):
            messages.setdefault(message["id"], message)
        if "type" in record:
            messages[record["id"]] = record
    items: list[Item] = []
    for message in messages.values():
        content: Any = message["content"]
        parts: list[Any] = content if content != f"{content}" else [{"text": content}] if content else []
        summary = message["type"] == "user" and any("<state_snapshot>" in part.get("text", "") for part in parts)
        role = "assistant" if summary else ROLES[message["type"]]
        for thought in message.get("thoughts", ()):
            items += [(role, "reasoning", thought[key]) for key in ("subject", "description")]
        items += items_of_parts(role, parts, {})
        for call in message.get("toolCalls", ()):
            items.append((role, "call", call_text(call["name"], call["args"])))
            (said,) = responses_in([call["result"]]).values()
            items.append((role, "result", said))
    return {lines[0]["sessionId"]: items}
