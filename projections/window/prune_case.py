"""What a prune planner is given: the view, the policy, the sizes; and the walk over what may be pruned (spec §5.2).

Not a planner (`prune_recency.py` and those beside it).  Imported by the planners.  The walk goes from the newest part to the oldest and leaves
out what no planner may touch: protected turns or steps, protected tools, results that are no results or are not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import msgspec

from projections.conversation import Conversation
from projections.parts import Message, StepPart, ToolPart
from projections.render_options import RenderOptions
from projections.selection import ordered
from projections.window.measure import Measure
from projections.window.policy import PrunePolicy

__all__ = ["CLEARED_TOKENS", "PruneCase", "PrunePlan", "Result", "beyond", "is_real_user", "is_result"]

CLEARED_TOKENS = 8
"""About what the marker in place of a pruned result costs, in any counter."""


class PrunePlan(msgspec.Struct, frozen=True):
    """The parts to prune, oldest first, the tokens of their results, and the policy that chose them."""

    parts: tuple[str, ...]
    freed: int
    policy: str


class Result(NamedTuple):
    """A completed tool's result, and where it stands: the index of its message in the view, and of the part in it."""

    message: int
    place: int
    part: ToolPart


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
    ) -> None:
        self.state = state
        self.policy = policy
        self.measure = measure
        self.options = options
        self.usable = usable
        self.inside = inside

    @cached_property
    def messages(self) -> list[Message]:
        """The messages of the view, in its order."""
        return ordered(self.state, self.options)

    @property
    def protect(self) -> int:
        """Tokens of the newest results that stay: as the policy says, at most a quarter of usable."""
        return self._scaled(self.policy.protect, 4)

    @property
    def minimum(self) -> int:
        """Tokens that must be freed at least, and one more: as the policy says, at most an eighth of usable."""
        return self._scaled(self.policy.minimum, 8)

    def results(self) -> Iterator[Result]:
        """Every result of the view that is complete and shown, newest first, with no regard to protection."""
        for index in range(len(self.messages) - 1, -1, -1):
            parts = self.messages[index].parts
            for place in range(len(parts) - 1, -1, -1):
                part = parts[place]
                if isinstance(part, ToolPart) and is_result(part):
                    yield Result(index, place, part)

    def prunable(self) -> Iterator[Result]:
        """The results that may be pruned, newest first."""
        if self.policy.stop_at_pruned:
            yield from self._until_pruned()
            return
        for found in self.results():
            if self.is_prunable(found):
                yield found

    def is_prunable(self, found: Result) -> bool:
        """Whether a result may be pruned at all: outside what is protected, and not pruned yet."""
        return (
            found.message < self.unprotected
            and not found.part.pruned
            and found.part.tool not in self.policy.protected_tools
        )

    @cached_property
    def unprotected(self) -> int:
        """How many messages at the beginning of the view are outside the protected turns, or steps inside a loop."""
        if self.inside:
            steps = self.policy.steps
            return len(self.messages) if steps is None else _before(self.messages, steps, _is_step)
        return _before(self.messages, self.policy.turns, is_real_user)

    def plan(self, chosen: Iterable[Result], name: str, *, least: int | None = None) -> PrunePlan | None:
        """The plan that prunes these; None unless they free more than `least` tokens (the policy's minimum if not given)."""
        found = sorted(chosen, key=lambda result: (result.message, result.place))
        freed = sum(self.measure.result(result.part) for result in found)
        if not found or freed <= (self.minimum if least is None else least):
            return None
        return PrunePlan(tuple(result.part.id for result in found), freed, name)

    # -- helpers -------------------------------------------------------------------------------

    def _scaled(self, number: int, share: int) -> int:
        return number if self.usable is None or not self.policy.scale else min(number, self.usable // share)

    def _until_pruned(self) -> Iterator[Result]:
        for found in self.results():
            if found.message >= self.unprotected or found.part.tool in self.policy.protected_tools:
                continue
            if found.part.pruned:
                return
            yield found


def beyond(results: Iterable[Result], protect: int, measure: Measure) -> Iterator[Result]:
    """Those of the results, newest first, with which more than `protect` tokens are reached, and all after them."""
    total = 0
    for found in results:
        total += measure.result(found.part)
        if total > protect:
            yield found


def is_result(part: ToolPart) -> bool:
    """Whether a tool came to its end and its result is shown, or would be if it were not pruned."""
    return part.status == "completed" and not part.removed and not part.redacted


def is_real_user(message: Message) -> bool:
    """Whether a message begins a turn: a user's own, not one that the program wrote, nor the marker of a compaction."""
    return message.user and not message.synthetic and not message.is_marker


def _is_step(message: Message) -> bool:
    """Whether a message is a model call that said something; one that is about to be filled protects nothing."""
    return not message.user and any(not isinstance(part, StepPart) and not part.removed for part in message.parts)


def _before(messages: list[Message], count: int, begins: Callable[[Message], bool]) -> int:
    """How many messages stand before the newest `count` of those that `begins` holds of; none if there are fewer."""
    if count <= 0:
        return len(messages)
    for index in range(len(messages) - 1, -1, -1):
        count -= begins(messages[index])
        if count == 0:
            return index
    return 0
