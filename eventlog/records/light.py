"""Decoding of appends for readers of records: only events that may hold some of a record.

A list of messages is read a few times as fast as with all its events. The others are of empty
types, with the same tags.
"""

from __future__ import annotations

from functools import cache, reduce
from typing import Any, ClassVar

import msgspec

from eventlog import events as ev
from eventlog.codec.batch import KINDS
from eventlog.codec.decoded import decode_commit, one_by_one
from eventlog.codec.deltas import DeltaRun
from eventlog.events import SCHEMA
from eventlog.log.commit import Commit

__all__ = ["light_events"]

_HOLDING: tuple[type[ev.Base], ...] = (
    ev.RecordKept,
    ev.RolledBack,
    ev.PartStarted,
    ev.PartEnded,
    ev.ToolRunning,
    ev.ToolCompleted,
    ev.ToolFailed,
    ev.SystemPromptSet,
    ev.ToolsSet,
    ev.ForeignKept,
)
"""Ends of records, rollbacks, and the events that texts and values move to."""


class _Run(msgspec.Struct, array_like=True, gc=False, tag=DeltaRun.__struct_config__.tag):
    """A run of deltas, which no record has."""

    event: ClassVar[None] = None


@cache
def _decoder() -> msgspec.msgpack.Decoder[Any]:
    """Return the decoder of batches, made when it is first needed."""
    empty = [
        msgspec.defstruct(kind.__name__, [], array_like=True, gc=False, tag=kind.__struct_config__.tag)
        for kind in KINDS
        if kind not in _HOLDING
    ]
    event: Any = reduce(lambda one, other: one | other, (*_HOLDING, *empty))  # type: ignore[arg-type, return-value]
    entry: Any = msgspec.defstruct("Entry", [("after", int), ("event", event)], array_like=True, gc=False, tag=0)
    fields: list[Any] = [("schema", int), ("time", int), ("escaped", bool), ("entries", list[entry | _Run])]
    return msgspec.msgpack.Decoder(msgspec.defstruct("Batch", fields, array_like=True, gc=False))


def light_events(commit: Commit) -> list[Any]:
    """Return the entries of a commit, each with its `event`; none if it was erased.

    Commits with runs of deltas, escaped texts, or of older schemas are decoded whole, and so are
    those that cannot be read, whose errors say where.
    """
    payload = commit.payload
    try:
        batch = _decoder().decode(payload)
        entries: list[Any] = batch.entries
        if batch.schema == SCHEMA and not batch.escaped and len(entries) == commit.count:
            return entries
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):
        pass
    return one_by_one(decode_commit(commit))
