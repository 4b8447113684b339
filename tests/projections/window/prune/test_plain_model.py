"""Plans against a plain model of each planner: its rule restated, pair by pair."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import Any, cast

import pytest

from projections.conversation.parts import Message, TextPart, ToolPart
from projections.window.policy.policy import Prices, PrunePolicy
from projections.window.prune.case import CLEARED_TOKENS
from projections.window.prune.planner import PLANNERS
from tests.support.prune_sessions import Letters, Talk, parts_of, plan, tools_of

SHOWS, WRITES = ("read",), ("edit",)
"""The tools of `drawn` that show a file, and those that write one."""
MANY = 100
"""Requests by which the cost-aware planner finds a beginning where none are expected."""

CASES = 600
INPUTS = (
    {"filePath": "/a"},
    {"filePath": "/a"},
    {"filePath": "/b"},
    {"filePath": "/a", "offset": 5},
    {"command": "ls"},
)


def drawn(random: Random) -> list[Message]:
    """Draw a conversation with texts of any length beside the results."""
    talk = Talk()
    for _ in range(random.randint(1, 4)):
        talk.user("u" * random.choice((1, 20, 400)), synthetic=random.random() < 0.2)
        for _ in range(random.randint(0, 5)):
            tools = [
                talk.tool(
                    random.choice((random.randint(0, 12), random.randint(0, 60), 300)),
                    random.choice(("bash", "read", "read", "read", "edit", "skill")),
                    input=random.choice(INPUTS),
                    status=random.choice(("completed",) * 8 + ("failed", "running")),
                    pruned=random.random() < 0.15,
                    removed=random.random() < 0.05,
                    redacted=random.random() < 0.05,
                )
                for _ in range(random.randint(0, 3))
            ]
            talk.step(TextPart(f"w{talk.count}", pieces=["w" * random.choice((1, 30, 300))]), *tools)
    return talk.messages


def policy_drawn(random: Random, planner: str) -> PrunePolicy:
    """Draw a policy for a planner."""
    return PrunePolicy(
        policy=planner,
        protect=random.choice((0, 40, 150, 600)),
        minimum=random.choice((0, 0, 0, 100)),
        turns=random.randint(0, 3),
        steps=random.randint(0, 3),
        stop_at_pruned=random.random() < 0.3,
        protected_tools=random.choice((("skill",), (), ("SKILL", "bash"))),
        prices=random.choice((None, Prices(cache_write=Decimal(0)), Prices(cache_read=Decimal("2.9")))),
        expected_turns=random.choice((None, 0, 5, 20, 100)),
    )


class Model:
    """The results of one conversation, and the plan of each planner as a list of them."""

    def __init__(self, messages: Sequence[Message], policy: PrunePolicy, usable: int | None, *, inside: bool) -> None:
        self.messages = messages
        self.policy = policy
        self.inside = inside
        self.protect = policy.protect if usable is None else min(policy.protect, usable // 4)
        self.minimum = policy.minimum if usable is None else min(policy.minimum, usable // 8)
        self.steps = [index for index, message in enumerate(messages) if not message.user]  # each says something
        turns = [index for index, message in enumerate(messages) if message.user and not message.synthetic]
        bound = (
            _begin_of(policy.steps or 0, self.steps, messages) if inside else _begin_of(policy.turns, turns, messages)
        )
        protected = {name.lower() for name in policy.protected_tools}
        self.whole = [
            (index, part)
            for index, part in tools_of(messages)
            if part.status == "completed" and not (part.removed or part.redacted)
        ]
        free = [part for index, part in self.whole if index < bound and part.tool.lower() not in protected]
        self.large = [part for part in free if not part.pruned and size(part) > CLEARED_TOKENS]
        """Candidates, oldest first."""
        self.prunable = self.large
        if policy.stop_at_pruned:
            last = max((index for index, part in enumerate(free) if part.pruned), default=-1)
            self.prunable = free[last + 1 :]

    def beyond(self, parts: Sequence[ToolPart]) -> list[ToolPart]:
        """Return the parts that do not fit into the protected tokens with all newer ones."""
        return [part for index, part in enumerate(parts) if sum(map(size, parts[index:])) > self.protect]

    def recency(self) -> list[ToolPart]:
        """Results beyond the protected tokens, if they are enough."""
        return self._enough(self.beyond(self.prunable))

    def superseded(self) -> list[ToolPart]:
        """Stale results, and others beyond the protected tokens, if they are enough."""
        stale = {part.id for index, (_, part) in enumerate(self.whole) if self._is_stale(index)}
        gone = {part.id for part in self.beyond([part for part in self.prunable if part.id not in stale])}
        gone |= {part.id for part in self.large if part.id in stale}
        return self._enough([part for _, part in self.whole if part.id in gone])

    def opencode(self) -> list[ToolPart]:
        """Results of any size between the newest pruned one and the newest turns."""
        users = [index for index, message in enumerate(self.messages) if message.user]
        bound = _begin_of(self.policy.turns, users, self.messages)
        found = [part for index, part in self.whole if index < bound and part.tool not in self.policy.protected_tools]
        last = max((index for index, part in enumerate(found) if part.pruned), default=-1)
        chosen = self.beyond(found[last + 1 :])
        return chosen if sum(map(size, chosen)) > self.minimum else []

    def cost_aware(self) -> list[ToolPart]:
        """Results from the best beginning on, if the expected requests pay for them."""
        beyond = self.beyond(self.prunable)
        given = self.policy.expected_turns
        choices = [beyond[index:] for index in range(len(beyond))]
        turns = given or MANY * (given is None)
        chosen = max(reversed(choices), key=lambda parts: self._saves(parts, turns)) if choices else []
        if not chosen or freed(chosen) <= 0:
            return []
        return chosen if self._saves(chosen, self._requests(chosen) if given is None else given) > 0 else []

    # -- helpers -------------------------------------------------------------------------------

    def _enough(self, parts: list[ToolPart]) -> list[ToolPart]:
        return parts if freed(parts) > self.minimum else []

    def _is_stale(self, index: int) -> bool:
        part = self.whole[index][1]
        later = [found for _, found in self.whole[index + 1 :]]
        given, path = asked(part)
        if any(not other.pruned and (other.tool, asked(other)) == (part.tool, (given, path)) for other in later):
            return True
        if part.tool not in SHOWS or path is None:
            return False
        return any(
            asked(other)[1] == path
            and (
                other.tool in WRITES
                or (other.tool in SHOWS and not other.pruned and (not given or asked(other)[0] in ({}, given)))
            )
            for other in later
        )

    def _saves(self, parts: Sequence[ToolPart], requests: float) -> Decimal:
        """Money that so many requests save, less that of sending anew what stays behind."""
        prices = self.policy.prices or Prices()
        anew = (prices.cache_write or prices.input) - prices.cache_read
        stays = self._behind(parts[0]) - freed(parts)
        return Decimal(requests) * freed(parts) * prices.cache_read - stays * anew

    def _behind(self, first: ToolPart) -> int:
        """Letters of the view from a result on; a message sends its results last."""
        index = next(index for index, part in self.whole if part is first)
        own = [part for at, part in self.whole if at == index]
        here = sum(CLEARED_TOKENS if part.pruned else size(part) for part in own[own.index(first) :])
        return here + Letters().messages(self.messages[index + 1 :])

    def _requests(self, parts: Sequence[ToolPart]) -> float:
        """Half of the steps that have read these results, by what they gathered."""
        index = next(index for index, part in self.whole if part is parts[0])
        steps = [step for step in self.steps if step >= index]
        return freed(parts) / (2 * self._behind(parts[0]) / len(steps))


def _begin_of(count: int, begins: Sequence[int], messages: Sequence[Message]) -> int:
    """The index at which the newest `count` begin; all is before it if none are protected."""
    return (begins[-count] if len(begins) >= count else 0) if count else len(messages)


def size(part: ToolPart) -> int:
    """Letters of a result."""
    return Letters().counted(part)


def freed(parts: Sequence[ToolPart]) -> int:
    """Letters that clearing these results frees."""
    return sum(size(part) - CLEARED_TOKENS for part in parts)


def asked(part: ToolPart) -> tuple[dict[str, Any], str | None]:
    """The arguments of a call beside a path, and the path."""
    given = cast("dict[str, Any]", json.loads(cast("str", part.input)))
    return given, given.pop("filePath", None)


@pytest.mark.parametrize("planner", sorted(PLANNERS))
def test_a_plan_is_that_of_the_plain_model(planner: str) -> None:
    """Each planner plans the results that its rule names, oldest first, and no others."""
    random, plans = Random(7), 0
    for _ in range(CASES):
        messages, policy = drawn(random), policy_drawn(random, planner)
        usable, inside = random.choice((None, 300, 3_000)), random.random() < 0.5
        expected: list[ToolPart] = getattr(Model(messages, policy, usable, inside=inside), planner.replace("-", "_"))()
        found = plan(messages, policy, usable, inside=inside)
        assert list(parts_of(found)) == [part.id for part in expected]
        if found is not None:
            assert found.freed == (sum(map(size, expected)) if planner == "opencode" else freed(expected))
            plans += 1
    assert plans > CASES / 10
