"""Which messages a compaction's summary covers, found newest first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from eventlog.events import (
    CompactionCompleted,
    CompactionStarted,
    CompactionUndone,
    Event,
    MessageRemoved,
    PartRemoved,
)
from eventlog.session.session import Session
from projections.conversation.parts import Message


class PlacedEvent(NamedTuple):
    """An event with its version and time."""

    event: Event
    version: int
    time: int


def order_of(message: Message) -> int:
    """Return the version that orders a message in the view; 0 while it waits."""
    return 0 if message.waiting else message.place


class Coverages:
    """The compactions in force, as far as their events have been added."""

    def __init__(self, session: Session, ranges: list[tuple[int, int]]) -> None:
        self._session = session
        self._ranges = ranges
        self._undone: set[str] = set()
        """Removed messages, and compactions that were undone."""
        self._completed: dict[str, PlacedEvent] = {}
        """Completed compactions whose start is not yet reached, by part."""
        self._found: list[_Coverage] = []

    def add(self, placed: PlacedEvent) -> None:
        """Add an event that says what a compaction covers; the newest event comes first."""
        event = placed.event
        if isinstance(event, MessageRemoved):
            self._undone.add(event.message)
        elif isinstance(event, (CompactionUndone, PartRemoved)):
            self._undone.add(event.part)
        elif isinstance(event, CompactionCompleted):
            own = self._session.reader.state().parts[event.part].message
            if not self._undone & {event.part, event.summary, own}:
                self._completed[event.part] = placed
        elif isinstance(event, CompactionStarted) and event.part in self._completed:
            own = self._session.reader.state().parts[event.part].message
            completed = self._completed.pop(event.part)
            assert isinstance(completed.event, CompactionCompleted)
            tail, through = self._place(event.tail, completed.version), self._place(event.through, completed.version)
            bound = tail - 1 if tail else through or self._place(own, 0) - 1
            self._found.append(_Coverage(event.part, bound, {own, completed.event.summary, *event.kept}))

    def covering(self, messages: Iterable[tuple[str, int]]) -> list[tuple[int, str]]:
        """Return which of these messages are covered, each by its index, and by which compaction.

        A message is given as its id and its place, which is 0 while it waits.
        """
        if not self._found:
            return []
        oldest_first = self._found[::-1]
        covered: list[tuple[int, str]] = []
        for index, (message, place) in enumerate(messages):
            for coverage in oldest_first:
                if 0 < place <= coverage.bound and message not in coverage.spared:
                    covered.append((index, coverage.part))
                    break
        return covered

    def _place(self, message: str | None, upto: int) -> int:
        """Return the version at which an effective message began; 0 for any other message.

        For a message that was promoted up to version `upto`, that of the promotion.
        """
        facts = self._session.reader.state().messages.get(message or "")
        if facts is None or not self._holds(facts.added):
            return 0
        for version in facts.promotions():
            if version <= upto and self._holds(version):
                return version
        return facts.added

    def _holds(self, version: int) -> bool:
        return any(first <= version <= last for first, last in self._ranges)


class _Coverage(NamedTuple):
    """A completed compaction: it covers messages up to version `bound`, without those spared."""

    part: str
    bound: int
    spared: set[str]
