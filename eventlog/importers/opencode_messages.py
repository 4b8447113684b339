"""One message of an OpenCode export as the events it means, each with its time.

Not the order across messages and not the snapshot's own facts (`opencode.py`); not the way back (`opencode_records.py`).
Pure: the same message after the same messages gives the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from decimal import Decimal
from typing import Any, cast

from eventlog import events as ev
from eventlog.ids import MAX_ID_BYTES
from eventlog.importers.records import dump
from eventlog.state import INTERRUPTED
from eventlog.values import (
    Agent,
    Attachment,
    Body,
    Content,
    File,
    Json,
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

__all__ = ["ERRORS", "Told", "oddity", "tell"]

ERRORS = {
    "MessageAbortedError": "aborted",
    "APIError": "api",
    "ContextOverflowError": "overflow",
    "MessageOutputLengthError": "output-length",
    "ProviderAuthError": "auth",
    "ContentFilterError": "content-filter",
    "UnknownError": "unknown",
}
"""OpenCode's names of errors, and ours; another name stays as it is."""

Record = dict[str, Any]


class Told:
    """A message as events: `items` and `late` are (UTC milliseconds, event) in the order of the message's own parts.

    The times do not decrease where one event needs another; parallel tools overlap.  Once it is told there is little
    left of it: an export may have hundreds of thousands of messages.
    """

    __slots__ = (
        "_content",
        "_now",
        "_texts",
        "born",
        "compaction",
        "ended",
        "failure",
        "id",
        "items",
        "kept",
        "late",
        "model",
        "open",
        "open_parts",
        "parent",
        "parts",
        "reason",
        "skipped",
        "summary",
        "tail",
        "user",
    )

    def __init__(self, record: Record, content: Callable[[str], Content], born: int) -> None:
        info: Record = record["info"]
        self.id: str = info["id"]
        self.user: bool = info["role"] == "user"
        self.summary: bool = info.get("summary") is True and not self.user
        self.parent = string(info, "parentID")
        self.born = max(born, time_of(info, "created"))
        self.items: list[tuple[int, ev.Event]] = []
        self.late: list[tuple[int, ev.Event]] = []
        """What happened to the message afterwards."""
        self.ended: int | None = None
        """When the message came to an end."""
        self.failure: MessageError | None = None
        self.reason: str | None = None
        self.model = model_of(info)
        self.parts: list[str] = []
        self.compaction: str | None = None
        """Its compaction part, in a user message."""
        self.tail: str | None = None
        self.open = False
        """Whether the message has not come to an end."""
        self.open_parts: dict[str, bool] = {}
        """Its parts that have not ended; true for tools."""
        self.skipped: list[str] = []
        self.kept: str | None = None
        """The difference between the record and its events, as JSON."""
        self._content = content
        self._texts: dict[bytes, str] = {}
        self._now = self.born

    def add(self, time: int, event: ev.Event) -> None:
        """An event at its time."""
        self.items.append((time, event))

    def content(self, text: str) -> Content:
        """The text, or a reference to it when it is large."""
        found = self._content(text)
        if isinstance(found, Body):
            self._texts[found.digest] = text
        return found

    def text(self, content: Content) -> str:
        """The text of a content of this message."""
        return self._texts[content.digest] if isinstance(content, Body) else content

    def at(self, time: int | None) -> int:
        """The time at which a part begins: parts begin in their order, whatever times they have."""
        self._now = max(self._now, time or 0)
        return self._now

    def forget(self) -> None:
        """Let go of all but what later messages may ask for."""
        self._content, self._texts = _no_more, _NO_TEXTS
        self.items = self.late = _NO_ITEMS
        self.skipped = _NOTHING
        self.model = self.failure = None
        self.open_parts = self.open_parts or _NO_PARTS

    def closing(self) -> list[ev.Event]:
        """What closes its open parts."""
        return [
            ev.ToolFailed(part, INTERRUPTED, interrupted=True) if is_tool else ev.PartEnded(part)
            for part, is_tool in self.open_parts.items()
        ]


