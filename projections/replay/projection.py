"""The protocol of a projection: a pure function over events, with a name and a version.

A projection does no I/O and uses neither a clock nor random numbers.  `loop.py` feeds it.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from eventlog.codec.batch import Batch
from eventlog.codec.decoded import Span
from eventlog.codec.deltas import DeltaRun
from eventlog.events import Event, RecordForgotten, RolledBack

S = TypeVar("S")

RESHAPING = (RolledBack, RecordForgotten)
"""Events that change which of the events before them are effective."""


class Projection(Protocol[S]):
    """Builds a state: `initial`, then `apply` for every event of the effective history.

    `apply` may change the state that it is given and returns it; the caller holds the only
    reference. It is total: an unknown kind of event is an error. It refers to bodies and never
    loads one. `version` grows whenever the same events give another state, so that older
    checkpoints are not used.
    """

    @property
    def name(self) -> str:
        """Name of the projection, part of the key of its checkpoints."""
        ...

    @property
    def version(self) -> int:
        """Version of the state's meaning and encoding."""
        ...

    def initial(self) -> S:
        """Return the state before the first event."""
        ...

    def apply(self, state: S, event: Event, version: int, time: int) -> S:
        """Return the state after `event`, which has this version and time (UTC milliseconds)."""
        ...

    def apply_run(self, state: S, run: DeltaRun, version: int, time: int) -> S:
        """Return the state after a run of deltas, the first of which has this version and time.

        Equal to applying them one by one.
        """
        ...

    def apply_batch(self, state: S, batch: Batch, version: int) -> tuple[S, int]:
        """Apply the events of an append; return the state and the version after them.

        The first event has version `version`.

        Equal to applying them one by one (`apply_each`), but it stops before an event of
        `RESHAPING`, which no projection can apply.
        """
        ...

    def encode(self, state: S) -> bytes:
        """Encode the state as canonical bytes: equal states have equal bytes."""
        ...

    def decode(self, data: bytes) -> S:
        """Decode a state; raises if the bytes are not an encoded state."""
        ...


def apply_each(projection: Projection[S], state: S, batch: Batch, version: int) -> tuple[S, int]:
    """Apply the events of an append one by one: `Projection.apply_batch` for any projection."""
    for entry in batch.entries:
        if isinstance(entry, DeltaRun):
            state = projection.apply_run(state, entry, version, batch.time + entry.start)
            version += entry.count
        elif isinstance(entry.event, RESHAPING):
            break
        else:
            state = projection.apply(state, entry.event, version, batch.time + entry.after)
            version += 1
    return state, version


def apply_span(projection: Projection[S], state: S, span: Span) -> S:
    """Apply one span: an event, or a whole run of deltas."""
    item = span.item
    if isinstance(item, DeltaRun):
        return projection.apply_run(state, item, span.first, span.time)
    return projection.apply(state, item, span.first, span.time)


class NeedsReplay(Exception):  # noqa: N818  # not an error: control flow between projection and replay loop
    """Compaction `part` is undone, but the state has evicted the messages that it covered."""

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part
