"""One message of an OpenCode export as the events it means, each with its time.

Its parts: `parts.py`. Not the order across messages and not the snapshot's own facts
(`importer.py`); not the way back (`emit.py`). Pure: the same message after the same messages gives
the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from eventlog import events as ev
from eventlog.importers.common.json_lines import is_array, is_object
from eventlog.importers.common.record_index import RecordIndex
from eventlog.importers.opencode.message_events import MessageEvents
from eventlog.importers.opencode.parts import ASSISTANT, USER
from eventlog.importers.opencode.values import (
    Record,
    as_json,
    error_of,
    is_id,
    model_of,
    optional,
    string,
    time_of,
    usage_of,
)
from eventlog.values import Content, Tokens


def problem_of(record: object, known: Container[str]) -> str | None:
    """Return why a record cannot be a message of this session; None if it can.

    `known` are the ids of the messages so far.
    """
    if not is_object(record):
        return "not an object"
    info = record.get("info")
    if not is_object(info) or not is_array(record.get("parts")):
        return "without info or parts"
    if not is_id(info.get("id")):
        return "without an id"
    if info["id"] in known:
        return "its id was used before"
    if string(info, "role") not in {"user", "assistant"}:
        return "of neither user nor assistant"
    return None


def events_of_message(
    record: Record, content: Callable[[str], Content], born: int, known: RecordIndex
) -> MessageEvents:
    """Return the events of one message.

    `born` is the creation of the message before; `known` are the ids of all parts so far, and
    grows.
    """
    events = MessageEvents(record, content, born)
    (_user if events.user else _assistant)(events, record)
    calls: set[str] = set()
    for part in record["parts"]:
        reason = _odd_part(part, known, calls)
        rule = None if reason else (USER if events.user else ASSISTANT).get(string(part, "type"))
        if rule is None:
            events.skipped.append(reason or f"a part of an unknown type {string(part, 'type')!r}")
            continue
        known.put(part["id"], 0)
        events.parts.append(part["id"])
        rule(events, part)
    if not events.user:
        _finish(events, record["info"])
    return events


def _odd_part(part: object, known: RecordIndex, calls: set[str]) -> str | None:
    if not is_object(part):
        return "a part that is not an object"
    if not is_id(part.get("id")):
        return "a part without an id"
    if known.get(part["id"]) is not None:
        return "a part whose id was used before"
    if part.get("type") == "tool":
        if not is_object(part.get("state")) or not isinstance(part.get("callID"), str):
            return "a tool part without call or state"
        if part["callID"] in calls:
            return "a tool part whose call was made before in its message"
        calls.add(part["callID"])
    return None


def _user(events: MessageEvents, record: Record) -> None:
    info: Record = record["info"]
    system = info.get("system")
    synthetic = bool(record["parts"]) and all(
        is_object(part) and part.get("synthetic") is True for part in record["parts"]
    )
    events.add(
        events.born,
        ev.UserMessageAdded(
            events.id,
            string(info, "agent"),
            model_of(info.get("model")),
            optional(info.get("model"), "variant"),
            events.content(system) if isinstance(system, str) else None,
            as_json(info.get("tools")),
            as_json(info.get("format")),
            synthetic,
        ),
    )


def _assistant(events: MessageEvents, record: Record) -> None:
    info: Record = record["info"]
    path = info.get("path")
    events.add(
        events.born,
        ev.AssistantMessageStarted(
            events.id,
            optional(info, "parentID"),
            string(info, "agent"),
            string(info, "mode"),
            events.model,
            optional(info, "variant"),
            optional(path, "cwd"),
            optional(path, "root"),
            summary=events.summary,
        ),
    )
    events.open = True


def _finish(events: MessageEvents, info: Record) -> None:
    """Close the message if the record says that it came to an end."""
    error = error_of(info.get("error"))
    completed = time_of(info, "completed")
    if not completed and error is None and not isinstance(info.get("finish"), str):
        return
    end = max([completed, *(time for time, _ in events.items)])
    for event in events.closing():
        events.add(end, event)
    events.open_parts.clear()
    if not any(isinstance(event, ev.UsageRecorded) for _, event in events.items):
        usage = usage_of(info)
        if usage.tokens != Tokens() or usage.cost:
            purpose = "summary" if events.summary else "turn"
            events.add(end, ev.UsageRecorded(usage, events.id, None, events.model, purpose, failed=error is not None))
    events.open = False
    events.ended, events.reason = end, optional(info, "finish")
    events.failure = error
    events.add(end, ev.MessageFinished(events.id, optional(info, "finish"), error))
