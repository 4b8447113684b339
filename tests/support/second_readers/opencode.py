"""Sessions of OpenCode: rows of its database, or files of its older folder."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.independent_reader import Item, call_text


def items_of(role: str, parts: Iterable[Any]) -> list[Item]:
    """Return texts, reasoning and calls of a message; steps, snapshots and patches are none."""
    items: list[Item] = []
    for part in parts:
        if part["type"] in ("text", "reasoning"):
            items.append((role, part["type"], part["text"]))
        elif part["type"] == "tool":
            state = part["state"]
            items.append((role, "call", call_text(part["tool"], state["input"])))
            items.append((role, "result", state["output"] if state["status"] == "completed" else state["error"]))
        else:
            assert part["type"] in ("step-start", "step-finish", "snapshot", "patch"), part
    return items


def read_database(path: Path) -> dict[str, list[Item]]:
    """Read every session of a database, sub-sessions too."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        sessions: dict[str, list[Item]] = {name: [] for (name,) in database.execute("SELECT id FROM session")}
        messages = database.execute("SELECT session_id, id, data FROM message ORDER BY time_created, id").fetchall()
        for session, message, data in messages:
            parts = database.execute("SELECT data FROM part WHERE message_id = ? ORDER BY id", (message,))
            sessions[session] += items_of(json.loads(data)["role"], [json.loads(part) for (part,) in parts])
    return {name: items for name, items in sessions.items() if items}


def read_storage(path: Path) -> dict[str, list[Item]]:
    """Read the session of a file in the older folder, from files of messages and parts."""
    storage = path.parents[2]
    infos = [json.loads(one.read_text()) for one in (storage / "message" / path.stem).glob("*.json")]
    items: list[Item] = []
    for info in sorted(infos, key=lambda one: (one["time"]["created"], one["id"])):
        parts = sorted((storage / "part" / info["id"]).glob("*.json"))
        items += items_of(info["role"], [json.loads(one.read_text()) for one in parts])
    return {path.stem: items}
