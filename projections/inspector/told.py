"""Everything that was said, newest first: also what a rollback took back.

A transcript has the effective messages.  Those that a rollback hides are read as the transcript of
the moment before it, and stand where they were said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from projections.inspector.large_text import MOST, beginnings
from projections.transcript.message import TranscriptMessage
from projections.transcript.transcript import Transcript

if TYPE_CHECKING:
    from eventlog import Session
    from projections.inspector.history import History


class Told(NamedTuple):
    """A message, and the version as of which it was read."""

    message: TranscriptMessage
    at: int
    hidden: bool
    """Whether a rollback hides it."""


def told(
    session: Session, history: Callable[[], History], at: int, before: int | None = None, *, most: int = MOST
) -> Iterator[Told]:
    """Yield the messages up to version `at` that began before a version, newest first.

    `history` is asked for where something is hidden.
    """
    return _told(session, history, (0, at), before or at + 1, most, hidden=False)


def _told(
    session: Session, history: Callable[[], History], within: tuple[int, int], before: int, most: int, *, hidden: bool
) -> Iterator[Told]:
    low, at = within
    ranges = session.reader.effective_ranges(at)
    gaps = [gap for gap in _gaps(ranges, low, at) if gap[0] < before and history().begins_within(*gap)]
    for message in Transcript(session, at, texts=beginnings(session, most)).newest_first(before):
        while gaps and gaps[-1][0] > message.version:
            first, last = gaps.pop()
            yield from _told(session, history, (first - 1, last), min(before, last + 1), most, hidden=True)
        if message.version <= low:
            return
        yield Told(message, at, hidden)
    for first, last in reversed(gaps):
        yield from _told(session, history, (first - 1, last), min(before, last + 1), most, hidden=True)


def _gaps(ranges: list[tuple[int, int]], low: int, at: int) -> list[tuple[int, int]]:
    """Return the versions after `low` and up to `at` that are in no range.

    A gap that is all of them was forgotten: the events before a rollback end with its own range.
    """
    found: list[tuple[int, int]] = []
    first = low + 1
    for start, end in ranges:
        if start > first:
            found.append((first, start - 1))
        first = max(first, end + 1)
    if first <= at:
        found.append((first, at))
    return [gap for gap in found if gap != (low + 1, at)]
