"""A message as a record of OpenCode's export, with defaults for what it requires.

`eventlog/importers/opencode/emit.py` makes the record from events of the form that the importer
makes. Here native events are brought into that form, and later changes are applied to the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.importers.common.json_lines import is_object
from eventlog.importers.opencode.emit import Timed, message_of
from eventlog.importers.opencode.values import ERRORS, Record, model_record, tokens_record
from eventlog.values import Model, Reasoning, Tokens
from projections.reports.usage import UsageTotals
from projections.view.part_rendering import REDACTED, Resolver

CHANGES = (ev.PartEdited, ev.PartRemoved, ev.PartRedacted, ev.Pruned, ev.Restored)
"""Events that change a record later."""


class SessionDefaults:
    """Values for messages without their own: directory, newest agent, model and user message."""

    def __init__(self, session: str, directory: str, agent: str, model: Model | None) -> None:
        self.session = session
        self.directory: str = directory or "/"
        self.agent: str = agent or "build"
        self.model: Model = model or Model("unknown", "unknown")
        self.user: Any = ""
        self.created: int = 0

    def update(self, info: Record) -> None:
        """Take newer values from a message's info."""
        self.created = max(self.created, info["time"]["created"])
        self.agent = info.get("agent") or self.agent
        if info["role"] == "user":
            self.user = info["id"]
            self.model = Model(info["model"]["providerID"], info["model"]["modelID"])


def record_of(items: Sequence[Timed], defaults: SessionDefaults, text: Resolver) -> Record:
    """Return the record of a message from its events, the first of which added it.

    `change` applies the `CHANGES` among them.
    """
    record = message_of([*_as_imported(items, text)], defaults.session, text)
    info: Record = record["info"]
    info["time"]["created"] = max(defaults.created, info["time"]["created"])
    info["agent"] = info.get("agent") or defaults.agent
    if info["role"] == "user":
        info.setdefault("model", model_record(defaults.model))
        _user(info)
    else:
        _assistant(info, defaults)
        used = [event for _, event in items if isinstance(event, ev.UsageRecorded)]
        _end_step(record, used)
        _add_usage(record, used)
    if "error" in info:
        info["error"] = _error(info["error"])
    for part in record["parts"]:
        _part(part, info["time"])
    defaults.update(info)
    return record


def _as_imported(items: Iterable[Timed], text: Resolver) -> Iterator[Timed]:
    """Yield the events in the form that the importer makes.

    Live output is omitted, and texts become deltas. A truncated output is whole, since
    its preview tells a model to call `recall`, which OpenCode has not.
    """
    for time, event in items:
        match event:
            case ev.PartDelta(field="output") | ev.UsageRecorded():
                continue
            case ev.PartStarted(kind=Reasoning(text=content)) if content:
                yield time, replace(event, kind=Reasoning())
                yield time, ev.PartDelta(event.part, "text", text(content))
            case ev.ToolRunning():
                yield time, event
                if event.title or event.metadata is not None:
                    yield time, ev.ToolProgress(event.part, event.title or None, event.metadata)
            case ev.ToolCompleted() if event.truncation is not None:
                yield time, replace(event, truncation=None)
            case _:
                if not isinstance(event, CHANGES):
                    yield time, event


def _user(info: Record) -> None:
    """Remove requested tools and formats that OpenCode has no words for."""
    if "tools" in info:
        info["tools"] = {name: on for name, on in as_object(info["tools"]).items() if isinstance(on, bool)}
    form = as_object(info.get("format"))
    if form.get("type") != "text" and not (form.get("type") == "json_schema" and is_object(form.get("schema"))):
        info.pop("format", None)


def _assistant(info: Record, defaults: SessionDefaults) -> None:
    info["parentID"] = info.get("parentID") or defaults.user
    info["mode"] = info.get("mode") or info["agent"]
    if "modelID" not in info:
        info.update(model_record(defaults.model))
    path = info["path"]
    info["path"] = {"cwd": path["cwd"] or defaults.directory, "root": path["root"] or path["cwd"] or defaults.directory}


def _end_step(record: Record, used: list[ev.UsageRecorded]) -> None:
    """End the last step of an open message if it has usage, which OpenCode keeps there."""
    kinds = [part["type"] for part in record["parts"]]
    finish = used[-1].step if used else None
    known = {part["id"] for part in record["parts"]}
    if finish is None or finish in known or "step-start" not in kinds or "completed" in record["info"]["time"]:
        return
    record["parts"].append({"id": finish, "type": "step-finish", "reason": "unknown"})


