"""The messages of one view, sharing what it can with the views before and after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import overload

from projections.view.neutral import NeutralMessage


class Messages(Sequence[NeutralMessage]):
    """An immutable sequence of messages: a shared list up to a length, and a tail."""

    __slots__ = ("_length", "_shared", "_tail")

    def __init__(
        self, shared: list[NeutralMessage], length: int | None = None, tail: tuple[NeutralMessage, ...] = ()
    ) -> None:
        self._shared = shared
        self._length = len(shared) if length is None else length
        self._tail = tail

    def __len__(self) -> int:
        return self._length + len(self._tail)

    @overload
    def __getitem__(self, index: int) -> NeutralMessage: ...
    @overload
    def __getitem__(self, index: slice) -> list[NeutralMessage]: ...
    def __getitem__(self, index: int | slice) -> NeutralMessage | list[NeutralMessage]:
        if isinstance(index, slice):
            return self.since(0)[index]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(index)
        return self._shared[place] if place < self._length else self._tail[place - self._length]

    def __iter__(self) -> Iterator[NeutralMessage]:
        return chain(islice(self._shared, self._length), self._tail)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Messages):
            return NotImplemented
        return len(self) == len(other) and self.common(other) == len(self)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{len(self)} messages>"

    def since(self, count: int) -> list[NeutralMessage]:
        """All but the first `count` messages; the cost grows with their number only."""
        found = self._shared[count : self._length]
        found += self._tail[max(count - self._length, 0) :]
        return found

    @property
    def final(self) -> Messages:
        """Those that lie in the list that views share, without the tail."""
        return Messages(self._shared, self._length)

    def begins_with(self, other: Messages) -> bool:
        """Whether `other`, which has no tail, is the beginning of the list that both share.

        Found without a look at any message.
        """
        return self._shared is other._shared and self._length >= other._length and not other._tail

    def common(self, other: Messages) -> int:
        """How many messages at the beginning are equal."""
        start = min(self._length, other._length) if self._shared is other._shared else 0
        count = start
        for one, two in zip(self.since(start), other.since(start), strict=False):
            if one is not two and one != two:
                break
            count += 1
        return count
