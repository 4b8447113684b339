"""The bytes of one request after another, of which only what is new is encoded.  Not a format.

What a request shares with the one before at its beginning lies encoded in a buffer already, and the rest is written behind it.  So
a request whose end changed costs its new messages and one copy of its bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from projections.formats.text import sendable
from projections.view.messages import Messages
from projections.view.neutral import NeutralMessage

__all__ = ["Clean", "JoinedArray"]

Clean: TypeAlias = Callable[[str], str]
"""Makes a text one that can be sent: `sendable`, or `str` for one that is taken to be; whether it is shows when it is encoded."""
Make: TypeAlias = Callable[[NeutralMessage, Clean], Iterable[dict[str, Any]]]
"""Gives the objects of one message."""

CHUNK = 64
"""Messages that are encoded together: one call for each costs half as much again."""
SINGLE = 4
"""Messages at the end that are encoded one by one, because it is there that the next request will differ."""
_encode_into = msgspec.json.Encoder().encode_into


class _Mark(NamedTuple):
    """The head and the first `messages` messages end at byte `end`."""

    messages: int
    end: int


class JoinedArray:
    """A JSON array of the objects that `make` gives for each message, one request after another.  For one thread."""

    __slots__ = ("_buffer", "_head", "_make", "_marks", "_messages")

    def __init__(self, make: Make) -> None:
        self._make = make
        self._messages = Messages([])
        """What was encoded last."""
        self._head: tuple[str, ...] = ()
        self._buffer = bytearray(b"[]")
        """The whole array."""
        self._marks: list[_Mark] = []

    def encode(
        self, messages: Iterable[NeutralMessage], head: tuple[str, ...], objects: Iterable[dict[str, Any]]
    ) -> bytes:
        """The array: first the `objects` that are made of `head`, then those of the messages."""
        given = messages if isinstance(messages, Messages) else Messages([*messages])
        try:
            if head != self._head or not self._marks:
                self._forget()
                self._head = head
                self._add(0, [*objects])
            self._go_on(given)
        except BaseException:
            self._forget()
            raise
        return bytes(self._buffer)

    def _forget(self) -> None:
        self._messages, self._head = Messages([]), ()
        self._buffer = bytearray(b"[]")
        self._marks = []

    def _go_on(self, messages: Messages) -> None:
        common = messages.common(self._messages)
        self._messages = messages
        del self._marks[bisect_right(self._marks, common, key=_count) :]
        self._cut()
        done = self._marks[-1].messages
        fresh = messages.since(done)
        start, last = 0, len(fresh)
        while start < last:
            stop = min(start + CHUNK, last - SINGLE) if start < last - SINGLE else start + 1
            self._write(done + stop, fresh[start:stop])
            start = stop

    def _cut(self) -> None:
        """Make the buffer end where the last mark says."""
        del self._buffer[self._marks[-1].end :]
        self._buffer += b"]"

    def _write(self, count: int, messages: list[NeutralMessage]) -> None:
        make = self._make
        try:
            self._add(count, [found for message in messages for found in make(message, str)])
        except UnicodeEncodeError:  # a lone surrogate is rare, and looking for one in every text is dear
            self._cut()
            self._add(count, [found for message in messages for found in make(message, sendable)])

    def _add(self, count: int, objects: list[dict[str, Any]]) -> None:
        """Put objects behind those that are there; with them the array has `count` messages."""
        buffer = self._buffer
        close = len(buffer) - 1
        if objects and close == 1:
            _encode_into(objects, buffer, 0)
        elif objects:  # an array of its own, whose bracket becomes the comma
            _encode_into(objects, buffer, close)
            buffer[close] = ord(",")
        self._marks.append(_Mark(count, len(buffer) - 1))


def _count(mark: _Mark) -> int:
    return mark.messages
