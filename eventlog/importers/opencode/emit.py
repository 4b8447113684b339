"""Restores the records of an OpenCode export from the events imported from it.

What a record had beyond its events was stored as steps (`importers/common/json_patch.py`), so the
restored record is JSON-equal to the one that was read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from eventlog import events as ev
from eventlog.errors import DamagedError
from eventlog.importers.common.json_lines import is_object
from eventlog.importers.common.json_patch import patch
from eventlog.importers.opencode.values import (
    Record,
    Resolve,
    error_record,
    file_record,
    model_record,
    span_record,
    tokens_record,
    usage_record,
    value_of,
)
from eventlog.values import (
    DENIED,
    INTERRUPTED,
    Agent,
    Attachment,
    Content,
    File,
    Opaque,
    Patch,
    Reasoning,
    Retry,
    Snapshot,
    Subtask,
    Text,
    Tokens,
    Tool,
)

Timed = tuple[int, ev.Event]
PROVIDED = "The provider compacted the conversation here"
"""Beginning of the text that stands for a compaction of the provider's."""


def export_of(items: Iterable[Timed], text: Resolve) -> Record:
    """Return the export of these events, which are in the order of the import.

    `DamagedError` when what was kept does not fit the events.
    """
    started: ev.SessionStarted | None = None
    created = 0
    title = ""
    kept: dict[str, Content] = {}
    groups: dict[str, list[Timed]] = {}
    owner: dict[str, str] = {}
    reverting = False
    for time, event in items:
        if isinstance(event, ev.SessionStarted):
            started, created = event, time
        elif isinstance(event, ev.SessionRenamed):
            title = event.title
        elif isinstance(event, ev.ForeignKept):
            kept[event.of] = event.data
        elif isinstance(event, (ev.MessageRemoved, ev.PartRemoved)):
            reverting = True
        elif not reverting:
            message = _message_of_event(event, owner)
            if message is not None:
                groups.setdefault(message, []).append((time, event))
    if started is None:
        raise DamagedError("no events of an OpenCode export")
    session = started.origin.foreign_id if started.origin is not None else ""
    messages: list[Any] = []
    try:
        for message, group in groups.items():
            record = message_of(group, session, text)
            steps = kept.get(message)
            messages.append(record if steps is None else patch(record, json.loads(text(steps))))
        whole: Record = {**session_of(started, created, title), "messages": messages}
        steps = kept.get("session")
        return whole if steps is None else cast("Record", patch(whole, json.loads(text(steps))))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError("what was kept of an OpenCode export does not fit its events") from error


def _message_of_event(event: ev.Event, owner: dict[str, str]) -> str | None:
    """Return the message that an event is part of."""
    message: str | None = getattr(event, "message", None)
    part: str | None = next(iter(event.parts), None) if isinstance(event, ev.Pruned) else getattr(event, "part", None)
    if message is None:
        return None if part is None else owner.get(part)
    if part is not None:
        owner[part] = message
    return message


def session_of(started: ev.SessionStarted, created: int, title: str) -> Record:
    """Return the export's `info` as far as events have it."""
    origin = started.origin
    id, version = (origin.foreign_id, origin.version) if origin is not None else ("", "")
    info: Record = {"id": id, "title": title, "time": {"created": created}}
    more = {"version": version, "directory": started.directory, "agent": started.agent, "parentID": started.parent}
    info.update({name: value for name, value in more.items() if value})
    if started.model is not None:
        info["model"] = {"id": started.model.name, "providerID": started.model.provider}
    return {"info": info}


def message_of(items: Sequence[Timed], session: str, text: Resolve) -> Record:
    """Return a message as far as its events have it; the first of `items` added it."""
    maker = _Maker(session, text)
    for maker.time, event in items:
        rule = _RULES.get(type(event))
        if rule is not None:
            rule(maker, event)
    return {"info": maker.info, "parts": list(maker.parts.values())}


class _Maker:
    """A message under construction."""

    def __init__(self, session: str, text: Resolve) -> None:
        self.session = session
        self.text = text
        self.time = 0
        """Time of the event that is told, in UTC milliseconds."""
        self.info: Record = {}
        self.parts: dict[str, Record] = {}

    def add(self, part: str, kind: str, **fields: Any) -> Record:
        """Add a part; fields that are None are left out."""
        record = {"id": part, "sessionID": self.session, "messageID": self.info["id"], "type": kind}
        record.update((key, value) for key, value in fields.items() if value is not None)
        self.parts[part] = record
        return record


