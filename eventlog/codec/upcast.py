"""Upcasters: events of older schema versions, brought up to the current one.

An upcaster takes one event as plain lists (`[tag, field, …]`), of schema version N, and returns it
as of version N + 1. One event stays one event: versions are part of history. No other module knows
older schemas.

Schema versions:
    1  the first prototype: `SessionStarted` had `format` and `foreign_id` instead of `origin`
    2  queued messages were seen at once; steps, compactions and user messages had fewer fields
    3  no values, names, notes and records; no catalogue of prices; a batch had no `messages`
    4  this program
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["ADDED_ONLY", "UPCASTERS", "upcast"]

Plain = list[object]


def _from_1(event: Plain) -> Plain:
    if event[0] == "ss" and len(event) >= 9:
        fields, (format_name, foreign_id) = event[:7], event[7:9]
        origin = [format_name, foreign_id] if format_name else None
        return [*fields, origin]
    return event


def _from_2(event: Plain) -> Plain:
    """Turn queued messages into steering ones, because they were seen at once.

    Missing fields have their defaults.
    """
    if event[0] == "mu" and len(event) >= 10 and event[9] == "queue":
        return [*event[:9], "steer", *event[10:]]
    return event


UPCASTERS: dict[int, Callable[[Plain], Plain]] = {1: _from_1, 2: _from_2, 3: lambda event: event}
ADDED_ONLY = 3
"""The oldest schema version whose events need no change: later ones only added to it."""


def upcast(event: Plain, schema: int, current: int) -> Plain:
    """Bring an event of `schema` up to `current`; KeyError if a step is missing."""
    for version in range(schema, current):
        event = UPCASTERS[version](event)
    return event
