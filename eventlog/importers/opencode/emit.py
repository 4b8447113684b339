"""The way back: the records of an OpenCode export from the events that the importer made of them.

Not the importer (`importer.py`), and not an export of what was added natively (that is `projections`' business).  What a record
had beyond the events was kept as steps (`importers/common/json_patch.py`), so what comes back is JSON-equal to what was read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from eventlog import events as ev
from eventlog.errors import DamagedError
from eventlog.importers.common.json_patch import patch
from eventlog.importers.opencode.values import ERRORS, Record
from eventlog.validation import is_deep
from eventlog.values import (
    INTERRUPTED,
    Agent,
    Attachment,
    Content,
    File,
    MessageError,
    Model,
    Patch,
    Reasoning,
    Retry,
    Snapshot,
    Source,
    Subtask,
    Text,
    Tokens,
    Tool,
    Usage,
)

__all__ = ["Resolve", "Timed", "message_of", "model_record", "restore", "session_of", "tokens_record"]

Timed = tuple[int, ev.Event]
Resolve = Callable[[Content], str]

_NAMES = {ours: theirs for theirs, ours in ERRORS.items()}


def restore(items: Iterable[Timed], text: Resolve) -> Record:
    """The export whose events these are, in the order in which they were told.

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
    """The message that an event is part of."""
    message: str | None = getattr(event, "message", None)
    part: str | None = event.parts[0] if isinstance(event, ev.Pruned) else getattr(event, "part", None)
    if message is None:
        return None if part is None else owner.get(part)
    if part is not None:
        owner[part] = message
    return message


def session_of(started: ev.SessionStarted, created: int, title: str) -> Record:
    """What the events say of the session."""
    origin = started.origin
    info: Record = {"id": origin.foreign_id if origin is not None else "", "title": title, "time": {"created": created}}
    if origin is not None and origin.version:
        info["version"] = origin.version
    if started.directory:
        info["directory"] = started.directory
    if started.agent:
        info["agent"] = started.agent
    if started.parent is not None:
        info["parentID"] = started.parent
    if started.model is not None:
        info["model"] = {"id": started.model.name, "providerID": started.model.provider}
    return {"info": info}


def message_of(items: Sequence[Timed], session: str, text: Resolve) -> Record:
    """What its events say of a message; `items` begins with the event that added it."""
    maker = _Maker(session, text)
    for time, event in items:
        rule = _RULES.get(type(event))
        if rule is not None:
            rule(maker, time, event)
    return {"info": maker.info, "parts": list(maker.parts.values())}


class _Maker:
    """A message while it is made."""

    def __init__(self, session: str, text: Resolve) -> None:
        self.session = session
        self.text = text
        self.info: Record = {}
        self.parts: dict[str, Record] = {}

    def add(self, part: str, kind: str, **fields: Any) -> Record:
        """A new part; fields that are None are left out."""
        record = {"id": part, "sessionID": self.session, "messageID": self.info["id"], "type": kind}
        record.update((key, value) for key, value in fields.items() if value is not None)
        self.parts[part] = record
        return record


# -- messages ----------------------------------------------------------------------------------


def _user(maker: _Maker, time: int, event: ev.UserMessageAdded) -> None:
    info: Record = {"id": event.message, "sessionID": maker.session, "role": "user", "time": {"created": time}}
    info["agent"] = event.agent
    if event.model is not None:
        info["model"] = model_record(event.model)
        if event.variant is not None:
            info["model"]["variant"] = event.variant
    if event.system is not None:
        info["system"] = maker.text(event.system)
    if event.tools is not None:
        info["tools"] = _value(event.tools)
    if event.format is not None:
        info["format"] = _value(event.format)
    maker.info = info


def _assistant(maker: _Maker, time: int, event: ev.AssistantMessageStarted) -> None:
    info: Record = {"id": event.message, "sessionID": maker.session, "role": "assistant", "time": {"created": time}}
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


def _finished(maker: _Maker, time: int, event: ev.MessageFinished) -> None:
    maker.info["time"]["completed"] = time
    if event.reason is not None:
        maker.info["finish"] = event.reason
    if event.error is not None:
        maker.info["error"] = _error(event.error)


def _usage(maker: _Maker, time: int, event: ev.UsageRecorded) -> None:
    del time
    usage = _usage_record(event.usage)
    if event.step is not None:
        maker.parts[event.step].update(usage)
    maker.info["tokens"] = tokens_record(event.usage.tokens)
    maker.info["cost"] += usage.get("cost", 0)


# -- parts -------------------------------------------------------------------------------------


def _part(maker: _Maker, time: int, event: ev.PartStarted) -> None:
    kind, part = event.kind, event.part
    match kind:
        case Text():
            record = maker.add(part, "text", text=maker.text(kind.text), metadata=_value(kind.metadata))
            record.update({name: True for name in ("synthetic", "ignored") if getattr(kind, name)})
            if maker.info["role"] == "assistant":
                record["time"] = {"start": time}
        case Reasoning():
            maker.add(part, "reasoning", text="", time={"start": time})
        case Tool():
            maker.add(
                part,
                "tool",
                tool=kind.tool,
                callID=kind.call,
                metadata=_value(kind.metadata),
                state={"status": "pending", "input": {}, "raw": ""},
            )
        case File():
            record = maker.add(part, "file", **_file(kind, maker.text), metadata=_value(kind.metadata))
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
            maker.add(part, "agent", name=kind.name, source=_span(kind.source) if kind.source else None)
        case Snapshot():
            maker.add(part, "snapshot", snapshot=kind.snapshot)
        case Patch():
            maker.add(part, "patch", hash=kind.hash, files=list(kind.files))
        case Retry():
            maker.add(part, "retry", attempt=kind.attempt, error=_error(kind.error), time={"created": time})