# -- messages ----------------------------------------------------------------------------------


def _user(maker: _Maker, event: ev.UserMessageAdded) -> None:
    info: Record = {"id": event.message, "sessionID": maker.session, "role": "user", "time": {"created": maker.time}}
    info["agent"] = event.agent
    if event.model is not None:
        info["model"] = model_record(event.model)
        if event.variant is not None:
            info["model"]["variant"] = event.variant
    if event.system is not None:
        info["system"] = maker.text(event.system)
    if event.tools is not None:
        info["tools"] = value_of(event.tools)
    if event.format is not None:
        info["format"] = value_of(event.format)
    maker.info = info


def _assistant(maker: _Maker, event: ev.AssistantMessageStarted) -> None:
    info: Record = {
        "id": event.message,
        "sessionID": maker.session,
        "role": "assistant",
        "time": {"created": maker.time},
    }
    info["parentID"] = event.reply_to
    info["mode"] = event.mode
    info["agent"] = event.agent
    info["path"] = {"cwd": event.cwd, "root": event.root}
    info.update(model_record(event.model) if event.model is not None else {})
    if event.variant is not None:
        info["variant"] = event.variant
    if event.summary:
        info["summary"] = True
    info["cost"] = 0
    info["tokens"] = tokens_record(Tokens())
    maker.info = info


def _finished(maker: _Maker, event: ev.MessageFinished) -> None:
    maker.info["time"]["completed"] = maker.time
    if event.reason is not None:
        maker.info["finish"] = event.reason
    if event.error is not None:
        maker.info["error"] = error_record(event.error)


def _usage(maker: _Maker, event: ev.UsageRecorded) -> None:
    usage = usage_record(event.usage)
    if event.step is not None:
        maker.parts[event.step].update(usage)
    maker.info["tokens"] = usage["tokens"]
    maker.info["cost"] += usage["cost"]


# -- parts -------------------------------------------------------------------------------------


def _add_part(maker: _Maker, event: ev.PartStarted) -> None:
    kind, part = event.kind, event.part
    match kind:
        case Text():
            record = maker.add(part, "text", text=maker.text(kind.text), metadata=value_of(kind.metadata))
            record.update({name: True for name in ("synthetic", "ignored") if getattr(kind, name)})
            if maker.info["role"] == "assistant":
                record["time"] = {"start": maker.time}
        case Reasoning():
            maker.add(part, "reasoning", text="", time={"start": maker.time})
        case Tool():
            about = value_of(kind.metadata)
            if kind.provider_executed:
                about = {**(about if is_object(about) else {}), "providerExecuted": True}
            maker.add(
                part,
                "tool",
                tool=kind.tool,
                callID=kind.call,
                metadata=about,
                state={"status": "pending", "input": {}, "raw": ""},
            )
        case File():
            record = maker.add(part, "file", **file_record(kind, maker.text), metadata=value_of(kind.metadata))
            if kind.synthetic:
                record["synthetic"] = True
        case Subtask():
            maker.add(
                part,
                "subtask",
                prompt=maker.text(kind.prompt),
                description=kind.description,
                agent=kind.agent,
                model=model_record(kind.model) if kind.model is not None else None,
                command=kind.command,
            )
        case Agent():
            maker.add(part, "agent", name=kind.name, source=span_record(kind.source) if kind.source else None)
        case Snapshot():
            maker.add(part, "snapshot", snapshot=kind.snapshot)
        case Patch():
            maker.add(part, "patch", hash=kind.hash, files=list(kind.files))
        case Retry():
            maker.add(part, "retry", attempt=kind.attempt, error=error_record(kind.error), time={"created": maker.time})
        case Opaque():  # OpenCode has no such part: it shows this one, and sends it to no model
            said = "" if kind.text is None else f": {maker.text(kind.text)}"
            text = f"{PROVIDED} ({kind.kind}){said}"
            span = {"start": maker.time, "end": maker.time}
            maker.add(part, "text", text=text, synthetic=True, ignored=True, time=span)


