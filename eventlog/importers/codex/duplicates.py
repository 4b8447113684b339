"""Messages that a Codex rollout has twice: items for the model, events for the screen.

The item is imported, because it has more.  An event waits for its item, and is imported itself when
the conversation goes on without one.  Either may come first.  Messages are matched by their text
within a turn, so the events of a record depend on that record and earlier ones only.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

__all__ = ["Duplicates", "ScreenEvent"]

RECENT = 64
"""Texts that are remembered of a turn."""


class ScreenEvent(NamedTuple):
    """Event that shows a text of the "user", the "assistant" or "reasoning"."""

    kind: str
    text: str
    line: int
    time: int
    images: tuple[str, ...] = ()


class Duplicates:
    """Events that wait for their items, and what was imported in this turn."""

    def __init__(self) -> None:
        self._waiting: list[ScreenEvent] = []
        self._items: deque[tuple[str, int]] = deque(maxlen=RECENT)
        self._events: deque[tuple[str, int]] = deque(maxlen=RECENT)

    def add_event(self, event: ScreenEvent) -> None:
        """Let an event wait for its item, unless the item has come."""
        key = (event.kind, hash(event.text))
        if key in self._items:
            self._items.remove(key)
        else:
            self._waiting.append(event)

    def add_item(self, kind: str, texts: list[str]) -> bool:
        """Note an item; whether to import it, as no event with its text was imported."""
        known = False
        for text in texts if kind == "reasoning" else dict.fromkeys([*texts, "".join(texts), "\n".join(texts)]):
            key = (kind, hash(text))
            found = next((event for event in self._waiting if (event.kind, event.text) == (kind, text)), None)
            if found is not None:
                self._waiting.remove(found)
            elif key in self._events:
                self._events.remove(key)
                known = True
            else:
                self._items.append(key)
        return not known

    def pop_unmatched(self, kinds: tuple[str, ...]) -> list[ScreenEvent]:
        """Remove and return the events of these kinds that no item repeats, in order."""
        if not self._waiting:
            return []
        due = [event for event in self._waiting if event.kind in kinds]
        self._waiting = [event for event in self._waiting if event.kind not in kinds]
        self._events.extend((event.kind, hash(event.text)) for event in due)
        return due

    def waiting(self) -> list[ScreenEvent]:
        """Return the events that still wait."""
        return self._waiting

    def begin_turn(self) -> None:
        """Begin a turn, in which the model may repeat texts of the turn before."""
        self._events.clear()
        prompts = [key for key in self._items if key[0] == "user"]
        self._items.clear()
        self._items.extend(prompts)
