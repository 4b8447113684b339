"""A text that grows on a page: how much is committed, and what is shown beyond."""

from __future__ import annotations

from collections.abc import Iterator

from projections.live.form import Json, units
from projections.live.patches import delta, end, part_set


class GrowingText:
    """A field of an open part that deltas add to."""

    def __init__(self, part: str, field: str, text: str, longest: int) -> None:
        self._part = part
        self._field = field
        self._room = max(longest - len(text), 0)
        """Characters that may be added before the text is cut."""
        self._cut = len(text) > longest
        self.units: int = units(text[:longest])
        """Length of what is committed and shown."""
        self.ahead: str = ""
        """Text that is shown beyond it."""

    def commit(self, text: str) -> Iterator[Json]:
        """Yield what is to be sent of text that was committed; nothing of what is shown already."""
        cut = len(text) > self._room
        text = text[: self._room]
        self._room -= len(text)
        ahead = self.ahead
        if not ahead.startswith(text):
            if not text.startswith(ahead):
                yield end(self._part, self._field, self.units)
                ahead = ""
            yield delta(self._part, self._field, self.units + units(ahead), text[len(ahead) :])
            ahead = text
        self.ahead = ahead[len(text) :]
        self.units += units(text)
        if cut and not self._cut:
            self._cut = True
            yield part_set(self._part, {"cut": True})

    def expect(self, text: str) -> Iterator[Json]:
        """Yield what shows exactly this text beyond what is committed."""
        text = text[: self._room]
        if not text.startswith(self.ahead):
            yield from self.retract()
        if len(text) > len(self.ahead):
            yield delta(self._part, self._field, self.units + units(self.ahead), text[len(self.ahead) :])
        self.ahead = text

    def retract(self) -> Iterator[Json]:
        """Yield what shows nothing beyond what is committed."""
        if self.ahead:
            self.ahead = ""
            yield end(self._part, self._field, self.units)
