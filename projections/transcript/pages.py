"""A history read from its end: whole messages, newest first, each with all that was done to it later.

Not what is shown of them (`transcript.py`).  Events are read in windows of versions; what speaks of a message that
has not been reached is kept until it is, so a page costs its own events and the few later ones that speak of it.
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
"""Versions read at a time, going back."""


class BackwardReader:
    """Reads a history in windows from its end; what speaks of older messages is kept until they are reached."""

    def __init__(self, session: Session, version: int) -> None:
        self._session = session
        self._version = version
        self._ranges = session.reader.effective_ranges(version)
        self._later: list[_Placed] = []
        """What was found so far and speaks of older messages, in order."""
        self._gone: set[str] = set()
        """Messages that were removed, and compactions that were taken back."""
        self._done: dict[str, _Placed] = {}
        """Completed compactions whose reach is not known yet, by part."""
        self._reaches: list[_Reach] = []

    def messages(self) -> Iterator[Message]:
        """The messages, newest first."""
        for part in self._session.reader.inherited_redactions():
            self._later.append(_Placed(PartRedacted(part), self._version, 0))
        for span in self._session.reader.spans(self._version):
            if isinstance(span.item, PartRedacted):  # it counts at every version, also at earlier ones
                self._later.append(_Placed(span.item, span.first, span.time))
        high = self._version
        while high > 0:
            low = max(high - WINDOW, 0)
            spans = [part for span in self._session.reader.spans(low, high) for part in self._effective(span)]
            yield from reversed(self._window(spans))
            high = low

    def _effective(self, span: Span) -> Iterator[Span]:
        if isinstance(span.item, LASTING):
            yield span
            return
        for first, last in self._ranges:
            part = span.cut(first - 1, last)
            if part is not None:
                yield part

    def _window(self, spans: list[Span]) -> list[Message]:
        """The messages that begin in these spans, with all that was done to them then and later."""
        state = Conversation(whole=True)
        waiting: list[_Placed] = []
        compactions: list[_Placed] = []
        for span in spans:
            item = span.item
            if isinstance(item, DeltaRun):
                for (part, field), text in item.joined().items():
                    _give(state, _Placed(PartDelta(part, field, text), span.first, span.time), waiting)
                continue
            compactions.append(_Placed(item, span.first, span.time))
            _give(state, compactions[-1], waiting)
        later, self._later = self._later, waiting
        for placed in later:
            _give(state, placed, waiting)
        for placed in reversed(compactions):
            self._reach(placed)
        found = list(state.messages.values())
        for message in found:
            covering = [reach.part for reach in self._reaches if reach.covers(message)]
            message.covered = covering[-1] if covering else None
        return found

    def _reach(self, placed: _Placed) -> None:
        """Take in, newest first, what tells how far each compaction reaches."""
        event = placed.event
        if isinstance(event, MessageRemoved):
            self._gone.add(event.message)
        elif isinstance(event, (CompactionUndone, PartRemoved)):
            self._gone.add(event.part)
        elif isinstance(event, CompactionCompleted):
            own = self._session.reader.state().parts[event.part].message
            if not self._gone & {event.part, event.summary, own}:
                self._done[event.part] = placed
        elif isinstance(event, CompactionStarted) and event.part in self._done:
            own = self._session.reader.state().parts[event.part].message
            done = self._done.pop(event.part)
            assert isinstance(done.event, CompactionCompleted)
            tail, through = self._place(event.tail, done.version), self._place(event.through, done.version)
            bound = tail - 1 if tail else through or self._place(own, 0) - 1
            self._reaches.append(_Reach(event.part, bound, own, done.event.summary, event.kept))

    def _place(self, message: str | None, upto: int) -> int:
        """Version at which an effective message began, or was promoted if that was not after `upto`; 0 for another."""
        facts = self._session.reader.state().messages.get(message or "")
        if facts is None or not self._holds(facts.added):
            return 0
        for version in facts.promotions():
            if version <= upto and self._holds(version):
                return version
        return facts.added

    def _holds(self, version: int) -> bool:
        return any(first <= version <= last for first, last in self._ranges)


class _Placed(NamedTuple):
    """An event with its version and time."""

    event: Event
    version: int
    time: int


class _Reach(NamedTuple):
    """A completed compaction covers what began up to version `bound`, but not its own two messages."""

    part: str
    bound: int
    message: str
    summary: str
    kept: tuple[str, ...]

    def covers(self, message: Message) -> bool:
        """Whether it covers a message."""
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


def _give(state: Conversation, placed: _Placed, waiting: list[_Placed]) -> None:
    """Apply an event to what it speaks of, or keep it for when that is reached."""
    event = placed.event
    if isinstance(event, (Pruned, Restored)):
        unknown = tuple(part for part in event.parts if part not in state.where)
        apply.apply(state, *placed)
        if unknown:
            waiting.append(placed._replace(event=msgspec.structs.replace(event, parts=unknown)))
    elif isinstance(event, _OF_MESSAGE):
        if event.message in state.messages:
            apply.apply(state, *placed)
        else:
            waiting.append(placed)
    elif isinstance(event, _OF_PART):
        if event.part in state.where:
            apply.apply(state, *placed)
        else:
            waiting.append(placed)
    elif isinstance(event, (UserMessageAdded, AssistantMessageStarted)):
        apply.apply(state, *placed)
