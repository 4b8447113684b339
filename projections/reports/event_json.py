"""Recorded events as readable JSON (`schemas/events.json`) and as one short line.

The JSON is for user interfaces: it has names instead of codes, and large texts are references
(hash, bytes, characters). It is not the stored form.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from typing import Any, cast

import msgspec

from eventlog.codec.decoded import Recorded
from eventlog.codec.large_texts import BYTES
from eventlog.events import Base, Event
from eventlog.validation import require
from eventlog.values import Body

_HUMP = re.compile(r"(?<!^)(?=[A-Z])")
_LONGEST = 60
"""Characters of a field that a line shows."""


@cache
def kind_named(name: str) -> str:
    """Return the kind for a class's name: `user-message-added` for `UserMessageAdded`."""
    return _HUMP.sub("-", name).lower()


def event_kind(event: Base) -> str:
    """Return the kind of an event."""
    return kind_named(type(event).__name__)


def event_record(recorded: Recorded) -> dict[str, Any]:
    """Return the event with its place as JSON values, as `eventlog events --json` prints it."""
    require(Recorded, recorded, "an event with its place is a Recorded")
    return {
        "session": recorded.session,
        "version": recorded.version,
        "cursor": recorded.cursor,
        "time": recorded.time,
        "epoch": recorded.epoch,
        "kind": event_kind(recorded.event),
        "event": _fields(recorded.event),
    }


def event_summary(event: Event, *, short: bool = False) -> str:
    """Return the fields of an event that are not empty as one line, each field cut.

    With `short` ids come last, and of each only its end: enough to name it in the command line.
    """
    require(Base, event, "an event is one of eventlog.events")
    fields: list[str] = []
    ids: list[str] = []
    for name, value in _fields(event).items():
        if value is None or value in ("", [], False):
            continue
        is_id = short and name in _IDS
        text = _short_id(value) if is_id else _brief(value)
        (ids if is_id else fields).append(f"{name}={text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'}")
    return "  ".join(fields + ids)


_IDS = frozenset(("message", "part", "parts", "reply_to", "step", "summary", "tail", "through", "parent"))
"""Fields that name sessions, messages and parts."""
_END = 8
"""Characters of an id that end it, where it is longer by half."""


def _short_id(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(_short_id, cast("Any", value)))
    return value[-_END:] if isinstance(value, str) and len(value) > _END * 3 // 2 else str(value)


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    return {name: _json_value(getattr(struct, name)) for name in struct.__struct_fields__}


def _json_value(value: Any) -> Any:
    if isinstance(value, Body):
        stored: dict[str, Any] = {"body": value.digest.hex(), "bytes": value.size}
        return stored if value.characters == BYTES else {**stored, "characters": value.characters}
    if isinstance(value, msgspec.Struct):
        tag = value.__struct_config__.tag
        return {"type": tag, **_fields(value)} if tag else _fields(value)
    if isinstance(value, (tuple, list)):
        return [_json_value(item) for item in cast("Any", value)]
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, Decimal) else value


def _brief(value: Any) -> str:
    if isinstance(value, str):
        return repr(value[: _LONGEST * 2])
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if "body" in fields:
            return f"<{fields['characters']} characters>"
        return "{" + " ".join(f"{name}={_brief(item)}" for name, item in fields.items() if item) + "}"
    if isinstance(value, list):
        return "[" + " ".join(map(_brief, cast("Any", value))) + "]"
    return str(value)