def _delta(maker: _Maker, time: int, event: ev.PartDelta) -> None:
    del time
    record = maker.parts[event.part]
    if event.field == "input":
        record["state"]["raw"] += event.text
    else:
        record["text"] += event.text


def _ended(maker: _Maker, time: int, event: ev.PartEnded) -> None:
    record = maker.parts[event.part]
    record["time"]["end"] = time
    if event.metadata is not None:
        record["metadata"] = _value(event.metadata)


def _running(maker: _Maker, time: int, event: ev.ToolRunning) -> None:
    maker.parts[event.part]["state"] = {
        "status": "running",
        "input": _value(maker.text(event.input) or "{}"),
        "time": {"start": time},
    }


def _progress(maker: _Maker, time: int, event: ev.ToolProgress) -> None:
    del time
    state: Record = maker.parts[event.part]["state"]
    if event.title is not None:
        state["title"] = event.title
    if event.metadata is not None:
        state["metadata"] = _value(event.metadata)


def _completed(maker: _Maker, time: int, event: ev.ToolCompleted) -> None:
    state: Record = maker.parts[event.part]["state"]
    state.update(status="completed", output=maker.text(event.output), title=event.title)
    state["time"]["end"] = time
    if event.metadata is not None:
        state["metadata"] = _value(event.metadata)
    if event.attachments:
        state["attachments"] = [_attachment(maker, file) for file in event.attachments]


def _failed(maker: _Maker, time: int, event: ev.ToolFailed) -> None:
    state: Record = maker.parts[event.part]["state"]
    error = maker.text(event.error)
    if event.interrupted and error == INTERRUPTED and event.metadata is None:
        return
    state.update(status="error", error=error)
    state.setdefault("time", {})["end"] = time
    if event.metadata is not None:
        state["metadata"] = _value(event.metadata)


def _step_started(maker: _Maker, time: int, event: ev.StepStarted) -> None:
    del time
    maker.add(event.part, "step-start", snapshot=event.snapshot)


def _step_finished(maker: _Maker, time: int, event: ev.StepFinished) -> None:
    del time
    maker.add(event.part, "step-finish", reason=event.reason, snapshot=event.snapshot)


def _requested(maker: _Maker, time: int, event: ev.CompactionRequested) -> None:
    del time
    maker.add(event.part, "compaction", auto=event.auto, overflow=event.overflow)


def _compaction_started(maker: _Maker, time: int, event: ev.CompactionStarted) -> None:
    del time
    if event.tail is not None:
        maker.parts[event.part]["tail_start_id"] = event.tail


def _pruned(maker: _Maker, time: int, event: ev.Pruned) -> None:
    for part in event.parts:
        maker.parts[part]["state"]["time"]["compacted"] = time


_RULES: dict[type, Callable[[_Maker, int, Any], None]] = {
    ev.UserMessageAdded: _user,
    ev.AssistantMessageStarted: _assistant,
    ev.MessageFinished: _finished,
    ev.UsageRecorded: _usage,
    ev.PartStarted: _part,
    ev.PartDelta: _delta,
    ev.PartEnded: _ended,
    ev.ToolRunning: _running,
    ev.ToolProgress: _progress,
    ev.ToolCompleted: _completed,
    ev.ToolFailed: _failed,
    ev.StepStarted: _step_started,
    ev.StepFinished: _step_finished,
    ev.CompactionRequested: _requested,
    ev.CompactionStarted: _compaction_started,
    ev.Pruned: _pruned,
}


# -- values ------------------------------------------------------------------------------------


def _value(text: str | None) -> Any:
    """The value of JSON text; what is none, or nested too deeply to be written again, stays text."""
    try:
        value = None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if is_deep(value) else value


def model_record(model: Model) -> Record:
    """Return a model in OpenCode's words."""
    return {"providerID": model.provider, "modelID": model.name}


def _error(error: MessageError) -> Record:
    return {
        "name": _NAMES.get(error.name, error.name),
        "data": {"message": error.message} if error.data is None else _value(error.data),
    }


def tokens_record(tokens: Tokens) -> Record:
    """Return token counts in OpenCode's words."""
    record: Record = {
        "input": tokens.input,
        "output": tokens.output,
        "reasoning": tokens.reasoning,
        "cache": {"read": tokens.cache_read, "write": tokens.cache_write},
    }
    if tokens.total is not None:
        record["total"] = tokens.total
    return record


def _usage_record(usage: Usage) -> Record:
    record: Record = {"tokens": tokens_record(usage.tokens)}
    return record if usage.cost is None else {**record, "cost": float(usage.cost)}


def _file(file: File | Attachment, text: Resolve) -> Record:
    record: Record = {"mime": file.mime, "url": text(file.url)}
    if file.filename is not None:
        record["filename"] = file.filename
    if file.source is not None:
        record["source"] = _source(file.source)
    return record


def _attachment(maker: _Maker, file: Attachment) -> Record:
    record = {"type": "file", "sessionID": maker.session, "messageID": maker.info["id"], **_file(file, maker.text)}
    if file.id:
        record["id"] = file.id
    return record


def _span(source: Source) -> Record:
    return {"value": source.value, "start": source.start, "end": source.end}


def _source(source: Source) -> Record:
    record: Record = {"type": source.kind, "text": _span(source)}
    if source.kind == "resource":
        record.update(clientName=source.client, uri=source.path)
        return record
    record["path"] = source.path
    if source.kind == "symbol":
        record.update(name=source.name, kind=source.symbol_kind)
        if source.range is not None:
            first, left, last, right = source.range
            record["range"] = {
                "start": {"line": first, "character": left},
                "end": {"line": last, "character": right},
            }
    return record