def _delta(maker: _Maker, event: ev.PartDelta) -> None:
    record = maker.parts[event.part]
    if event.field == "input":
        record["state"]["raw"] += event.text
    else:
        record["text"] += event.text


def _ended(maker: _Maker, event: ev.PartEnded) -> None:
    record = maker.parts[event.part]
    record["time"]["end"] = maker.time
    if event.metadata is not None:
        record["metadata"] = value_of(event.metadata)


def _running(maker: _Maker, event: ev.ToolRunning) -> None:
    maker.parts[event.part]["state"] = {
        "status": "running",
        "input": value_of(maker.text(event.input) or "{}"),
        "time": {"start": maker.time},
    }


def _progress(maker: _Maker, event: ev.ToolProgress) -> None:
    state: Record = maker.parts[event.part]["state"]
    if event.title is not None:
        state["title"] = event.title
    if event.metadata is not None:
        state["metadata"] = value_of(event.metadata)


def _completed(maker: _Maker, event: ev.ToolCompleted) -> None:
    state: Record = maker.parts[event.part]["state"]
    state.update(status="completed", output=maker.text(event.output), title=event.title)
    state["time"]["end"] = maker.time
    if event.metadata is not None:
        state["metadata"] = value_of(event.metadata)
    if event.attachments:
        state["attachments"] = [_attachment(maker, file) for file in event.attachments]


def _attachment(maker: _Maker, file: Attachment) -> Record:
    record = {
        "type": "file",
        "sessionID": maker.session,
        "messageID": maker.info["id"],
        **file_record(file, maker.text),
    }
    if file.id:
        record["id"] = file.id
    return record


def _failed(maker: _Maker, event: ev.ToolFailed) -> None:
    state: Record = maker.parts[event.part]["state"]
    error = maker.text(event.error)
    if event.interrupted and error == INTERRUPTED and event.metadata is None:
        return
    state.update(status="error", error=error)
    state.setdefault("time", {})["end"] = maker.time
    if event.metadata is not None:
        state["metadata"] = value_of(event.metadata)


def _asked(maker: _Maker, event: ev.CallAsked) -> None:
    maker.parts[event.part]["state"] = {"status": "pending", "input": {}, "raw": maker.text(event.input)}


def _answered(maker: _Maker, event: ev.CallAnswered) -> None:
    state: Record = maker.parts[event.part]["state"]
    if event.verdict != "allow":
        error = INTERRUPTED if event.verdict == "stop" else f"{DENIED} {event.reason}".rstrip()
        state.update(status="error", error=error, input=value_of(state.get("raw") or "{}"))
        state.setdefault("time", {})["end"] = maker.time


def _step_started(maker: _Maker, event: ev.StepStarted) -> None:
    maker.add(event.part, "step-start", snapshot=event.snapshot)


def _step_finished(maker: _Maker, event: ev.StepFinished) -> None:
    maker.add(event.part, "step-finish", reason=event.reason, snapshot=event.snapshot)


def _requested(maker: _Maker, event: ev.CompactionRequested) -> None:
    maker.add(event.part, "compaction", auto=event.auto, overflow=event.overflow)


def _compaction_started(maker: _Maker, event: ev.CompactionStarted) -> None:
    if event.tail is not None:
        maker.parts[event.part]["tail_start_id"] = event.tail


def _pruned(maker: _Maker, event: ev.Pruned) -> None:
    for part in event.parts:
        maker.parts[part]["state"]["time"]["compacted"] = maker.time


_RULES: dict[type, Callable[[_Maker, Any], None]] = {
    ev.UserMessageAdded: _user,
    ev.AssistantMessageStarted: _assistant,
    ev.MessageFinished: _finished,
    ev.UsageRecorded: _usage,
    ev.PartStarted: _add_part,
    ev.PartDelta: _delta,
    ev.PartEnded: _ended,
    ev.ToolRunning: _running,
    ev.ToolProgress: _progress,
    ev.ToolCompleted: _completed,
    ev.ToolFailed: _failed,
    ev.CallAsked: _asked,
    ev.CallAnswered: _answered,
    ev.StepStarted: _step_started,
    ev.StepFinished: _step_finished,
    ev.CompactionRequested: _requested,
    ev.CompactionStarted: _compaction_started,
    ev.Pruned: _pruned,
}
