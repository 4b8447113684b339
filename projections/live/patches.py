"""Patches of a page: what changed in it, as JSON values (`schemas/live.json`).

    {"reset": page}                             drop everything, show this page
    {"message": {…, "parts": […]}}              a new message
    {"message": {…}}                            the fields of a message, without its parts
    {"part": id, "of": message, "set": {…}}     a new part, behind the others of its message
    {"part": id, "set": {…}}                    these fields of a part have these values
    {"part", "field", "at", "text"}             text that follows the first `at` units of a field
    {"part", "field", "end": n}                 the field ends after `n` units
    {"drop": version}                           forget the messages that began before a version
    {"gone": "erased"}                          the session is erased

Units are those of UTF-16: `text.length` in JavaScript.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from projections.transcript.message_json import Json, units

_GROWING = ("text", "input")
"""The fields of a part that text is added to."""


class Update(NamedTuple):
    """Patches that belong together, and the cursor of the page behind them."""

    cursor: str | None
    """Text with which any process goes on from here; None of a provisional update."""
    patches: list[Json]
    data: bytes
    """The patches as JSON."""

    @classmethod
    def of(cls, cursor: str | None, patches: list[Json]) -> Update:
        """Return an update with its bytes."""
        return cls(cursor, patches, encoded(patches))


def encoded(value: Any) -> bytes:
    """Return a JSON value as bytes; lone surrogates are escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def delta(part: str, field: str, at: int, text: str) -> Json:
    """Return the patch that adds text to a field."""
    return {"part": part, "field": field, "at": at, "text": text}


def part_set(part: str, fields: Json) -> Json:
    """Return the patch that sets fields of a part."""
    return {"part": part, "set": fields}


def new_part(message: str, part: Json) -> Json:
    """Return the patch that adds a part to a message."""
    return {"part": part["id"], "of": message, "set": part}


def part_patches(before: Json, after: Json) -> Iterator[Json]:
    """Yield what turns a part into another state of it."""
    changed = {name: value for name, value in after.items() if before[name] != value}
    for field in _GROWING:
        if field in changed and before[field] and after[field].startswith(before[field]):
            yield delta(after["id"], field, units(before[field]), changed.pop(field)[len(before[field]) :])
    if changed:
        yield part_set(after["id"], changed)


def message_patches(before: Json, after: Json, forced: set[str]) -> Iterator[Json]:
    """Yield what turns a message into another state of it; parts of `forced` are sent whole."""
    header = {name: value for name, value in after.items() if name != "parts"}
    if any(before[name] != value for name, value in header.items()):
        yield {"message": header}
    known = {part["id"]: part for part in before["parts"]}
    for part in after["parts"]:
        name = part["id"]
        if name not in known:
            yield new_part(after["id"], part)
        elif name in forced:
            yield part_set(name, part)
        else:
            yield from part_patches(known[name], part)
