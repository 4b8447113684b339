"""Encode one request after another; only new messages are encoded.

The messages that a request has in common with the one before are already encoded in a buffer; the
others are appended. So a request with a new end costs its new messages and one copy of its bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from projections.requests.text import sendable
from projections.view.messages import Messages
from projections.view.neutral import NeutralMessage

__all__ = ["Clean", "IncrementalArray"]

Clean: TypeAlias = Callable[[str], str]
"""Makes a text sendable: `sendable`, or `str` where the encoder finds out whether it is."""
Make: TypeAlias = Callable[[NeutralMessage, Clean], Iterable[dict[str, Any]]]
"""Returns the objects of one message."""

CHUNK = 64
"""Messages that are encoded together; one call for each takes half as long again."""
SINGLE = 4
"""Messages at the end that are encoded one by one: the next request will differ there."""
_encode_into = msgspec.json.Encoder().encode_into


class _Boundary(NamedTuple):
    """The first objects and `messages` messages end at byte `end`."""

    messages: int
    end: int


class IncrementalArray:
    """A JSON array of the objects that `make` returns for each message; not thread-safe.

    Each call of `encode` gets the messages of the next request.
    """

    __slots__ = ("_boundaries", "_buffer", "_head", "_make", "_messages")

    def __init__(self, make: Make) -> None:
        self._make = make
        self._messages = Messages([])
        """The messages that were encoded last."""
        self._head: tuple[str, ...] = ()
        self._buffer = bytearray(b"[]")
        """The whole array."""
        self._boundaries: list[_Boundary] = []

    def encode(
        self, messages: Iterable[NeutralMessage], head: tuple[str, ...], objects: Iterable[dict[str, Any]]
    ) -> bytes:
        """Return the array: the `objects` that belong to `head`, then those of the messages."""
        request = messages if isinstance(messages, Messages) else Messages([*messages])
        try:
            if head != self._head or not self._boundaries:
                self._reset()
                self._head = head
                self._add(0, [*objects])
            self._encode_new(request)
        except BaseException:
            self._reset()
            raise
        return bytes(self._buffer)

    def _reset(self) -> None:
        self._messages, self._head = Messages([]), ()
        self._buffer = bytearray(b"[]")
        self._boundaries = []

    def _encode_new(self, messages: Messages) -> None:
        common = messages.common(self._messages)
        self._messages = messages
        del self._boundaries[bisect_right(self._boundaries, common, key=_count) :]
        self._cut()
        done = self._boundaries[-1].messages
        fresh = messages.since(done)
        start, last = 0, len(fresh)
        while start < last:
            stop = min(start + CHUNK, last - SINGLE) if start < last - SINGLE else start + 1
            self._write(done + stop, fresh[start:stop])
            start = stop

    def _cut(self) -> None:
        """Truncate the buffer at the last boundary."""
        del self._buffer[self._boundaries[-1].end :]
        self._buffer += b"]"

    def _write(self, count: int, messages: list[NeutralMessage]) -> None:
        make = self._make
        try:
            self._add(count, [each for message in messages for each in make(message, str)])
        except UnicodeEncodeError:  # a lone surrogate is rare, and a search of every text is slow
            self._cut()
            self._add(count, [each for message in messages for each in make(message, sendable)])

    def _add(self, count: int, objects: list[dict[str, Any]]) -> None:
        """Append objects; with them the array has `count` messages."""
        buffer = self._buffer
        close = len(buffer) - 1
        if objects and close == 1:
            _encode_into(objects, buffer, 0)
        elif objects:  # an array of its own, whose bracket becomes the comma
            _encode_into(objects, buffer, close)
            buffer[close] = ord(",")
        self._boundaries.append(_Boundary(count, len(buffer) - 1))


def _count(boundary: _Boundary) -> int:
    return boundary.messages
