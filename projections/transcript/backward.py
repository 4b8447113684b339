"""Read a history from its end: whole messages, newest first, with all later changes.

It is read in stretches of versions, from their rows where they are stored, else from their events.
What a stretch says about a message that is not yet reached is deferred until it is, so a page costs
its own stretches only.  The first reader of a stretch stores its rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

from eventlog.codec.decoded import DecodedCommit
from eventlog.events import PartRedacted
from eventlog.session.session import Session
from projections.transcript.coverage import Coverages, PlacedEvent
from projections.transcript.row_block import RowBlock
from projections.transcript.row_store import RowStore
from projections.transcript.stretch import FrozenMessages, Ranges, Stretch

WINDOW = 1_024
"""Versions of a stretch."""
WINDOWS = 16
"""Stretches that become one as soon as all of them are complete: a long one costs less."""

AHEAD = 2 * WINDOWS * WINDOW
"""Versions of one read: where it begins, a part of an append is read in vain."""


class BackwardReader:
    """Reads a history in stretches from its end; events about older messages are deferred."""

    def __init__(self, session: Session, version: int, *, makes_rows: bool = True) -> None:
        self._reader = session.reader
        self._resolve = session.text
        self._version = version
        self._ranges = self._reader.effective_ranges(version)
        self._coverages = Coverages(session, self._ranges)
        self._rows = RowStore(session)
        self._makes_rows = makes_rows and self._rows.takes_rows
        self._ahead: list[DecodedCommit] = []
        """Appends of versions from `_begin` on that were read together."""
        self._begin, self._further = version, 0

    def stretches(self) -> Iterator[FrozenMessages]:
        """Yield the messages, stretch by stretch, the newest stretch first."""
        deferred = self._known_redactions()
        high = self._version
        while high > 0:
            low = _beginning(high)
            ranges = self._clipped(low, high)
            found: RowBlock | Stretch | None = None
            if not high % WINDOW:
                found = self._rows.get(low, high, ranges) or self._made(low, high, ranges, deferred)
            earlier = None if found is None else found.receive(deferred)
            if found is None or earlier is None:
                found = Stretch(self._commits(low, high), ranges)
                earlier = found.receive(deferred)
            deferred = earlier
            for placed in reversed(found.about_compactions):
                self._coverages.add(placed)
            yield found.frozen(self._coverages, self._resolve)
            high = low

    def _known_redactions(self) -> list[PlacedEvent]:
        """Return the redactions of inherited parts, and of a past version those of now."""
        reader, version = self._reader, self._version
        parts = reader.inherited_redactions() if version == reader.version else reader.redactions(version)
        return [PlacedEvent(PartRedacted(part), version, 0) for part in parts]

    def _made(self, low: int, high: int, ranges: Ranges, later: list[PlacedEvent]) -> RowBlock | None:
        """Make the rows of a stretch, and store them without what is redacted by now."""
        if not self._makes_rows:
            return None
        stretch = Stretch(self._commits(low, high), ranges)
        gone = [
            placed.event.part
            for placed in later
            if isinstance(placed.event, PartRedacted) and stretch.apply(placed) is None
        ]
        block = RowBlock.of(stretch, low, ranges, self._resolve)
        self._rows.put(high, block, range(low + WINDOW, high, WINDOW), gone)
        return block

    def _commits(self, low: int, high: int) -> list[DecodedCommit]:
        """Return the appends of a stretch; all but the first read goes `AHEAD` versions further."""
        if low < self._begin:
            self._begin, self._further = max(low - self._further, 0), AHEAD
            self._ahead = list(self._reader.decoded_commits(self._begin, high))
        ahead = self._ahead
        del ahead[bisect_right(ahead, high, key=attrgetter("first")) :]
        begin = bisect_right(ahead, low, key=attrgetter("last"))
        return [part for commit in ahead[begin:] if (part := commit.cut(low, high)) is not None]

    def _clipped(self, low: int, high: int) -> Ranges:
        """Return the effective ranges inside a stretch."""
        return [(max(first, low + 1), min(last, high)) for first, last in self._ranges if first <= high and last > low]


def _beginning(high: int) -> int:
    """Return the version before the stretch that ends with version `high`."""
    length = WINDOW * WINDOWS if high % (WINDOW * WINDOWS) == 0 else WINDOW
    return (high - 1) // length * length
