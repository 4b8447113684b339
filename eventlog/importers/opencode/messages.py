"""One message of an OpenCode export as the events it means, each with its time.

Its parts: `parts.py`.  Not the order across messages and not the snapshot's own facts (`importer.py`); not the way back
(`emit.py`).  Pure: the same message after the same messages gives the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import cast

from eventlog import events as ev
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

__all__ = ["oddity", "tell"]


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


def tell(record: Record, content: Callable[[str], Content], born: int, known: set[str]) -> MessageEvents:
    """The events of one message.

    `born` is the creation of the message before; `known` are the ids of all parts so far, and grows.
    """
    told = MessageEvents(record, content, born)
    (_user if told.user else _assistant)(told, record)
    calls: set[str] = set()
    for part in record["parts"]:
        reason = _odd_part(part, known, calls)
        rule = None if reason else (USER if told.user else ASSISTANT).get(string(part, "type"))
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


def _user(told: MessageEvents, record: Record) -> None:
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


def _assistant(told: MessageEvents, record: Record) -> None:
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


def _finish(told: MessageEvents, info: Record) -> None:
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
