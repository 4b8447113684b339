"""Demands of OpenCode 1.18 on a document: the schemas of its imports, and its order."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMA = Path(__file__).parents[1] / "golden" / "opencode-1.18.schema.json"
VALIDATOR: Any = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def document_faults(document: Any) -> list[str]:
    """List why OpenCode would refuse the document or reorder it; empty if it would not."""
    if wrong := next(VALIDATOR.iter_errors(document), None):
        return [wrong.message]
    faults: list[str] = []
    session: str = document["info"]["id"]
    if not session.startswith("ses"):
        faults.append(f"the session's id {session!r}")
    infos = [message["info"] for message in document["messages"]]
    order = [(info["time"]["created"], info["id"]) for info in infos]
    if any(one >= two for one, two in pairwise(order)):
        faults.append("messages that OpenCode would sort otherwise")
    known = {info["id"] for info in infos}
    used: set[str] = set()
    for message in document["messages"]:
        info, parts = message["info"], [part["id"] for part in message["parts"]]
        faults += [f"the id {name!r}" for name in [info["id"]] if not name.startswith("msg")]
        faults += [f"the id {name!r}" for name in parts if not name.startswith("prt") or name in used]
        used.update(parts)
        if parts != sorted(parts):
            faults.append("parts that OpenCode would sort otherwise")
        places = {(part["sessionID"], part["messageID"]) for part in message["parts"]}
        if info["sessionID"] != session or places - {(session, info["id"])}:
            faults.append("a record of another session or message")
        if info["role"] == "assistant" and info["parentID"] not in known and info["parentID"] != "msg_" + "0" * 26:
            faults.append(f"an answer to {info['parentID']!r}")
    return faults
