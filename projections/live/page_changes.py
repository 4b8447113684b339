"""The effects of committed events on the messages of a live page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from eventlog import events as ev
from eventlog.codec.decoded import Span
from eventlog.codec.deltas import DeltaRun
from projections.conversation.about import OF_MESSAGE, OF_PART
from projections.live.open_messages import OpenMessages, add_text
from projections.transcript.message_json import Json


class PageChanges:
    """The effects of committed events on a page."""

    def __init__(self, messages: OpenMessages) -> None:
        self.patches: list[Json] = []
        self.redacted: set[str] = set()
        """Parts whose content is hidden now."""
        self.touched: dict[str, None] = {}
        """Complete messages that an event is about."""
        self.parts: dict[str, None] = {}
        """Parts of complete messages that an event is about."""
        self.covers: bool = False
        """Whether other messages are covered than before."""
        self._open = messages
        self._texts: dict[tuple[str, str], list[str]] = {}
        """Text that was added to fields of parts since the last other event."""

    def take(self, span: Span) -> None:
        """Apply an event, or keep the text of deltas until another event comes."""
        item = span.item
        if add_text(self._texts, item) or isinstance(item, DeltaRun):
            return
        self.grow()
        if isinstance(item, (ev.UserMessageAdded, ev.AssistantMessageStarted)):
            self._open.begin(item, span.first, span.time)
        elif (parts_of := _ABOUT.get(type(item))) is not None:
            self._change(span, parts_of(item))
            if isinstance(item, (ev.CompactionCompleted, ev.CompactionUndone)):
                self.covers = True

    def grow(self) -> None:
        """Add the text that is kept."""
        for (part, field), pieces in self._texts.items():
            if self._open.message_of(part) is None:
                self.parts.setdefault(part)
            else:
                self.patches += self._open.grow(part, field, "".join(pieces))
        self._texts.clear()

    def _change(self, span: Span, about: _About) -> None:
        event = span.item
        assert not isinstance(event, DeltaRun)
        message, parts = about
        if isinstance(event, ev.PartRedacted):
            self.redacted.add(event.part)
        if message is not None:
            if message in self._open:
                self.patches += self._open.change(event, span.first, span.time, parts, message)
            else:
                self.touched.setdefault(message)
            return
        owners: dict[str, list[str]] = {}
        for part in parts:
            owner = self._open.message_of(part)
            if owner is None:
                self.parts.setdefault(part)
            else:
                owners.setdefault(owner, []).append(part)
        for owner, own in owners.items():
            self.patches += self._open.change(event, span.first, span.time, own, owner)


_About: TypeAlias = tuple[str | None, tuple[str, ...]]


def _of_message(event: Any) -> _About:
    return event.message, ()


def _of_part(event: Any) -> _About:
    return None, (event.part,)


def _of_parts(event: Any) -> _About:
    return None, (*event.parts, *event.arguments)


_ABOUT: dict[type[ev.Base], Callable[[Any], _About]] = {
    **dict.fromkeys(OF_MESSAGE, _of_message),
    **dict.fromkeys(OF_PART, _of_part),
    ev.MediaReplaced: _of_part,
    ev.MediaRestored: _of_part,
    ev.CompactionCompleted: _of_part,
    ev.CompactionUndone: _of_part,
    ev.Pruned: _of_parts,
    ev.Restored: _of_parts,
}
"""The message, or else the parts, that an event is about; other kinds change no page."""