def _add_usage(record: Record, used: list[ev.UsageRecorded]) -> None:
    """Set tokens and cost: of each step on its part, of the message on its info.

    The message has the tokens of its last step, and the cost of all steps.
    """
    finished: dict[str, Record] = {part["id"]: part for part in record["parts"] if part["type"] == "step-finish"}
    steps: dict[str | None, UsageTotals] = {}
    last = [*finished][-1] if finished else None
    for event in used:
        step = event.step if event.step in finished else last
        steps[step] = steps.pop(step, UsageTotals())  # moves to the end
        steps[step].add(event)
    for name, part in finished.items():
        spent = steps.get(name)
        tokens, cost = (Tokens(), 0) if spent is None else (spent.tokens, spent.cost)
        part.update(tokens=tokens_record(tokens), cost=float(cost))
    if steps:
        record["info"]["tokens"] = tokens_record([*steps.values()][-1].tokens)
        record["info"]["cost"] = float(sum(spent.cost for spent in steps.values()))


def _part(part: Record, time: Record) -> None:
    """Add what OpenCode requires of a part."""
    if part["type"] == "tool":
        _tool(part["state"], time["created"])
    elif part["type"] == "retry":
        part["error"] = _error(part["error"], retryable=True)
    if "metadata" in part:
        part["metadata"] = as_object(part["metadata"])
    _source(part)
    if part["type"] in {"text", "reasoning"} and "time" in part and "end" not in part["time"] and "completed" in time:
        part["time"]["end"] = time["completed"]


def _source(part: Record) -> None:
    """Complete the source of a file or mention; remove one that OpenCode has no kind for."""
    source: Record | None = part.get("source")
    if source is None:
        return
    kind = source.get("type", "mention")
    if kind == "text" or (kind == "symbol" and not (source.get("range") and isinstance(source.get("kind"), int))):
        del part["source"]
        return
    span = source.get("text", source)
    span.update({name: span[name] if isinstance(span.get(name), int) else 0 for name in ("start", "end")})


def _tool(state: Record, created: int) -> None:
    status = state["status"]
    for file in state.get("attachments", ()):
        _source(file)
    for name in {"input", "metadata"} & state.keys():
        state[name] = as_object(state[name])
    if status != "pending":
        state.pop("raw", None)
        times = state.setdefault("time", {})
        times.setdefault("start", min(created, times.get("end", created)))
    if status == "completed":
        state.setdefault("metadata", {})
        state.setdefault("title", "")
    elif status == "error":
        state.pop("title", None)


def as_object(value: Any) -> Record:
    """Return a copy of a JSON object, or an object with the value: OpenCode needs an object."""
    return {**value} if is_object(value) else {"value": value}


def _error(error: Record, *, retryable: bool = False) -> Record:
    """Return an error with the members of its kind; one that OpenCode lacks becomes unknown."""
    name, data = error["name"], as_object(error["data"])
    if retryable and name != "APIError":
        data.setdefault("message", name)
        name = "APIError"
    if name not in ERRORS:
        data["message"] = f"{name}: {data.get('message', '')}".removesuffix(": ")
        name = "UnknownError"
    if name != "MessageOutputLengthError":
        data.setdefault("message", "")
    if name == "APIError":
        data.setdefault("isRetryable", retryable)
    if name == "ProviderAuthError":
        data.setdefault("providerID", "unknown")
    return {"name": name, "data": data}


def change(record: Record, time: int, event: ev.Event, text: Resolver) -> None:
    """Apply one of `CHANGES` to a record."""
    names = event.parts if isinstance(event, (ev.Pruned, ev.Restored)) else (getattr(event, "part", ""),)
    for part in [each for each in record["parts"] if each["id"] in names]:
        state: Record = part.get("state", {})
        match event:
            case ev.PartRemoved():
                record["parts"].remove(part)
            case ev.Pruned() if "time" in state:
                state["time"]["compacted"] = time
            case ev.Restored() if "time" in state:
                state["time"].pop("compacted", None)
            case ev.PartEdited() if part["type"] == "tool":
                state["output"] = text(event.text)
            case ev.PartEdited():
                part["text"] = text(event.text)
            case ev.PartRedacted():
                _redact(part)
            case _:
                pass


def _redact(part: Record) -> None:
    """Remove the content of a part; a step or compaction has only a snapshot."""
    if part["type"] in {"step-start", "step-finish", "compaction"}:
        part.pop("snapshot", None)
        return
    neutral = {"id", "sessionID", "messageID", "type", "time", "callID", "tool", "mime", "state"}
    for name in part.keys() - neutral:
        del part[name]
    kind = part["type"]
    if kind in {"text", "reasoning"}:
        part["text"] = REDACTED
    elif kind == "file":
        part.update(type="text", text=REDACTED)
        del part["mime"]
    elif kind == "tool":
        state: Record = part["state"]
        redacted: Record = {"status": state["status"], "input": Record()}
        redacted.update({"time": state["time"]} if "time" in state else {"raw": ""})
        if state["status"] == "completed":
            redacted.update(output=REDACTED, title="", metadata=Record())
        elif state["status"] == "error":
            redacted["error"] = REDACTED
        part["state"] = redacted
    else:
        part.pop("time", None)
        part.update(type="text", text=REDACTED)
