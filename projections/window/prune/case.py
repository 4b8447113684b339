"""The case that a prune planner decides: view, policy, sizes, and the content to clear.

One pass over the conversation's state finds it (`clearable.py`). It goes from the newest to the
oldest; `prunable` leaves out what no planner may touch: protected turns or steps, protected tools,
what is cleared already or is smaller than the marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import msgspec

from projections.conversation.parts import Message, StepPart, ToolPart
from projections.conversation.state import Conversation
from projections.view.options import RenderOptions
from projections.view.selection import visible_messages
from projections.window.policy.policy import PrunePolicy
from projections.window.prune.clearable import Clearable, clearables
from projections.window.prune.newest_names import named_parts
from projections.window.sizing.sizes import Sizes

__all__ = ["CLEARED_TOKENS", "PruneCase", "PrunePlan"]

CLEARED_TOKENS = 8
"""About what the marker in place of what is cleared costs, in any counter."""


class PrunePlan(msgspec.Struct, frozen=True):
    """The parts to prune, oldest first; calibrated tokens that this frees; the planner.

    Calls in `parts` lose their results, those in `arguments` their large arguments.
    """

    parts: tuple[str, ...]
    freed: int
    policy: str
    arguments: tuple[str, ...] = ()


class PruneCase:
    """One question to a planner.  Everything in it is only to be read."""

    def __init__(
        self,
        state: Conversation,
        policy: PrunePolicy,
        measure: Sizes,
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
        self._turns = [
            index
            for index, message in enumerate(self.messages)
            if message.user and not (message.synthetic or message.is_marker)
        ]
        self._clearables = [*clearables(self.messages, policy, options, self._newest_turn)]

    @property
    def protect(self) -> int:
        """Tokens of the newest that stay: the policy's, at most a quarter of usable."""
        return self._scaled(self.policy.protect, 4)

    @property
    def minimum(self) -> int:
        """Tokens that a prune must exceed: as the policy says, at most an eighth of usable."""
        return self._scaled(self.policy.minimum, 8)

    def clearables(self) -> Iterator[Clearable]:
        """Yield all content that could be cleared, newest first, protected content included."""
        return reversed(self._clearables)

    def prunable(self) -> Iterator[Clearable]:
        """Yield the content to choose from, newest first."""
        if not self.policy.stop_at_pruned:
            return filter(self.is_prunable, self.clearables())
        return self._until_pruned()

    def is_prunable(self, found: Clearable) -> bool:
        """Whether it may be pruned: not protected, not pruned, larger than the marker."""
        return not (self._is_protected(found) or found.pruned) and self.size(found) > CLEARED_TOKENS

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
        begins = self.steps if self.inside else self._turns
        return begins[-count] if len(begins) >= count else 0

    @property
    def room(self) -> float:
        """`protect` in tokens as they are counted, before calibration."""
        return self.protect / self.measure.ratio

    def size(self, found: Clearable) -> int:
        """Tokens as counted; of arguments what clearing them takes away, and a marker."""
        part = found.part
        if found.kind != "arguments" or not isinstance(part, ToolPart):
            return self.measure.counted(part)
        saved = self.measure.clearing_arguments(part)
        return saved + CLEARED_TOKENS if saved else 0

    def beyond(self, found: Iterable[Clearable], *, named_last: bool = True) -> Iterator[Clearable]:
        """Yield the content beyond `protect` tokens, counted from the newest.

        `named_last`: what the newest turn names is counted first, as if it were the newest.
        """
        counted, room = [*found], self.room
        if named_last and sum(map(self.size, counted)) > room:
            named = named_parts(counted, self.messages, self._newest_turn, self.measure)
            counted.sort(key=lambda one: one.part.id not in named)
        total = 0
        for one in counted:
            total += self.size(one)
            if total > room:
                yield one

    def calibrated(self, counted: int) -> int:
        """Tokens that the provider will report for so many as counted."""
        return round(self.measure.ratio * counted)

    def plan(
        self, chosen: Iterable[Clearable], name: str, *, least: int | None = None, marker: int = CLEARED_TOKENS
    ) -> PrunePlan | None:
        """Return the plan that prunes these; None if they free `least` tokens or fewer.

        `least` is the policy's minimum by default.

        `marker` are the tokens that come in place of each.
        """
        found = sorted(chosen, key=lambda one: (one.message, one.place))
        freed = self.calibrated(sum(self.size(one) - marker for one in found))
        if not found or freed <= (self.minimum if least is None else least):
            return None
        parts = tuple(one.part.id for one in found if one.kind != "arguments")
        return PrunePlan(parts, freed, name, tuple(one.part.id for one in found if one.kind == "arguments"))

    # -- helpers -------------------------------------------------------------------------------

    def _scaled(self, number: int, share: int) -> int:
        return number if self.usable is None or not self.policy.scale else min(number, self.usable // share)

    @property
    def _newest_turn(self) -> int:
        """Index of the message that begins the newest turn; 0 if none does."""
        return self._turns[-1] if self._turns else 0

    def _is_protected(self, found: Clearable) -> bool:
        """Whether its turn, step or tool is protected; tools are compared without case."""
        return found.message >= self.unprotected or found.tool.casefold() in self._protected_tools

    def _until_pruned(self) -> Iterator[Clearable]:
        for found in self.clearables():
            if self._is_protected(found):
                continue
            if found.pruned:
                return
            yield found
