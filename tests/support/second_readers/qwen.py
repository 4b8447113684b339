"""Sessions of Qwen Code: a record a line, each behind its parent."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.independent_reader import Item
from tests.support.second_readers.gemini_parts import items_of_parts, responses_in

ROLES = {"user": "user", "assistant": "assistant"}


def read_qwen(path: Path) -> dict[str, list[Item]]:
    """Read the branch that ends with the last record; a compaction begins with its summary."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    records = {record["uuid"]: record for record in lines}
    branch = [lines[-1]]
    while branch[-1]["parentUuid"]:
        branch.append(records[branch[-1]["parentUuid"]])
    branch.reverse()
    results = responses_in(record["message"]["parts"] for record in branch if record["type"] == "tool_result")
    items: list[Item] = []
    for record in branch:
        if record["type"] in ROLES:
            items += items_of_parts(ROLES[record["type"]], record["message"]["parts"], results)
        elif record["type"] == "system" and record["subtype"] == "chat_compression":
            summary = record["systemPayload"]["compressedHistory"][0]
            items += items_of_parts("assistant", summary["parts"], results)
    assert not results
    return {lines[0]["sessionId"]: items}
