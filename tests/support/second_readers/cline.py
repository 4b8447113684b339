"""Tasks of Cline and Roo Code as their screen shows them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.independent_reader import Item, call_text

SAYS = {
    "task": ("user", "text"),
    "user_feedback": ("user", "text"),
    "text": ("assistant", "text"),
    "completion_result": ("assistant", "text"),
    "reasoning": ("assistant", "reasoning"),
    "command_output": ("assistant", "result"),
}
SHOWN = {"listFilesTopLevel", "listFilesRecursive", "listCodeDefinitionNames", "searchFiles"}
"""Tools whose `content` is what they found; of others it is a path, or what to write."""
NOTICES = {"api_req_started", "resume_task", "checkpoint_created", "task_progress"}


def read_cline(path: Path) -> dict[str, list[Item]]:
    """Read texts, calls and shown results of a task; a call has all that the screen says."""
    items: list[Item] = []
    for record in json.loads(path.read_text()):
        kind, text = record[record["type"]], record.get("text", "")
        if kind == "tool":
            shown = json.loads(text)
            items.append(("assistant", "call", call_text(shown["tool"], shown)))
            items.append(("assistant", "result", shown["content"] if shown["tool"] in SHOWN else ""))
        elif kind == "command":
            items.append(("assistant", "call", call_text("execute_command", {"input": text})))
        elif kind in SAYS:
            items.append((*SAYS[kind], text))
        else:
            assert kind in NOTICES, kind
    return {str(path): items}
