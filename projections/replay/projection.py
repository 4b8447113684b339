"""The protocol of a projection: a pure fold over events with a name and a version.  No I/O, no clock, no randomness.

Not the loop that feeds it (`loop.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

from eventlog.codec.batch import Batch
from eventlog.codec.decoded import DecodedCommit, Span
from eventlog.codec.deltas import DeltaRun
from eventlog.events import Event, RolledBack

__all__ = ["NeedsReplay", "Projection", "Source", "fold", "one_by_one"]

S = TypeVar("S")


class Projection(Protocol[S]):
    """A fold: `initial`, then `apply` for every event of the effective history in version order.

    `apply` may change the state it is given and returns it; nobody else holds that state.  It is total: an event kind
    it does not know is an error.  It refers to bodies and never loads one.  `version` grows whenever the
    state would come out differently, so that older checkpoints are not used.
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
        """The state before the first event."""
        ...

    def apply(self, state: S, event: Event, version: int, time: int) -> S:
        """The state after `event`, which has this version and this time (UTC milliseconds)."""
        ...

    def apply_run(self, state: S, run: DeltaRun, version: int, time: int) -> S:
        """The state after a whole run of deltas, the first of which has this version and time.

        Equal to applying them one by one.
        """
        ...

    def apply_batch(self, state: S, batch: Batch, version: int) -> tuple[S, int]:
        """The state after all events of an append, the first of which has this version, and the version of the one after them.

        Equal to applying them one by one (`one_by_one`), but it stops before a `RolledBack`: a fold cannot un-apply.
        """
        ...

    def encode(self, state: S) -> bytes:
        """The state as canonical bytes: equal states have equal bytes."""
        ...

    def decode(self, data: bytes) -> S:
        """The state again; raises if the bytes are not an encoded state."""
        ...


class Source(Protocol):
    """What the loop reads: a session, or anything that can tell its events the same way."""

    @property
    def id(self) -> str:
        """The session's id."""
        ...

    @property
    def version(self) -> int:
        """Version of the newest event."""
        ...

    def decoded_commits(self, after: int = 0, upto: int | None = None) -> Iterator[DecodedCommit]:
        """Every event of versions `after + 1 .. upto`, append by append, also those that a rollback hid."""
        ...

    def history(self, at: int | None = None, after: int = 0) -> Iterator[Span]:
        """The effective history right after version `at`, from `after + 1` on."""
        ...

    def effective_ranges(self, at: int | None = None) -> list[tuple[int, int]]:
        """The versions of the effective history, as closed ascending ranges."""
        ...


def one_by_one(projection: Projection[S], state: S, batch: Batch, version: int) -> tuple[S, int]:
    """`Projection.apply_batch` for any projection."""
    for entry in batch.entries:
        if isinstance(entry, DeltaRun):
            state = projection.apply_run(state, entry, version, batch.time + entry.start)
            version += entry.count
        elif isinstance(entry.event, RolledBack):
            break
        else:
            state = projection.apply(state, entry.event, version, batch.time + entry.after)
            version += 1
    return state, version


def fold(projection: Projection[S], state: S, span: Span) -> S:
    """Apply one span: an event, or a run of deltas whole."""
    item = span.item
    if isinstance(item, DeltaRun):
        return projection.apply_run(state, item, span.first, span.time)
    return projection.apply(state, item, span.first, span.time)


class NeedsReplay(Exception):  # noqa: N818  # not an error: control flow between the fold and the replay loop
    """The compaction `part` is undone, but the messages that it covered were let go."""

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part
