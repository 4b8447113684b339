"""Progress of calls and plans, as Codex's records have them."""

from __future__ import annotations

import json
from typing import Any

from eventlog.importers.common.json_lines import is_array, is_object
from eventlog.streams.records import text_of
from eventlog.values import Todo

__all__ = ["progress_of", "todos_of"]

_PROGRESS = ("exit_code", "success", "status", "duration", "cwd", "process_id", "source", "invocation")
"""Fields of the event that ends a call that become its progress."""


def progress_of(event: dict[str, Any]) -> dict[str, Any]:
    """Return what the event that ends a call has beyond its output."""
    return {key: event[key] for key in _PROGRESS if event.get(key) is not None}


def todos_of(text: str) -> tuple[Todo, ...] | None:
    """Return the entries of a plan; None if the input of `update_plan` has none."""
    given = json.loads(text)
    plan = given.get("plan") if is_object(given) else None
    if not is_array(plan):
        return None
    return tuple(
        Todo(text_of(entry.get("step")), text_of(entry.get("status")) or "pending")
        for entry in plan
        if is_object(entry)
    )
