"""Events of one message of an OpenCode export, and facts that later messages ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from eventlog import events as ev
from eventlog.importers.opencode.values import Record, model_of, optional, string, time_of
from eventlog.values import INTERRUPTED, Body, Content, MessageError, Model


class MessageFacts(NamedTuple):
    """Facts of a message that was read: an export may have hundreds of thousands of them."""

    parts: tuple[str, ...] = ()
    """Its parts, if the export goes back to one of them."""
    compaction: str | None = None
    """Its compaction part, in a user message."""
    tail: str | None = None
    closing: tuple[ev.Event, ...] | None = None
    """The events that close its open parts; None if the message came to an end."""
    difference: str | None = None
    """The difference between the record and its events, as JSON."""


_PLAIN = MessageFacts()
"""Facts of most messages, stored once."""


class MessageEvents:
    """A message as events: `items` and `late` are (UTC milliseconds, event), in part order.

    The times do not decrease where one event needs another; parallel tools overlap.
    """

    def __init__(self, record: Record, content: Callable[[str], Content], born: int) -> None:
        info: Record = record["info"]
        self.id: str = info["id"]
        self.user: bool = info["role"] == "user"
        self.summary: bool = info.get("summary") is True and not self.user
        self.parent: str = string(info, "parentID")
        self.born: int = max(born, time_of(info, "created"))
        self.items: list[tuple[int, ev.Event]] = []
        self.late: list[tuple[int, ev.Event]] = []
        """Later events of the message."""
        self.ended: int | None = None
        """Time of the message's end."""
        self.failure: MessageError | None = None
        self.reason: str | None = None
        self.readable: bool = any(
            optional(part, "type") == "text" and string(part, "text").strip() for part in record["parts"]
        )
        """Whether it says a text that can be read."""
        self.model: Model | None = model_of(info)
        self.parts: list[str] = []
        self.compaction: str | None = None
        self.tail: str | None = None
        self.open = False
        """Whether the message has not come to an end."""
        self.open_parts: dict[str, bool] = {}
        """Its parts that have not ended; true for tools."""
        self.skipped: list[str] = []
        self._content = content
        self._texts: dict[bytes, str] = {}
        self._now = self.born

    def add(self, time: int, event: ev.Event) -> None:
        """Add an event at its time."""
        self.items.append((time, event))

    def content(self, text: str) -> Content:
        """Return the text, or a reference to it when it is large."""
        found = self._content(text)
        if isinstance(found, Body):
            self._texts[found.digest] = text
        return found

    def text(self, content: Content) -> str:
        """Return the text of a content of this message."""
        return self._texts[content.digest] if isinstance(content, Body) else content

    def at(self, time: int | None) -> int:
        """Return the time at which a part begins: never before the part before it."""
        self._now = max(self._now, time or 0)
        return self._now

    def closing(self) -> tuple[ev.Event, ...]:
        """Return the events that close its open parts."""
        return tuple(
            ev.ToolFailed(part, INTERRUPTED, interrupted=True) if is_tool else ev.PartEnded(part)
            for part, is_tool in self.open_parts.items()
        )

    def facts(self, difference: str | None, *, is_target: bool) -> MessageFacts:
        """Return what later messages, and the end of the document, ask for.

        `is_target`: the export goes back to a part of the message.
        """
        closing = self.closing() if self.open else None
        parts = tuple(self.parts) if is_target else ()
        found = MessageFacts(parts, self.compaction, self.tail, closing, difference)
        return _PLAIN if found == _PLAIN else found