_NO_TEXTS: dict[bytes, str] = {}
_NO_PARTS: dict[str, bool] = {}
_NO_ITEMS: list[tuple[int, ev.Event]] = []
_NOTHING: list[str] = []
"""What all messages that are told have in common; nothing is added to them any more."""


def _no_more(text: str) -> Content:
    raise AssertionError(f"a text of {len(text)} characters for a message that is told")


def oddity(record: object, known: Container[str]) -> str | None:
    """Why a record cannot be a message of this session, or None; `known` are the ids of the messages so far."""
    if not isinstance(record, dict):
        return "not an object"
    found = cast("Record", record)
    info = found.get("info")
    if not isinstance(info, dict) or not isinstance(found.get("parts"), list):
        return "without info or parts"
    message = cast("Record", info)
    if not is_id(message.get("id")):
        return "without an id"
    if message["id"] in known:
        return "its id was used before"
    if string(message, "role") not in {"user", "assistant"}:
        return "of neither user nor assistant"
    return None


def is_id(value: object) -> bool:
    """Whether a value may be the id of a message or part."""
    return isinstance(value, str) and 0 < len(value.encode("utf-8", "surrogatepass")) <= MAX_ID_BYTES


def tell(record: Record, content: Callable[[str], Content], born: int, known: set[str]) -> Told:
    """The events of one message.

    `born` is the creation of the message before; `known` are the ids of all parts so far, and grows.
    """
    told = Told(record, content, born)
    (_user if told.user else _assistant)(told, record)
    calls: set[str] = set()
    for part in record["parts"]:
        reason = _odd_part(part, known, calls)
        rule = None if reason else (_USER if told.user else _ASSISTANT).get(string(part, "type"))
        if rule is None:
            told.skipped.append(reason or f"a part of an unknown type {string(part, 'type')!r}")
            continue
        known.add(part["id"])
        told.parts.append(part["id"])
        rule(told, part, record["info"])
    if not told.user:
        _finish(told, record["info"])
    return told


def _odd_part(part: object, known: set[str], calls: set[str]) -> str | None:
    if not isinstance(part, dict):
        return "a part that is not an object"
    found = cast("Record", part)
    if not is_id(found.get("id")):
        return "a part without an id"
    if found["id"] in known:
        return "a part whose id was used before"
    if found.get("type") == "tool":
        if not isinstance(found.get("state"), dict) or not isinstance(found.get("callID"), str):
            return "a tool part without call or state"
        if found["callID"] in calls:
            return "a tool part whose call was made before in its message"
        calls.add(found["callID"])
    return None


# -- messages ----------------------------------------------------------------------------------


def _user(told: Told, record: Record) -> None:
    info: Record = record["info"]
    system = info.get("system")
    synthetic = bool(record["parts"]) and all(
        isinstance(part, dict) and cast("Record", part).get("synthetic") is True for part in record["parts"]
    )
    told.add(
        told.born,
        ev.UserMessageAdded(
            told.id,
            string(info, "agent"),
            model_of(info.get("model")),
            optional(info.get("model"), "variant"),
            told.content(system) if isinstance(system, str) else None,
            as_json(info.get("tools")),
            as_json(info.get("format")),
            synthetic,
        ),
    )


def _assistant(told: Told, record: Record) -> None:
    info: Record = record["info"]
    path = info.get("path")
    told.add(
        told.born,
        ev.AssistantMessageStarted(
            told.id,
            optional(info, "parentID"),
            string(info, "agent"),
            string(info, "mode"),
            model_of(info),
            optional(info, "variant"),
            optional(path, "cwd"),
            optional(path, "root"),
            summary=told.summary,
        ),
    )
    told.open = True


