"""Read a history from its end: whole messages, newest first, with all later changes.

It is read in stretches of versions, from their rows where they are stored, else from their events.
What a stretch says about a message that is not yet reached is deferred until it is, so a page costs
its own stretches only.  The first reader of a stretch stores its rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from eventlog.codec.decoded import Span
from eventlog.events import LASTING, PartRedacted
from eventlog.session.session import Session
from projections.transcript.coverage import Coverages, PlacedEvent
from projections.transcript.row_block import RowBlock
from projections.transcript.row_store import RowStore
from projections.transcript.stretch import FrozenMessages, Stretch

__all__ = ["WINDOW", "WINDOWS", "BackwardReader"]

WINDOW = 1_024
"""Versions of a stretch."""
WINDOWS = 4
"""Stretches that become one as soon as all of them are complete: a long one costs less."""


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

    def stretches(self) -> Iterator[FrozenMessages]:
        """Yield the messages, stretch by stretch, the newest stretch first."""
        deferred = self._known_redactions()
        high = self._version
        while high > 0:
            low = _beginning(high)
            ranges = self._clipped(low, high)
            found: RowBlock | Stretch | None = None if high % WINDOW else self._rows.get(low, high, ranges)
            earlier = None if found is None else found.receive(deferred)
            if earlier is None:
                stretch = self._read(low, high)
                if found is None and not high % WINDOW and self._makes_rows:
                    # the rows never hold what is redacted by now
                    gone = [
                        placed.event.part
                        for placed in deferred
                        if isinstance(placed.event, PartRedacted) and stretch.apply(placed) is None
                    ]
                    block = RowBlock.of(stretch, low, ranges, self._resolve)
                    self._rows.put(high, block, range(low + WINDOW, high, WINDOW), gone)
                    if not deferred:  # its rows are the messages: none is frozen twice
                        found, earlier = block, block.deferred
                if earlier is None:
                    found, earlier = stretch, stretch.receive(deferred)
            assert found is not None
            deferred = earlier
            for placed in reversed(found.about_compactions):
                self._coverages.add(placed)
            yield found.frozen(self._coverages, self._resolve)
            high = low

    def _known_redactions(self) -> list[PlacedEvent]:
        """Return the redactions of inherited parts, and those after the version that is read."""
        known = [PlacedEvent(PartRedacted(part), self._version, 0) for part in self._reader.inherited_redactions()]
        later = self._reader.spans(self._version)  # they hold at every version, earlier ones included
        known += [
            PlacedEvent(span.item, span.first, span.time) for span in later if isinstance(span.item, PartRedacted)
        ]
        return known

    def _read(self, low: int, high: int) -> Stretch:
        """Read a stretch from its events."""
        if self._clipped(low, high) == [(low + 1, high)]:
            return Stretch(self._reader.spans(low, high))
        return Stretch(part for span in self._reader.spans(low, high) for part in self._effective(span))

    def _clipped(self, low: int, high: int) -> list[tuple[int, int]]:
        """Return the effective ranges inside a stretch."""
        return [(max(first, low + 1), min(last, high)) for first, last in self._ranges if first <= high and last > low]

    def _effective(self, span: Span) -> Iterator[Span]:
        if isinstance(span.item, LASTING):
            yield span
            return
        for first, last in self._ranges:
            part = span.cut(first - 1, last)
            if part is not None:
                yield part


def _beginning(high: int) -> int:
    """Return the version before the stretch that ends with version `high`."""
    length = WINDOW * WINDOWS if high % (WINDOW * WINDOWS) == 0 else WINDOW
    return (high - 1) // length * length
