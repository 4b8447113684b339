"""The case that a prune planner decides: view, policy, sizes, and the results there are.

One pass over the conversation's state finds them. The results go from the newest to the oldest;
`prunable` leaves out those that no planner may touch: protected turns or steps, protected tools,
incomplete or hidden results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import msgspec

from projections.conversation.parts import Message, StepPart, ToolPart
from projections.conversation.state import Conversation
from projections.view.options import RenderOptions
from projections.view.selection import visible_messages
from projections.window.policy.policy import PrunePolicy
from projections.window.sizing.measure import Measure

__all__ = ["CLEARED_TOKENS", "PruneCase", "PrunePlan", "ToolResult", "is_result"]

CLEARED_TOKENS = 8
"""About what the marker in place of a pruned result costs, in any counter."""


class ToolResult(NamedTuple):
    """A completed tool's result, and where it stands: in which message, as which part."""

    message: int
    place: int
    part: ToolPart


class PrunePlan(msgspec.Struct, frozen=True):
    """The parts to prune, oldest first; calibrated tokens that this frees; the planner."""

    parts: tuple[str, ...]
    freed: int
    policy: str


class PruneCase:
    """One question to a planner.  Everything in it is only to be read."""

    def __init__(
        self,
        state: Conversation,
        policy: PrunePolicy,
        measure: Measure,
        options: RenderOptions,
        usable: int | None,
        *,
        inside: bool,
        until_compaction: int | None = None,
    ) -> None:
        """Ask about this state, as `options` show it."""
        self.state = state
        self.policy = policy
        self.measure = measure
        self.options = options
        self.usable = usable
        self.inside = inside
        self.until_compaction = until_compaction
        """Tokens until a compaction that costs nothing makes room; None: none does."""
        self.messages: list[Message] = visible_messages(state, options)
        """The messages of the view, in its order."""
        self._protected_tools = frozenset(name.casefold() for name in policy.protected_tools)
        self._results = [
            ToolResult(index, place, part)
            for index, message in enumerate(self.messages)
            for place, part in enumerate(message.parts)
            if isinstance(part, ToolPart) and is_result(part)
        ]

    @property
    def protect(self) -> int:
        """Tokens of the newest results that stay: the policy's, at most a quarter of usable."""
        return self._scaled(self.policy.protect, 4)

    @property
    def minimum(self) -> int:
        """Tokens that a prune must exceed: as the policy says, at most an eighth of usable."""
        return self._scaled(self.policy.minimum, 8)

    def results(self) -> Iterator[ToolResult]:
        """Yield every complete, visible result, newest first, protected ones included."""
        return reversed(self._results)

    def prunable(self) -> Iterator[ToolResult]:
        """The results that may be pruned, newest first."""
        if not self.policy.stop_at_pruned:
            return filter(self.is_prunable, self.results())
        return self._until_pruned()

    def is_prunable(self, found: ToolResult) -> bool:
        """Whether a result may be pruned: not protected, not pruned, larger than the marker."""
        return not (self._is_protected(found) or found.part.pruned) and self.size(found) > CLEARED_TOKENS

    @cached_property
    def steps(self) -> list[int]:
        """Indexes of the model calls that said something."""
        return [
            index
            for index, message in enumerate(self.messages)
            if not message.user and any(not (part.removed or isinstance(part, StepPart)) for part in message.parts)
        ]

    @cached_property
    def unprotected(self) -> int:
        """Number of messages before the protected turns, or steps inside a loop."""
        count = self.policy.steps if self.inside else self.policy.turns
        if count is None or count <= 0:
            return len(self.messages)
        begins = self.steps if self.inside else self._turns()
        return begins[-count] if len(begins) >= count else 0

    @property
    def room(self) -> float:
        """`protect` in tokens as they are counted, before calibration."""
        return self.protect / self.measure.ratio

    def size(self, found: ToolResult) -> int:
        """Tokens of a result as counted."""
        return self.measure.counted(found.part)

    def beyond(self, results: Iterable[ToolResult]) -> Iterator[ToolResult]:
        """The results that exceed `protect` tokens, counted from the newest, and all older."""
        total, room = 0, self.room
        for found in results:
            total += self.size(found)
            if total > room:
                yield found

    def calibrated(self, counted: int) -> int:
        """Tokens that the provider will report for so many as counted."""
        return round(self.measure.ratio * counted)

    def plan(
        self, chosen: Iterable[ToolResult], name: str, *, least: int | None = None, marker: int = CLEARED_TOKENS
    ) -> PrunePlan | None:
        """Return the plan that prunes these results; None if they free `least` tokens or fewer.

        `least` is the policy's minimum by default.

        `marker` are the tokens that come in place of each.
        """
        found = sorted(chosen, key=lambda result: (result.message, result.place))
        freed = self.calibrated(sum(self.size(result) - marker for result in found))
        if not found or freed <= (self.minimum if least is None else least):
            return None
        return PrunePlan(tuple(result.part.id for result in found), freed, name)

    # -- helpers -------------------------------------------------------------------------------

    def _scaled(self, number: int, share: int) -> int:
        return number if self.usable is None or not self.policy.scale else min(number, self.usable // share)

    def _turns(self) -> list[int]:
        """Indexes of the messages that begin turns."""
        return [
            index
            for index, message in enumerate(self.messages)
            if message.user and not (message.synthetic or message.is_marker)
        ]

    def _is_protected(self, found: ToolResult) -> bool:
        """Whether a result's turn, step or tool is protected; tools are compared without case."""
        return found.message >= self.unprotected or found.part.tool.casefold() in self._protected_tools

    def _until_pruned(self) -> Iterator[ToolResult]:
        for found in self.results():
            if self._is_protected(found):
                continue
            if found.part.pruned:
                return
            yield found


def is_result(part: ToolPart) -> bool:
    """Whether a tool has completed and its result is shown, but for pruning."""
    return part.status == "completed" and not part.removed and not part.redacted