def _finish(told: Told, info: Record) -> None:
    """Close the message if the record says that it came to an end."""
    error = error_of(info.get("error"))
    completed = time_of(info, "completed")
    if not completed and error is None and not isinstance(info.get("finish"), str):
        return
    end = max([completed, *(time for time, _ in told.items)])
    for event in told.closing():
        told.add(end, event)
    told.open_parts.clear()
    if not any(isinstance(event, ev.UsageRecorded) for _, event in told.items):
        usage = usage_of(info)
        if usage.tokens != Tokens() or usage.cost:
            purpose = "summary" if told.summary else "turn"
            told.add(end, ev.UsageRecorded(usage, told.id, None, model_of(info), purpose, failed=error is not None))
    told.open = False
    told.ended, told.reason = end, optional(info, "finish")
    told.failure = error
    told.add(end, ev.MessageFinished(told.id, optional(info, "finish"), error))


# -- parts -------------------------------------------------------------------------------------


def _start(told: Told, part: Record, kind: Any, time: int | None = None) -> int:
    begun = told.at(time)
    told.add(begun, ev.PartStarted(told.id, part["id"], kind))
    return begun


def _said(told: Told, part: Record, info: Record) -> None:
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


def _thought(told: Told, part: Record, info: Record) -> None:
    del info
    begun = _start(told, part, Reasoning(), time_of(part, "start"))
    _grow(told, part, begun, string(part, "text"))


def _grow(told: Told, part: Record, begun: int, text: str) -> None:
    """The text as one delta at its end, and the end if the record has one."""
    end = time_of(part, "end")
    told.open_parts[part["id"]] = False
    if text:
        told.add(max(begun, end), ev.PartDelta(part["id"], "text", text))
    if end or "time" not in part:
        told.open_parts.pop(part["id"])
        told.add(max(begun, end), ev.PartEnded(part["id"], as_json(part.get("metadata"))))


def _tool(told: Told, part: Record, info: Record) -> None:
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


def _attachment(told: Told, file: Any) -> Attachment:
    return Attachment(
        string(file, "mime"),
        told.content(string(file, "url")),
        optional(file, "filename"),
        string(file, "id"),
        source_of(cast("Record", file).get("source") if isinstance(file, dict) else None),
    )


def _file(told: Told, part: Record, info: Record) -> None:
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


def _subtask(told: Told, part: Record, info: Record) -> None:
    del info
    kind = Subtask(
        told.content(string(part, "prompt")),
        string(part, "description"),
        string(part, "agent"),
        model_of(part.get("model")),
        optional(part, "command"),
    )
    _start(told, part, kind)


def _mention(told: Told, part: Record, info: Record) -> None:
    del info
    _start(told, part, Agent(string(part, "name"), source_of(part.get("source"), "text")))


def _compaction(told: Told, part: Record, info: Record) -> None:
    del info
    overflow = part.get("overflow")
    told.compaction, told.tail = part["id"], optional(part, "tail_start_id")
    told.add(
        told.born,
        ev.CompactionRequested(
            told.id, part["id"], part.get("auto") is True, overflow if isinstance(overflow, bool) else None
        ),
    )


def _step_start(told: Told, part: Record, info: Record) -> None:
    del info
    purpose: Any = "summary" if told.summary else "turn"
    told.add(told.at(None), ev.StepStarted(told.id, part["id"], purpose, snapshot=optional(part, "snapshot")))


def _step_finish(told: Told, part: Record, info: Record) -> None:
    if not any(isinstance(event, ev.StepStarted) for _, event in told.items):
        told.skipped.append("a step-finish part without a step-start")
        told.parts.pop()
        return
    end = told.at(max(time for time, _ in told.items))
    told.add(end, ev.StepFinished(told.id, part["id"], string(part, "reason"), optional(part, "snapshot")))
    purpose = "summary" if told.summary else "turn"
    told.add(end, ev.UsageRecorded(usage_of(part), told.id, part["id"], model_of(info), purpose))


def _snapshot(told: Told, part: Record, info: Record) -> None:
    del info
    _start(told, part, Snapshot(string(part, "snapshot")))


def _patch(told: Told, part: Record, info: Record) -> None:
    del info
    files = tuple(file for file in array(part, "files") if isinstance(file, str))
    _start(told, part, Patch(string(part, "hash"), files))


def _retry(told: Told, part: Record, info: Record) -> None:
    del info
    error = error_of(part.get("error")) or MessageError("unknown")
    _start(told, part, Retry(number(part, "attempt"), error), time_of(part, "created"))


