"""The parts of a message of an OpenCode export as events: a rule for each type of part.

Not the message around them (`messages.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from eventlog import events as ev
from eventlog.importers.opencode.message_events import MessageEvents
from eventlog.importers.opencode.values import (
    Record,
    array,
    as_json,
    error_of,
    model_of,
    number,
    optional,
    source_of,
    string,
    time_of,
    usage_of,
)
from eventlog.values import (
    Agent,
    Attachment,
    File,
    MessageError,
    Patch,
    Reasoning,
    Retry,
    Snapshot,
    Subtask,
    Text,
    Tool,
)

__all__ = ["ASSISTANT", "USER", "Rule"]


def _start(told: MessageEvents, part: Record, kind: Any, time: int | None = None) -> int:
    begun = told.at(time)
    told.add(begun, ev.PartStarted(told.id, part["id"], kind))
    return begun


def _said(told: MessageEvents, part: Record, info: Record) -> None:
    del info
    text = string(part, "text")
    whole = told.user
    kind = Text(
        told.content(text) if whole else "",
        part.get("synthetic") is True,
        part.get("ignored") is True,
        as_json(part.get("metadata")) if whole else None,
    )
    if whole:
        _start(told, part, kind)
    else:
        _grow(told, part, _start(told, part, kind, time_of(part, "start")), text)


def _thought(told: MessageEvents, part: Record, info: Record) -> None:
    del info
    begun = _start(told, part, Reasoning(), time_of(part, "start"))
    _grow(told, part, begun, string(part, "text"))


def _grow(told: MessageEvents, part: Record, begun: int, text: str) -> None:
    """The text as one delta at its end, and the end if the record has one."""
    end = time_of(part, "end")
    told.open_parts[part["id"]] = False
    if text:
        told.add(max(begun, end), ev.PartDelta(part["id"], "text", text))
    if end or "time" not in part:
        told.open_parts.pop(part["id"])
        told.add(max(begun, end), ev.PartEnded(part["id"], as_json(part.get("metadata"))))


def _tool(told: MessageEvents, part: Record, info: Record) -> None:
    del info
    state: Record = part["state"]
    name = part["id"]
    metadata = part.get("metadata")
    executed = isinstance(metadata, dict) and cast("Record", metadata).get("providerExecuted") is True
    born = _start(told, part, Tool(part["callID"], string(part, "tool"), executed, as_json(metadata)))
    told.open_parts[name] = True
    status = state.get("status")
    raw = string(state, "raw")
    if status == "pending":
        if raw:
            told.add(born, ev.PartDelta(name, "input", raw))
        return
    begun = max(born, time_of(state, "start"))
    ended = max(begun, time_of(state, "end"))
    details = as_json(state.get("metadata"))
    told.add(begun, ev.ToolRunning(name, told.content(as_json(state.get("input")) or "{}")))
    if status == "running":
        if details is not None or "title" in state:
            told.add(begun, ev.ToolProgress(name, optional(state, "title"), details))
    elif status == "error":
        output = cast("Record", state["metadata"]).get("output") if isinstance(state.get("metadata"), dict) else None
        interrupted = isinstance(state.get("metadata"), dict) and state["metadata"].get("interrupted") is True
        told.open_parts.pop(name)
        told.add(
            ended,
            ev.ToolFailed(
                name,
                told.content(string(state, "error")),
                interrupted,
                told.content(output) if interrupted and isinstance(output, str) else None,
                details,
            ),
        )
    elif status == "completed":
        told.open_parts.pop(name)
        told.add(
            ended,
            ev.ToolCompleted(
                name,
                told.content(string(state, "output")),
                None,
                string(state, "title"),
                details,
                tuple(_attachment(told, file) for file in array(state, "attachments")),
            ),
        )
        pruned = time_of(state, "compacted")
        if pruned:
            told.late.append((max(pruned, ended), ev.Pruned((name,), "opencode")))


def _attachment(told: MessageEvents, file: Any) -> Attachment:
    return Attachment(
        string(file, "mime"),
        told.content(string(file, "url")),
        optional(file, "filename"),
        string(file, "id"),
        source_of(cast("Record", file).get("source") if isinstance(file, dict) else None),
    )


def _file(told: MessageEvents, part: Record, info: Record) -> None:
    del info
    _start(
        told,
        part,
        File(
            string(part, "mime"),
            told.content(string(part, "url")),
            optional(part, "filename"),
            source_of(part.get("source")),
            part.get("synthetic") is True,
            as_json(part.get("metadata")),
        ),
    )


def _subtask(told: MessageEvents, part: Record, info: Record) -> None:
    del info
    kind = Subtask(
        told.content(string(part, "prompt")),
        string(part, "description"),
        string(part, "agent"),
        model_of(part.get("model")),
        optional(part, "command"),
    )
    _start(told, part, kind)


def _mention(told: MessageEvents, part: Record, info: Record) -> None:
    del info
    _start(told, part, Agent(string(part, "name"), source_of(part.get("source"), "text")))


def _compaction(told: MessageEvents, part: Record, info: Record) -> None:
    del info
    overflow = part.get("overflow")
    told.compaction, told.tail = part["id"], optional(part, "tail_start_id")
    told.add(
        told.born,
        ev.CompactionRequested(
            told.id, part["id"], part.get("auto") is True, overflow if isinstance(overflow, bool) else None
        ),
    )


def _step_start(told: MessageEvents, part: Record, info: Record) -> None:
    del info
    purpose: Any = "summary" if told.summary else "turn"
    told.add(told.at(None), ev.StepStarted(told.id, part["id"], purpose, snapshot=optional(part, "snapshot")))


def _step_finish(told: MessageEvents, part: Record, info: Record) -> None:
    if not any(isinstance(event, ev.StepStarted) for _, event in told.items):
        told.skipped.append("a step-finish part without a step-start")
        told.parts.pop()
        return
    end = told.at(max(time for time, _ in told.items))
    told.add(end, ev.StepFinished(told.id, part["id"], string(part, "reason"), optional(part, "snapshot")))
    purpose = "summary" if told.summary else "turn"
    told.add(end, ev.UsageRecorded(usage_of(part), told.id, part["id"], model_of(info), purpose))


def _snapshot(told: MessageEvents, part: Record, info: Record) -> None:
    del info
    _start(told, part, Snapshot(string(part, "snapshot")))


def _patch(told: MessageEvents, part: Record, info: Record) -> None:
    del info
    files = tuple(file for file in array(part, "files") if isinstance(file, str))
    _start(told, part, Patch(string(part, "hash"), files))


def _retry(told: MessageEvents, part: Record, info: Record) -> None:
    del info
    error = error_of(part.get("error")) or MessageError("unknown")
    _start(told, part, Retry(number(part, "attempt"), error), time_of(part, "created"))


Rule = Callable[[MessageEvents, Record, Record], None]
"""Tells a part, which is part of a message with this info."""

_COMMON: dict[str, Rule] = {
    "text": _said,
    "file": _file,
    "subtask": _subtask,
    "agent": _mention,
    "snapshot": _snapshot,
    "patch": _patch,
    "retry": _retry,
}
USER: dict[str, Rule] = {**_COMMON, "compaction": _compaction}
ASSISTANT: dict[str, Rule] = {
    **_COMMON,
    "reasoning": _thought,
    "tool": _tool,
    "step-start": _step_start,
    "step-finish": _step_finish,
}
"""The types of parts that a message of each role may have; others are skipped."""
