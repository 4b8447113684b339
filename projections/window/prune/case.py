"""The case that a prune planner decides: view, policy, sizes, and the results there are.

The results go from the newest to the oldest; `prunable` leaves out those that no planner may touch:
protected turns or steps, protected tools, incomplete or hidden results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import msgspec

from projections.conversation.parts import Message
from projections.conversation.state import Conversation
from projections.view.options import RenderOptions
from projections.window.policy.policy import PrunePolicy
from projections.window.prune.candidates import CLEARED_TOKENS, Candidates, is_candidate
from projections.window.prune.outline import Outline, ToolResult, is_result
from projections.window.sizing.measure import Measure

__all__ = ["CLEARED_TOKENS", "PruneCase", "PrunePlan", "ToolResult", "is_result"]


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
        candidates: Candidates | None = None,
        until_compaction: int | None = None,
    ) -> None:
        """Ask about this state; `candidates` are those of its view, if they are kept."""
        self.state = state
        self.policy = policy
        self.measure = measure
        self.options = options
        self.usable = usable
        self.inside = inside
        self.until_compaction = until_compaction
        """Tokens until a compaction that costs nothing makes room; None: none does."""
        if candidates is None:
            candidates = Candidates(Outline(state, options), policy.protected_tools, measure)
        candidates.look()
        self.candidates = candidates
        """Candidates of the whole view, protected turns and steps included."""

    @property
    def messages(self) -> list[Message]:
        """The messages of the view, in its order."""
        return self.candidates.outline.messages

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
        return reversed(self.candidates.outline.results)

    def prunable(self) -> Iterator[ToolResult]:
        """The results that may be pruned, newest first."""
        if self.policy.stop_at_pruned:
            yield from self._until_pruned()
            return
        for found in self.results():
            if self.is_prunable(found):
                yield found

    def is_prunable(self, found: ToolResult) -> bool:
        """Whether a result may be pruned: not protected, not pruned, larger than the marker."""
        return (
            found.message < self.unprotected
            and not self.candidates.is_protected(found.part)
            and is_candidate(found.part, self.measure)
        )

    @cached_property
    def unprotected(self) -> int:
        """Number of messages before the protected turns, or steps inside a loop."""
        outline = self.candidates.outline
        begins, count = (outline.steps, self.policy.steps) if self.inside else (outline.turns, self.policy.turns)
        if count is None or count <= 0:
            return len(self.messages)
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
        total = 0
        for found in results:
            total += self.size(found)
            if total > self.room:
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

    def _until_pruned(self) -> Iterator[ToolResult]:
        for found in self.results():
            if found.message >= self.unprotected or self.candidates.is_protected(found.part):
                continue
            if found.part.pruned:
                return
            yield found