Rule = Callable[[Told, Record, Record], None]

_COMMON: dict[str, Rule] = {
    "text": _said,
    "file": _file,
    "subtask": _subtask,
    "agent": _mention,
    "snapshot": _snapshot,
    "patch": _patch,
    "retry": _retry,
}
_USER: dict[str, Rule] = {**_COMMON, "compaction": _compaction}
_ASSISTANT: dict[str, Rule] = {
    **_COMMON,
    "reasoning": _thought,
    "tool": _tool,
    "step-start": _step_start,
    "step-finish": _step_finish,
}


# -- values ------------------------------------------------------------------------------------

_LARGEST = 1 << 63


def string(record: Any, key: str) -> str:
    """The member if it is a text, else ""."""
    return optional(record, key) or ""


def optional(record: Any, key: str) -> str | None:
    """The member if it is a text, else None."""
    value = cast("Record", record).get(key) if isinstance(record, dict) else None
    return value if isinstance(value, str) else None


def array(record: Record, key: str) -> list[Any]:
    """The member if it is an array, else an empty one."""
    value = record.get(key)
    return [*cast("Iterable[Any]", value)] if isinstance(value, list) else []


def time_of(record: Record, key: str) -> int:
    """A time of the record in UTC milliseconds, 0 if it has none."""
    time = record.get("time")
    value = cast("Record", time).get(key) if isinstance(time, dict) else None
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e15 else 0


def as_json(value: Any) -> Json | None:
    """A value as JSON text, None for none."""
    return None if value is None else dump(value, plain=False)


def model_of(record: Any) -> Model | None:
    """The model that a record names."""
    name = optional(record, "modelID")
    return None if name is None else Model(string(record, "providerID"), name)


def error_of(record: Any) -> MessageError | None:
    """The error that a record has."""
    if not isinstance(record, dict):
        return None
    found = cast("Record", record)
    name = string(found, "name")
    data = found.get("data")
    return MessageError(ERRORS.get(name, name), string(data, "message"), as_json(data))


def usage_of(record: Record) -> Usage:
    """Tokens and cost of a step or message."""
    tokens = record.get("tokens")
    cost = record.get("cost")
    is_price = isinstance(cost, (int, float)) and not isinstance(cost, bool) and abs(cost) < _LARGEST
    price = Decimal(str(cost)) if is_price else None
    if not isinstance(tokens, dict):
        return Usage(Tokens(), price)
    found = cast("Record", tokens)
    cache = found.get("cache")
    return Usage(
        Tokens(
            number(found, "input"),
            number(found, "output"),
            number(found, "reasoning"),
            number(cache, "read"),
            number(cache, "write"),
            whole(found.get("total")),
        ),
        price,
    )


def number(record: Any, key: str) -> int:
    """The member if it is a whole number, else 0."""
    return (whole(cast("Record", record).get(key)) if isinstance(record, dict) else None) or 0


def whole(value: Any) -> int | None:
    """A value if it is a whole number that an event can have, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST else None


def source_of(record: Any, kind: str = "") -> Source | None:
    """Where a file or a mention comes from."""
    if not isinstance(record, dict):
        return None
    found = cast("Record", record)
    text = cast("Record", found.get("text")) if isinstance(found.get("text"), dict) else found
    span = found.get("range")
    name: Any = kind or string(found, "type")
    return Source(
        name if name in {"file", "symbol", "resource", "text"} else "text",
        string(found, "path") or string(found, "uri"),
        number(text, "start") if "start" in text else None,
        number(text, "end") if "end" in text else None,
        string(text, "value"),
        string(found, "name"),
        _range(cast("Record", span)) if isinstance(span, dict) else None,
        string(found, "clientName"),
        whole(found.get("kind")),
    )


def _range(span: Record) -> tuple[int, int, int, int]:
    return (
        number(span.get("start"), "line"),
        number(span.get("start"), "character"),
        number(span.get("end"), "line"),
        number(span.get("end"), "character"),
    )
