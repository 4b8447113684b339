"""A stretch: the messages that begin in a range of versions, and changes of older ones.

A stretch is made from the events of its range alone. So its messages are as they were at its end;
what came later is in the later stretches, as events that are `deferred` until the message is
reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from eventlog.codec.batch import Entry
from eventlog.codec.decoded import DecodedCommit
from eventlog.codec.deltas import DeltaRun
from eventlog.events import (
    LASTING,
    AssistantMessageStarted,
    CompactionCompleted,
    CompactionStarted,
    CompactionUndone,
    Event,
    MessageRemoved,
    PartDelta,
    PartRemoved,
    Pruned,
    Restored,
    UserMessageAdded,
)
from projections.conversation import apply
from projections.conversation.about import OF_MESSAGE, OF_PART
from projections.conversation.state import Conversation
from projections.transcript.coverage import Coverages, PlacedEvent, order_of
from projections.transcript.message import LargeText, TranscriptMessage, frozen_message
from projections.view.part_rendering import Resolver

Ranges: TypeAlias = list[tuple[int, int]]
"""Effective versions, as closed ascending ranges."""


class FrozenMessages(NamedTuple):
    """Messages in order, and the texts that they lack, in order."""

    messages: list[TranscriptMessage]
    large: list[LargeText]
    edition: bytes = b""
    """That in which the texts lie at their places."""


class Stretch:
    """The messages that begin in a range, and what its events say about earlier ones."""

    def __init__(self, commits: Iterable[DecodedCommit], ranges: Ranges) -> None:
        """Of the events of `commits` those in `ranges` count, and those that a rollback leaves."""
        self.state: Conversation = Conversation(whole=True)
        self.deferred: list[PlacedEvent] = []
        """Events about earlier messages, in order."""
        self.about_compactions: list[PlacedEvent] = []
        """Events that say which messages a compaction covers, in order."""
        state, messages, parts, rules = self.state, self.state.messages, self.state.where, apply.RULES
        for commit in commits:
            version, start = commit.first, commit.batch.time
            whole = any(first <= version and commit.last <= last for first, last in ranges)
            for entry in commit.batch.entries:
                if type(entry) is DeltaRun:
                    if whole and all(part in parts for part, _ in entry.keys):
                        state.apply_run(entry)
                    else:
                        self._stream(entry, version, start, ranges)
                    version += entry.count
                    continue
                assert type(entry) is Entry
                kind: type[Event] = type(entry.event)
                event: Any = entry.event
                if whole or kind in LASTING or any(first <= version <= last for first, last in ranges):
                    time = start + entry.after
                    if (
                        (kind in OF_PART and event.part in parts)
                        or (kind in OF_MESSAGE and event.message in messages)
                        or kind in _BEGINS
                    ):
                        rules[kind](state, event, version, time)
                    else:
                        self.defer(self.apply(PlacedEvent(event, version, time)))
                    if kind in _OF_COVERAGE:
                        self.about_compactions.append(PlacedEvent(event, version, time))
                version += 1

    def _stream(self, run: DeltaRun, version: int, start: int, ranges: Ranges) -> None:
        """Apply a run of deltas as far as it is in the ranges."""
        for first, last in ranges:
            begin, end = max(first - version, 0), min(last + 1 - version, run.count)
            if begin < end:
                part = run.cut(begin, end)
                for (name, field), text in part.joined().items():
                    self.defer(
                        self.apply(PlacedEvent(PartDelta(name, field, text), version + begin, start + part.start))
                    )

    def defer(self, placed: PlacedEvent | None) -> None:
        """Add an event about earlier messages."""
        if placed is not None:
            self.deferred.append(placed)

    def receive(self, later: Iterable[PlacedEvent]) -> list[PlacedEvent]:
        """Apply events of later stretches; return those about messages before this one."""
        for placed in later:
            self.defer(self.apply(placed))
        return self.deferred

    def frozen(self, coverages: Coverages, resolve: Resolver) -> FrozenMessages:
        """Return the messages as frozen values."""
        every = list(self.state.messages.values())
        for index, part in coverages.covering([(message.id, order_of(message)) for message in every]):
            every[index].covered = part
        large: list[LargeText] = []
        return FrozenMessages(
            [frozen_message(message, index, large, resolve) for index, message in enumerate(every)], large
        )

    def apply(self, placed: PlacedEvent) -> PlacedEvent | None:
        """Apply an event to messages of the stretch; return the part of it about earlier ones."""
        known, earlier = event_about(placed, self.state.messages.__contains__, self.state.where.__contains__)
        if known:
            apply.apply(self.state, *placed)
        return earlier


def event_about(
    placed: PlacedEvent, has_message: Callable[[str], bool], has_part: Callable[[str], bool]
) -> tuple[bool, PlacedEvent | None]:
    """Return whether an event is about these messages, and the part of it about others."""
    kind: type[Event] = type(placed.event)
    event: Any = placed.event  # its kind says whether it has a part or a message
    if kind in OF_PART:
        known = has_part(event.part)
    elif kind in OF_MESSAGE:
        known = has_message(event.message)
    elif isinstance(event, (Pruned, Restored)):
        others, calls = (tuple(x for x in names if not has_part(x)) for names in (event.parts, event.arguments))
        if not (others or calls):
            return True, None
        known = len(others) + len(calls) < len(event.parts) + len(event.arguments)
        return known, placed._replace(event=msgspec.structs.replace(event, parts=others, arguments=calls))
    else:
        return False, None
    return known, None if known else placed


_BEGINS = frozenset({UserMessageAdded, AssistantMessageStarted})
_OF_COVERAGE = frozenset(
    {
        CompactionStarted,
        CompactionCompleted,
        CompactionUndone,
        MessageRemoved,
        PartRemoved,
    }
)
