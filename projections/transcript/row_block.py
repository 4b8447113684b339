"""Rows: the messages of a stretch as a transcript shows them.

A later event changes a row only by a mark.  For any other change the block is of no use, and the
stretch is read again from its events.  A message that is open at the end of the stretch takes every
change: it is also stored as the state that events are applied to.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec.structs import force_setattr

from eventlog.events import MessagePromoted, MessageRemoved, PartRedacted, PartRemoved, Pruned, Restored
from projections.conversation import apply
from projections.conversation.parts import Message
from projections.conversation.state import Conversation
from projections.conversation.text_pieces import empty
from projections.replay.canonical import pack, unpack
from projections.transcript.coverage import Coverages, PlacedEvent, order_of
from projections.transcript.message import LargeText, TranscriptMessage, frozen_message, redacted_part
from projections.transcript.stretch import FrozenMessages, Stretch, event_about
from projections.view.part_rendering import Resolver

if TYPE_CHECKING:
    from eventlog.log.contract import BodyStore
    from eventlog.values import Body


class RowBlock(msgspec.Struct, array_like=True):
    """The rows of a stretch, and what its events say about earlier messages."""

    low: int
    """The version before the stretch."""
    ranges: list[tuple[int, int]]
    """The versions of the stretch that were effective, as closed ascending ranges."""
    rows: list[TranscriptMessage]
    places: list[int]
    """Version that orders each row in the view; 0 while it waits."""
    large: list[LargeText]
    """Texts that the rows lack, in order."""
    open: list[tuple[int, Message]]
    """Messages that were open, each with the index of its row."""
    deferred: list[PlacedEvent]
    about_compactions: list[PlacedEvent]
    edition: bytes = b""
    """That in which the texts lie at their places (`BodyStore.places_of`)."""

    @classmethod
    def of(cls, stretch: Stretch, low: int, ranges: list[tuple[int, int]], resolve: Resolver) -> RowBlock:
        """Return the block of a stretch, to which no later event was applied yet."""
        block = cls(low, ranges, [], [], [], [], stretch.deferred, stretch.about_compactions)
        last = len(stretch.state.messages) - 1  # the next event may still be of its own append
        for index, message in enumerate(stretch.state.messages.values()):
            row = frozen_message(message, index, block.large, resolve)
            block.rows.append(row)
            block.places.append(order_of(message))
            whole = message.user or message.finished is not None
            if index == last or not whole or any(part.open for part in row.parts):
                stretch.state.join_texts(message)
                for part in message.parts:
                    if part.redacted:
                        empty(part)
                block.open.append((index, message))
        return block

    def place(self, bodies: BodyStore) -> bool:
        """Note where the large texts lie; return whether more of it is known now."""
        edition, _ = bodies.places_of(())
        wanted = {
            index: cast("Body", text.pieces[0]).digest
            for index, text in enumerate(self.large)
            if len(text.pieces) == 1 and (text.place is None or edition != self.edition)
        }
        if not edition or not wanted:
            return False
        found, places = bodies.places_of(list(wanted.values()))
        self.edition = found if found == edition else b""
        for index, place in zip(wanted, places, strict=True):
            self.large[index] = msgspec.structs.replace(self.large[index], place=place)
        return any(places)

    def encode(self) -> bytes:
        """Return the block's bytes."""
        return pack(self)

    @classmethod
    def decode(cls, data: bytes) -> RowBlock:
        """Return the block again; ValueError for other bytes."""
        return unpack(data, cls)

    def receive(self, later: Iterable[PlacedEvent]) -> list[PlacedEvent] | None:
        """Apply events of later stretches; return those about messages before this one.

        None if an event does more to a row than to mark it: the block must be dropped.
        """
        state = Conversation(whole=True)
        for _, message in self.open:
            state.add_message(message)
            state.where.update((part.id, (message, part)) for part in message.parts)
        rows: _RowMarker | None = None
        for placed in later:
            known, others = event_about(placed, state.messages.__contains__, state.where.__contains__)
            if known:
                apply.apply(state, *placed)
            if others is None:
                continue
            rows = rows or _RowMarker(self)
            known, others = event_about(others, rows.messages.__contains__, rows.parts.__contains__)
            if known and not rows.mark(placed):
                return None
            if others is not None:
                self.deferred.append(others)
        return self.deferred

    def frozen(self, coverages: Coverages, resolve: Resolver) -> FrozenMessages:
        """Return the messages as frozen values."""
        if self.open:
            indices = {index for index, _ in self.open}
            self.large = [text for text in self.large if text.message not in indices]
            for index, message in self.open:
                self.rows[index] = frozen_message(message, index, self.large, resolve)
                self.places[index] = order_of(message)
            self.large.sort(key=attrgetter("message"))
        for index, part in coverages.covering(
            (row.id, place) for row, place in zip(self.rows, self.places, strict=True)
        ):
            force_setattr(self.rows[index], "covered", part)
        return FrozenMessages(self.rows, self.large, self.edition)


class _RowMarker:
    """Marks the rows of a block; those of open messages are made anew anyway."""

    def __init__(self, block: RowBlock) -> None:
        self._block = block
        self.messages = {row.id: index for index, row in enumerate(block.rows)}
        self.parts = {
            part.id: (index, place) for index, row in enumerate(block.rows) for place, part in enumerate(row.parts)
        }

    def mark(self, placed: PlacedEvent) -> bool:
        """Mark rows as an event says; return whether a mark is all that it asks for."""
        event = placed.event
        if isinstance(event, (Pruned, Restored)):
            for mark, names in (("pruned", event.parts), ("arguments_pruned", event.arguments)):
                for name in filter(self.parts.__contains__, names):
                    index, place = self.parts[name]
                    part = self._block.rows[index].parts[place]
                    if part.kind in {"tool", "reasoning", "file"} and not part.redacted:
                        force_setattr(part, mark, isinstance(event, Pruned))
        elif isinstance(event, MessageRemoved):
            force_setattr(self._block.rows[self.messages[event.message]], "removed", True)
        elif isinstance(event, MessagePromoted):
            self._block.places[self.messages[event.message]] = placed.version
        elif isinstance(event, PartRemoved):
            index, place = self.parts[event.part]
            force_setattr(self._block.rows[index].parts[place], "removed", True)
        elif isinstance(event, PartRedacted):
            index, place = self.parts[event.part]
            row = self._block.rows[index]
            parts = list(row.parts)
            parts[place] = redacted_part(event.part, parts[place].kind, removed=parts[place].removed)
            force_setattr(row, "parts", tuple(parts))
        else:
            return False
        return True
