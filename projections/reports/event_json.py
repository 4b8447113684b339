"""A recorded event in words: as the JSON that `events --json` prints (`schemas/events.json`), and as one short line.

A reading form with names, for user interfaces and people; not the stored bytes (`eventlog/codec/batch.py`) and not an export.
Large texts stay references: hash, bytes, characters.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from typing import Any, cast

import msgspec

from eventlog.codec.decoded import Recorded
from eventlog.events import Base, Event
from eventlog.validation import require
from eventlog.values import Body

__all__ = ["event_kind", "event_kinds", "event_record", "event_summary", "kind_named"]

_HUMP = re.compile(r"(?<!^)(?=[A-Z])")
_LONGEST = 60
"""Characters of a field that a line shows."""


@cache
def kind_named(name: str) -> str:
    """The kind of an event by its class's name: `UserMessageAdded` is `user-message-added`."""
    return _HUMP.sub("-", name).lower()


def event_kind(event: Base) -> str:
    """The kind of an event."""
    return kind_named(type(event).__name__)


def event_kinds() -> list[str]:
    """Every kind there is."""
    return sorted(kind_named(kind.__name__) for kind in cast("Any", Event).__args__)


def event_record(recorded: Recorded) -> dict[str, Any]:
    """The event with its place, as JSON values: what `events --json` prints, and its schema says."""
    require(Recorded, recorded, "an event with its place is a Recorded")
    return {
        "session": recorded.session,
        "version": recorded.version,
        "position": recorded.position,
        "time": recorded.time,
        "epoch": recorded.epoch,
        "kind": event_kind(recorded.event),
        "event": _fields(recorded.event),
    }


def event_summary(event: Event) -> str:
    """The fields of an event that say something in one line, each cut to a line's measure."""
    require(Base, event, "an event is one of eventlog.events")
    said: list[str] = []
    for name, value in _fields(event).items():
        if value is None or value in ("", [], False):
            continue
        text = _brief(value)
        said.append(f"{name}={text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'}")
    return "  ".join(said)


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    return {name: _plain(getattr(struct, name)) for name in struct.__struct_fields__}


def _plain(value: Any) -> Any:
    if isinstance(value, Body):
        return {"body": value.digest.hex(), "bytes": value.size, "characters": value.characters}
    if isinstance(value, msgspec.Struct):
        tag = value.__struct_config__.tag
        return {"type": tag, **_fields(value)} if tag else _fields(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in cast("Any", value)]
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
