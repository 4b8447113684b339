"""The tokens of a streaming text: estimated while it grows, counted when it ends.

A projection stores the two integers `chars` and `utf8` in its own state and asks
`Counter.estimate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from projections.tokens.counter import Counter

CHUNK = 1 << 20
"""Characters encoded at a time, so that a large text is not held twice."""


def utf8_length(text: str) -> int:
    """Return the text's UTF-8 bytes, three for each lone surrogate.

    The sum over the pieces of a text is that of the whole.
    """
    if text.isascii():
        return len(text)
    pieces = (text[at : at + CHUNK] for at in range(0, len(text), CHUNK))
    return sum(len(piece.encode("utf-8", "surrogatepass")) for piece in pieces)


class StreamEstimate:
    """Estimates the tokens of a text from its deltas, each at the cost of the delta alone.

    One thread feeds it.  The estimate never loads a vocabulary; `finish` may.
    """

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._pieces: list[str] = []
        self.chars: int = 0
        self.utf8: int = 0

    def feed(self, delta: str) -> None:
        """Add the next piece of the text."""
        self._pieces.append(delta)
        self.chars += len(delta)
        self.utf8 += utf8_length(delta)

    @property
    def tokens(self) -> int:
        """The estimate so far."""
        return self._counter.estimate(self.chars, self.utf8)

    def finish(self) -> int:
        """Return the exact count of all that was fed; more may be fed after it."""
        self._pieces = ["".join(self._pieces)]
        return self._counter.count(self._pieces[0])
