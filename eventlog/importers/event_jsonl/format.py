"""Event JSONL, the engine's lossless text form of sessions: its format.

`projections/exports/jsonl.py` writes it, `reader.py` reads it, `one_file.py` puts it into a store.

Format version 1:

* First line: `{"eventlog": 1, "schema": S}`, the version of this format and the schema version of
  the events (`events`).
* `{"session": ID, "first": V}` begins the stream of a session, whose first own event has version V:
  1, or for a fork the one after its parent's.  Sessions come after those that they were forked from
  or are sub-sessions of.
* `{"version": V, "time": MS, "events": [[AFTER, EVENT], …]}` is one append: its first version, its
  time in UTC milliseconds, and each event with its time, in milliseconds after that.  `"request"`
  is the request id of the append, if it had one.  With `"more": true` the append goes on in the
  next line of this kind.
* An event is the array `[TAG, FIELD, …]` of its canonical encoding; bytes are base64, decimals
  text.  Runs of deltas are told delta by delta.
* `{"body": SHA-256 IN HEX, "text": TEXT}` is a large text, before the first append of its session
  that refers to it; with `"more": true` it goes on in the next line. One that is no text has
  `"data"` instead, in base64.
* Last line: `{"end": {"sessions": N, "events": N}}`.  A file without it was cut off.

A line with `"escaped": true` holds lone surrogates, which two JSON escapes in a row cannot tell
from a character: in every string of it U+10FFFF stands for an escape, followed by four hexadecimal
digits for a surrogate, or by itself for itself (as in `codec/batch.py`).

Not in it: positions, leases and their epochs, which belong to a store.  A damaged line ends its
session there; the other sessions are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

import msgspec

from eventlog import events as ev
from eventlog.codec.surrogates import escape, map_text
from eventlog.importers.common.importer import ImportBatch
from eventlog.values import Body

__all__ = ["VERSION", "JsonlAppend", "bodies_of", "line_of"]

VERSION = 1
"""Version of the format that is written; older ones are read."""


class JsonlAppend(ImportBatch):
    """An append, or the rest of a cut one; `first` is the version of its first event."""

    __slots__ = ("first", "line", "request")

    def __init__(self, session: str, first: int, line: int, request: str | None) -> None:
        super().__init__(session)
        self.first: int = first
        self.line: int = line
        self.request: str | None = request


def line_of(value: object) -> bytes:
    """Encode a line of the file; structs become arrays."""
    try:
        return msgspec.json.encode(value) + b"\n"
    except UnicodeEncodeError:
        return msgspec.json.encode({"escaped": True, **map_text(msgspec.to_builtins(value), escape)}) + b"\n"


def bodies_of(event: ev.Event) -> Iterator[Body]:
    """Yield the bodies that an event refers to."""
    layer: list[Any] = [event]
    while layer:
        value = layer.pop()
        if isinstance(value, Body):
            yield value
        elif isinstance(value, msgspec.Struct):
            layer.extend(getattr(value, name) for name in value.__struct_fields__)
        elif _is_tuple(value):
            layer.extend(value)


def _is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)
