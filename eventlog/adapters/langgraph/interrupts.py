"""Open interrupts of a thread, as the calls that wait for a person."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast

from langgraph.checkpoint.base import CheckpointTuple

from eventlog.session.answering import AskedCall

__all__ = ["open_interrupts"]

INTERRUPT, RESUME = "__interrupt__", "__resume__"
"""Channels of what a task asked, and of the answer."""


def open_interrupts(found: CheckpointTuple) -> Iterator[AskedCall]:
    """Yield what the tasks of a checkpoint wait for.

    `message` is the checkpoint, `part` the task, `call` the id of the interrupt, as `Command` takes
    it. A value with `action_requests`, as middleware for approvals makes, is a call for each.
    """
    writes = found.pending_writes or []
    answered = {task for task, channel, _ in writes if channel == RESUME}
    time = int(datetime.fromisoformat(found.checkpoint["ts"]).timestamp() * 1_000)
    for task, channel, value in writes:
        if channel != INTERRUPT or task in answered:
            continue
        for each in _each(value):
            for tool, arguments, reason in _requests(getattr(each, "value", None)):
                name = str(getattr(each, "id", ""))
                yield AskedCall(found.checkpoint["id"], name, task, tool, arguments, reason, time)


def _each(value: Any) -> Iterator[Any]:
    """Yield the interrupts of a task's write."""
    if isinstance(value, (list, tuple)):
        yield from value  # pyright: ignore[reportUnknownVariableType]
    else:
        yield value


def _requests(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield tool, arguments and reason of what an interrupt asks for."""
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    requests: Any = fields.get("action_requests")
    if not isinstance(requests, list):
        yield "interrupt", json.dumps(value, ensure_ascii=False, default=str), ""
        return
    for request in _each(requests):
        asked = cast("dict[str, Any]", request) if isinstance(request, dict) else {}
        arguments = json.dumps(asked.get("args", {}), ensure_ascii=False, default=str)
        yield str(asked.get("name", "")), arguments, str(asked.get("description", ""))
