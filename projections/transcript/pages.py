"""Read a history from its end: whole messages, newest first, with all later changes.

Events are read in ranges of versions. An event about a message that is not yet reached is deferred
until it is, so a page costs its own events and the few later ones about its messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from eventlog.codec.decoded import Span
from eventlog.codec.deltas import DeltaRun
from eventlog.events import (
    LASTING,
    AssistantMessageStarted,
    CompactionCompleted,
    CompactionRequested,
    CompactionStarted,
    CompactionUndone,
    Event,
    MessageFinished,
    MessagePromoted,
    MessageRemoved,
    PartDelta,
    PartEdited,
    PartEnded,
    PartRedacted,
    PartRemoved,
    PartStarted,
    Pruned,
    Restored,
    StepFinished,
    StepStarted,
    ToolCompleted,
    ToolFailed,
    ToolProgress,
    ToolRunning,
    UserMessageAdded,
)
from eventlog.session.session import Session
from projections.conversation import apply
from projections.conversation.parts import Message
from projections.conversation.state import Conversation

__all__ = ["WINDOW", "BackwardReader"]

WINDOW = 1_000
"""Versions that are read at a time."""


class BackwardReader:
    """Reads a history in ranges from its end; events about older messages are deferred."""

    def __init__(self, session: Session, version: int) -> None:
        self._session = session
        self._version = version
        self._ranges = session.reader.effective_ranges(version)
        self._deferred: list[_PlacedEvent] = []
        """Events about messages that are not yet reached, in order."""
        self._undone: set[str] = set()
        """Removed messages, and compactions that were undone."""
        self._completed: dict[str, _PlacedEvent] = {}
        """Completed compactions whose start is not yet reached, by part."""
        self._coverages: list[_Coverage] = []

    def messages(self) -> Iterator[Message]:
        """Yield the messages, newest first."""
        for part in self._session.reader.inherited_redactions():
            self._deferred.append(_PlacedEvent(PartRedacted(part), self._version, 0))
        for span in self._session.reader.spans(self._version):
            if isinstance(span.item, PartRedacted):  # it holds at every version, earlier ones included
                self._deferred.append(_PlacedEvent(span.item, span.first, span.time))
        high = self._version
        while high > 0:
            low = max(high - WINDOW, 0)
            spans = [part for span in self._session.reader.spans(low, high) for part in self._effective(span)]
            yield from reversed(self._messages(spans))
            high = low

    def _effective(self, span: Span) -> Iterator[Span]:
        if isinstance(span.item, LASTING):
            yield span
            return
        for first, last in self._ranges:
            part = span.cut(first - 1, last)
            if part is not None:
                yield part

    def _messages(self, spans: list[Span]) -> list[Message]:
        """Return the messages that begin in these spans, with all their changes."""
        state = Conversation(whole=True)
        deferred: list[_PlacedEvent] = []
        compactions: list[_PlacedEvent] = []
        for span in spans:
            item = span.item
            if isinstance(item, DeltaRun):
                for (part, field), text in item.joined().items():
                    _apply_or_defer(state, _PlacedEvent(PartDelta(part, field, text), span.first, span.time), deferred)
                continue
            compactions.append(_PlacedEvent(item, span.first, span.time))
            _apply_or_defer(state, compactions[-1], deferred)
        earlier, self._deferred = self._deferred, deferred
        for placed in earlier:
            _apply_or_defer(state, placed, deferred)
        for placed in reversed(compactions):
            self._add_compaction(placed)
        messages = list(state.messages.values())
        for message in messages:
            covering = [coverage.part for coverage in self._coverages if coverage.covers(message)]
            message.covered = covering[-1] if covering else None
        return messages

    def _add_compaction(self, placed: _PlacedEvent) -> None:
        """Add an event, newest first, that says what a compaction covers."""
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
            self._coverages.append(_Coverage(event.part, bound, own, completed.event.summary, event.kept))

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


class _PlacedEvent(NamedTuple):
    """An event with its version and time."""

    event: Event
    version: int
    time: int


class _Coverage(NamedTuple):
    """A completed compaction: it covers messages up to version `bound`, without its own two."""

    part: str
    bound: int
    message: str
    summary: str
    kept: tuple[str, ...]

    def covers(self, message: Message) -> bool:
        """Return whether it covers a message."""
        if message.waiting or message.id in {self.message, self.summary, *self.kept}:
            return False
        return message.place <= self.bound


_OF_MESSAGE = (
    PartStarted,
    StepStarted,
    StepFinished,
    MessageFinished,
    MessagePromoted,
    MessageRemoved,
    CompactionRequested,
)
_OF_PART = (
    PartDelta,
    PartEnded,
    PartEdited,
    PartRemoved,
    PartRedacted,
    ToolRunning,
    ToolProgress,
    ToolCompleted,
    ToolFailed,
)


def _apply_or_defer(state: Conversation, placed: _PlacedEvent, deferred: list[_PlacedEvent]) -> None:
    """Apply an event to its message or part, or defer it until that is reached."""
    event = placed.event
    if isinstance(event, (Pruned, Restored)):
        unknown = tuple(part for part in event.parts if part not in state.where)
        apply.apply(state, *placed)
        if unknown:
            deferred.append(placed._replace(event=msgspec.structs.replace(event, parts=unknown)))
    elif isinstance(event, _OF_MESSAGE):
        if event.message in state.messages:
            apply.apply(state, *placed)
        else:
            deferred.append(placed)
    elif isinstance(event, _OF_PART):
        if event.part in state.where:
            apply.apply(state, *placed)
        else:
            deferred.append(placed)
    elif isinstance(event, (UserMessageAdded, AssistantMessageStarted)):
        apply.apply(state, *placed)
