"""Restores the records of an OpenCode export from the events imported from it.

What a record had beyond its events was stored as steps (`importers/common/json_patch.py`), so the
restored record is JSON-equal to the one that was read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from eventlog import events as ev
from eventlog.errors import DamagedError
from eventlog.importers.common.json_patch import patch
from eventlog.importers.opencode.records import Resolve, Timed, message_of, session_of
from eventlog.importers.opencode.values import Record
from eventlog.values import Content

__all__ = ["restore"]


def restore(items: Iterable[Timed], text: Resolve) -> Record:
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
    part: str | None = event.parts[0] if isinstance(event, ev.Pruned) else getattr(event, "part", None)
    if message is None:
        return None if part is None else owner.get(part)
    if part is not None:
        owner[part] = message
    return message
