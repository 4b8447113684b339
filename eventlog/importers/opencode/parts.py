"""Parts of an OpenCode message as events: a rule for each type of part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eventlog import events as ev
from eventlog.importers.common.json_lines import is_object
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


def _start(events: MessageEvents, part: Record, kind: Any, time: int | None = None) -> int:
    begun = events.at(time)
    events.add(begun, ev.PartStarted(events.id, part["id"], kind))
    return begun


def _add_text(events: MessageEvents, part: Record) -> None:
    text = string(part, "text")
    whole = events.user
    kind = Text(
        events.content(text) if whole else "",
        part.get("synthetic") is True,
        part.get("ignored") is True,
        as_json(part.get("metadata")) if whole else None,
    )
    if whole:
        _start(events, part, kind)
    else:
        _stream_text(events, part, _start(events, part, kind, time_of(part, "start")), text)


def _reasoning(events: MessageEvents, part: Record) -> None:
    begun = _start(events, part, Reasoning(), time_of(part, "start"))
    _stream_text(events, part, begun, string(part, "text"))


def _stream_text(events: MessageEvents, part: Record, begun: int, text: str) -> None:
    """Add the text as one delta at its end, and the end if the record has one."""
    end = time_of(part, "end")
    events.open_parts[part["id"]] = False
    if text:
        events.add(max(begun, end), ev.PartDelta(part["id"], "text", text))
    if end or "time" not in part:
        events.open_parts.pop(part["id"])
        events.add(max(begun, end), ev.PartEnded(part["id"], as_json(part.get("metadata"))))


def _tool(events: MessageEvents, part: Record) -> None:
    state: Record = part["state"]
    name = part["id"]
    metadata = part.get("metadata")
    executed = is_object(metadata) and metadata.get("providerExecuted") is True
    born = _start(events, part, Tool(part["callID"], string(part, "tool"), executed, as_json(metadata)))
    events.open_parts[name] = True
    status = state.get("status")
    raw = string(state, "raw")
    if status == "pending":
        if raw:
            events.add(born, ev.PartDelta(name, "input", raw))
        return
    begun = max(born, time_of(state, "start"))
    ended = max(begun, time_of(state, "end"))
    details = as_json(state.get("metadata"))
    events.add(begun, ev.ToolRunning(name, events.content(as_json(state.get("input")) or "{}")))
    if status == "running":
        if details is not None or "title" in state:
            events.add(begun, ev.ToolProgress(name, optional(state, "title"), details))
    elif status == "error":
        found = state.get("metadata")
        output = optional(found, "output")
        interrupted = is_object(found) and found.get("interrupted") is True
        events.open_parts.pop(name)
        events.add(
            ended,
            ev.ToolFailed(
                name,
                events.content(string(state, "error")),
                interrupted,
                events.content(output) if interrupted and output is not None else None,
                details,
            ),
        )
    elif status == "completed":
        events.open_parts.pop(name)
        events.add(
            ended,
            ev.ToolCompleted(
                name,
                events.content(string(state, "output")),
                None,
                string(state, "title"),
                details,
                tuple(_attachment(events, file) for file in array(state, "attachments")),
            ),
        )
        pruned = time_of(state, "compacted")
        if pruned:
            events.late.append((max(pruned, ended), ev.Pruned((name,), "opencode")))


def _attachment(events: MessageEvents, file: Any) -> Attachment:
    return Attachment(
        string(file, "mime"),
        events.content(string(file, "url")),
        optional(file, "filename"),
        string(file, "id"),
        source_of(file.get("source") if is_object(file) else None),
    )


def _add_file(events: MessageEvents, part: Record) -> None:
    _start(
        events,
        part,
        File(
            string(part, "mime"),
            events.content(string(part, "url")),
            optional(part, "filename"),
            source_of(part.get("source")),
            part.get("synthetic") is True,
            as_json(part.get("metadata")),
        ),
    )


def _subtask(events: MessageEvents, part: Record) -> None:
    kind = Subtask(
        events.content(string(part, "prompt")),
        string(part, "description"),
        string(part, "agent"),
        model_of(part.get("model")),
        optional(part, "command"),
    )
    _start(events, part, kind)


def _mention(events: MessageEvents, part: Record) -> None:
    _start(events, part, Agent(string(part, "name"), source_of(part.get("source"), "text")))


def _compaction(events: MessageEvents, part: Record) -> None:
    overflow = part.get("overflow")
    events.compaction, events.tail = part["id"], optional(part, "tail_start_id")
    events.add(
        events.born,
        ev.CompactionRequested(
            events.id, part["id"], part.get("auto") is True, overflow if isinstance(overflow, bool) else None
        ),
    )


def _step_start(events: MessageEvents, part: Record) -> None:
    purpose: Any = "summary" if events.summary else "turn"
    events.add(events.at(None), ev.StepStarted(events.id, part["id"], purpose, snapshot=optional(part, "snapshot")))


def _step_finish(events: MessageEvents, part: Record) -> None:
    if not any(isinstance(event, ev.StepStarted) for _, event in events.items):
        events.skipped.append("a step-finish part without a step-start")
        events.parts.pop()
        return
    end = events.at(max(time for time, _ in events.items))
    events.add(end, ev.StepFinished(events.id, part["id"], string(part, "reason"), optional(part, "snapshot")))
    purpose = "summary" if events.summary else "turn"
    events.add(end, ev.UsageRecorded(usage_of(part), events.id, part["id"], events.model, purpose))


def _snapshot(events: MessageEvents, part: Record) -> None:
    _start(events, part, Snapshot(string(part, "snapshot")))


def _patch(events: MessageEvents, part: Record) -> None:
    files = tuple(file for file in array(part, "files") if isinstance(file, str))
    _start(events, part, Patch(string(part, "hash"), files))


def _retry(events: MessageEvents, part: Record) -> None:
    error = error_of(part.get("error")) or MessageError("unknown")
    _start(events, part, Retry(number(part, "attempt"), error), time_of(part, "created"))


Rule = Callable[[MessageEvents, Record], None]
"""Function that adds a part."""

_COMMON: dict[str, Rule] = {
    "text": _add_text,
    "file": _add_file,
    "subtask": _subtask,
    "agent": _mention,
    "snapshot": _snapshot,
    "patch": _patch,
    "retry": _retry,
}
USER: dict[str, Rule] = {**_COMMON, "compaction": _compaction}
ASSISTANT: dict[str, Rule] = {
    **_COMMON,
    "reasoning": _reasoning,
    "tool": _tool,
    "step-start": _step_start,
    "step-finish": _step_finish,
}
"""Rules by type of part for each role; other parts are skipped."""
