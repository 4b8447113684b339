"""The results of a view that may be pruned, oldest first, with running sums of tokens.

Kept from one step of the loop to the next like the outline that they are taken from: only results
of messages that changed are looked at again. A result that is no larger than the marker that would
stand in its place is no candidate: clearing it frees nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from projections.conversation.parts import ToolPart
from projections.window.prune.outline import Outline, ToolResult
from projections.window.sizing.measure import Measure

__all__ = ["CLEARED_TOKENS", "Candidates", "is_candidate"]

CLEARED_TOKENS = 8
"""About what the marker in place of a pruned result costs, in any counter."""

T = TypeVar("T")


class Candidates:
    """The candidates of one outline, protected turns and steps included.

    Tokens are as counted, before calibration.
    """

    def __init__(self, outline: Outline, protected_tools: Iterable[str], measure: Measure) -> None:
        self.outline = outline
        self.measure = measure
        self.all: list[ToolResult] = []
        """Every candidate, oldest first."""
        self._protected = frozenset(name.casefold() for name in protected_tools)
        self._sums = [0]
        """Tokens of as many of the oldest candidates as the place in the list says."""
        self._mark = outline.mark()
        self._beside: dict[object, object] = {}

    def look(self) -> None:
        """Apply what changed in the outline."""
        outline, mark = self.outline, self._mark
        kept = self.before(mark.results)
        del self.all[kept:], self._sums[kept + 1 :]
        for index in range(bisect_left(outline.results, mark.results, key=_message), len(outline.results)):
            found = outline.results[index]
            if not self.is_protected(found.part) and is_candidate(found.part, self.measure):
                self.all.append(found)
                self._sums.append(self._sums[-1] + self.measure.counted(found.part))
        mark.messages = mark.results = len(outline.messages)

    def kept(self, kind: Callable[[Candidates], T]) -> T:
        """An object that a planner keeps beside the candidates, made when first asked for."""
        if kind not in self._beside:
            self._beside[kind] = kind(self)
        return cast("T", self._beside[kind])

    def is_protected(self, part: ToolPart) -> bool:
        """Whether the results of a call's tool stay; names are compared without case."""
        return part.tool.casefold() in self._protected

    def before(self, message: int) -> int:
        """How many candidates lie in the first `message` messages of the view."""
        return bisect_left(self.all, message, key=_message)

    def beyond(self, count: int, room: float) -> int:
        """How many of the `count` oldest do not fit into `room` with all that are newer."""
        return bisect_left(self._sums, self._sums[count] - room, 0, count)

    def oldest(self, count: int) -> list[ToolResult]:
        """The `count` oldest."""
        return self.all[:count]

    def freed(self, count: int) -> int:
        """Tokens that clearing the `count` oldest frees."""
        return self._sums[count] - CLEARED_TOKENS * count


def is_candidate(part: ToolPart, measure: Measure) -> bool:
    """Whether clearing a result frees anything: not pruned yet, and larger than the marker."""
    return not part.pruned and measure.counted(part) > CLEARED_TOKENS


def _message(result: ToolResult) -> int:
    return result.message
