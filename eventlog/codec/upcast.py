"""Upcasters: events of older schema versions, brought up to the current one.

An upcaster takes one event as plain lists (`[tag, field, …]`), of schema version N, and returns it
as of version N + 1. One event stays one event: versions are part of history. No other module knows
older schemas.  This program's is the first.
"""

from __future__ import annotations

from collections.abc import Callable

Plain = list[object]

UPCASTERS: dict[int, Callable[[Plain], Plain]] = {}
"""The upcaster of events of each older version."""


def upcast(event: Plain, schema: int, current: int) -> Plain:
    """Bring an event of `schema` up to `current`; KeyError if a step is missing."""
    for version in range(schema, current):
        event = UPCASTERS[version](event)
    return event
