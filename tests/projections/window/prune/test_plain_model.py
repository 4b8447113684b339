"""Plans against a plain model of each planner: its rule restated, pair by pair."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple, cast

import pytest

from eventlog.values import File, Model
from projections.conversation.parts import FilePart, Message, Part, ReasoningPart, StepPart, TextPart, ToolPart
from projections.view.cleared_arguments import LARGE
from projections.window.policy.policy import Prices, PrunePolicy
from projections.window.prune.case import CLEARED_TOKENS
from projections.window.prune.planners import PLANNERS
from tests.support.prune_sessions import Letters, Talk, parts_of, plan, tools_of

SHOWS, WRITES = ("read",), ("edit",)
"""The tools of `drawn` that show a file, and those that write one."""
ENDED = ("completed", "failed")
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
    """Draw a conversation with texts, thoughts, files and large arguments beside the results."""
    talk = Talk()
    for _ in range(random.randint(1, 4)):
        words = random.choice(("", "", "look at a", "see /b.", "t1 again", "shot.png"))
        talk.user("u" * random.choice((1, 20, 400)) + " " + words, synthetic=random.random() < 0.2)
        talk.messages[-1].parts += [
            FilePart(
                f"f{len(talk.messages)}",
                file=File("image/png", "x" * random.choice((5, 90)), random.choice(("shot.png", None))),
                pruned=random.random() < 0.2,
            )
            for _ in range(random.choice((0, 0, 0, 1)))
        ]
        for _ in range(random.randint(0, 5)):
            tools = [
                talk.tool(
                    random.choice((random.randint(0, 12), random.randint(0, 60), 300)),
                    random.choice(("bash", "read", "read", "read", "edit", "skill")),
                    input={**random.choice(INPUTS), **({"content": "c" * 500} if random.random() < 0.2 else {})},
                    status=random.choice(("completed",) * 8 + ("failed", "running")),
                    pruned=random.random() < 0.15,
                    arguments_pruned=random.random() < 0.15,
                    removed=random.random() < 0.05,
                    redacted=random.random() < 0.05,
                    provider_executed=random.random() < 0.05,
                    metadata=random.choice((None, None, "{}")),
                )
                for _ in range(random.randint(0, 3))
            ]
            thoughts = [
                ReasoningPart(
                    f"r{talk.count}-{len(talk.messages)}",
                    pieces=["t" * random.choice((LARGE, LARGE + 1))],
                    metadata=random.choice((None, None, "{}")),
                    pruned=random.random() < 0.15,
                )
                for _ in range(random.choice((0, 0, 1)))
            ]
            said = [TextPart(f"w{talk.count}-{len(talk.messages)}", pieces=["w" * 30])]
            talk.step(*thoughts, *(said if random.random() < 0.8 else []), *tools)
            talk.messages[-1].model = random.choice((None, Model("a", "b"), Model("deepseek", "chat")))
    return talk.messages


def policy_drawn(random: Random, planner: str) -> PrunePolicy:
    """Draw a policy for a planner."""
    return PrunePolicy(
        policy=planner,
        protect=random.choice((0, 40, 150, 600)),
        minimum=random.choice((0, 0, 0, 100)),
        turns=random.randint(0, 3),
        steps=random.randint(0, 3),
        protected_tools=random.choice((("skill",), (), ("SKILL", "bash"))),
        arguments=random.random() < 0.8,
        reasoning=random.random() < 0.8,
        media=random.random() < 0.8,
        prices=random.choice((None, Prices(cache_write=Decimal(0)), Prices(cache_read=Decimal("2.9")))),
        expected_turns=random.choice((None, 0, 5, 20, 100)),
    )


class Item(NamedTuple):
    """A thing that may be cleared, in the message `at` an index."""

    at: int
    part: Any
    kind: str = "result"

    @property
    def size(self) -> int:
        """Letters, of arguments those that clearing takes away with one marker."""
        if self.kind != "arguments":
            return Letters().counted(self.part)
        saved = Letters().clearing_arguments(self.part)
        return saved and saved + CLEARED_TOKENS

    @property
    def pruned(self) -> bool:
        """Whether it is cleared."""
        return bool(self.part.arguments_pruned if self.kind == "arguments" else self.part.pruned)


class PlainModel:
    """The content to clear of one conversation, and the plan of each planner as a list."""

    def __init__(self, messages: Sequence[Message], policy: PrunePolicy, usable: int | None, *, inside: bool) -> None:
        self.messages = messages
        self.policy = policy
        self.inside = inside
        self.protect = policy.protect if usable is None else min(policy.protect, usable // 4)
        self.minimum = policy.minimum if usable is None else min(policy.minimum, usable // 8)
        self.steps = [
            index
            for index, message in enumerate(messages)
            if not message.user and any(not (part.removed or isinstance(part, StepPart)) for part in message.parts)
        ]
        turns = [index for index, message in enumerate(messages) if message.user and not message.synthetic]
        bound = (
            _begin_of(policy.steps or 0, self.steps, messages) if inside else _begin_of(policy.turns, turns, messages)
        )
        self.newest = turns[-1] if turns else 0
        protected = {name.lower() for name in policy.protected_tools}
        self.results = [
            Item(index, part)
            for index, part in tools_of(messages)
            if part.status in ENDED and not (part.removed or part.redacted)
        ]
        self.whole = [
            item
            for index, message in enumerate(messages)
            for part in message.parts
            for item in self._items(index, part)
        ]
        free = [item for item in self.whole if item.at < bound and getattr(item.part, "tool", "") not in protected]
        self.prunable = [item for item in free if not item.pruned and item.size > CLEARED_TOKENS]
        """Candidates, oldest first."""

    def beyond(self, items: Sequence[Item]) -> list[Item]:
        """Return what does not fit into the protected tokens, the named and the newest first."""
        newest_first = items[::-1]
        order = sorted(newest_first, key=lambda item: not self._is_named(item))
        gone = [item for index, item in enumerate(order) if freed(order[: index + 1], 0) > self.protect]
        return [item for item in items if item in gone]

    def recency(self) -> list[Item]:
        """All beyond the protected tokens, if it is enough."""
        return self._enough(self.beyond(self.prunable))

    def superseded(self) -> list[Item]:
        """Stale content, and other content beyond the protected tokens, if it is enough."""
        gone = self.beyond([item for item in self.prunable if not self._is_stale(item)])
        gone += [item for item in self.prunable if self._is_stale(item)]
        return self._enough([item for item in self.whole if item in gone])

    def opencode(self) -> list[Item]:
        """Results of any size between the newest pruned one and the newest turns."""
        users = [index for index, message in enumerate(self.messages) if message.user]
        bound = _begin_of(self.policy.turns, users, self.messages)
        completed = [item for item in self.results if item.part.status == "completed"]
        found = [item for item in completed if item.at < bound and item.part.tool not in self.policy.protected_tools]
        last = max((index for index, item in enumerate(found) if item.pruned), default=-1)
        rest = found[last + 1 :]
        chosen = [item for index, item in enumerate(rest) if freed(rest[index:], 0) > self.protect]
        return chosen if freed(chosen, 0) > self.minimum else []

    def cost_aware(self) -> list[Item]:
        """All from the best beginning on, if the expected requests pay for it."""
        beyond = self.beyond(self.prunable)
        given = self.policy.expected_turns
        choices = [beyond[index:] for index in range(len(beyond))]
        turns = given or MANY * (given is None)
        chosen = max(reversed(choices), key=lambda items: self._saves(items, turns)) if choices else []
        if not chosen or freed(chosen) <= 0:
            return []
        return chosen if self._saves(chosen, self._requests(chosen) if given is None else given) > 0 else []

    # -- helpers -------------------------------------------------------------------------------

    def _items(self, index: int, part: Part) -> Iterator[Item]:
        """The things of one part that the policy allows to clear at all."""
        message, is_old = self.messages[index], index < self.newest
        if part.removed or part.redacted:
            return
        if isinstance(part, FilePart) and self.policy.media and is_old:
            yield Item(index, part, "media")
        is_deepseek = message.model is not None and message.model.provider == "deepseek"
        wanted = isinstance(part, ReasoningPart) and (part.metadata is not None or is_deepseek)
        if isinstance(part, ReasoningPart) and self.policy.reasoning and is_old and not wanted and has_much(part):
            yield Item(index, part, "reasoning")
        if not isinstance(part, ToolPart):
            return
        has_large = '"content"' in cast("str", part.input)
        is_free = part.status in ENDED and not part.provider_executed
        if self.policy.arguments and has_large and is_free and (is_old or part.metadata is None):
            yield Item(index, part, "arguments")
        if part.status in ENDED:
            yield Item(index, part)

    def _is_named(self, item: Item) -> bool:
        """Whether a later message of the newest turn has the path, the id or the name of a file."""
        part = item.part
        if isinstance(part, ReasoningPart):
            return False
        path = None if isinstance(part, FilePart) else asked(part)[1]
        names = {part.file.filename} if isinstance(part, FilePart) else {part.id, path, path and path[1:]}
        said: list[str | None] = []
        for message in self.messages[max(self.newest, item.at + 1) :]:
            for other in message.parts:
                if isinstance(other, TextPart) and message.user:
                    said += [word.strip(".") for word in other.pieces[0].split()]  # type: ignore[union-attr]
                elif isinstance(other, ToolPart) and not (other.removed or other.redacted):
                    said.append(asked(other)[1])
        return not names.isdisjoint({word for word in said if word})

    def _enough(self, items: list[Item]) -> list[Item]:
        return items if freed(items) > self.minimum else []

    def _is_stale(self, item: Item) -> bool:
        if item.kind not in {"result", "arguments"}:
            return False
        part = item.part
        place = [other.part for other in self.whole].index(part)
        later = [other.part for other in self.results if other.at > item.at]
        later += [other.part for other in self.whole[place + 1 :] if other.at == item.at and other.part is not part]
        later = [other for other in later if isinstance(other, ToolPart) and other.status == "completed"]
        given, path = asked(part)
        if item.kind == "arguments":
            return (
                part.tool in WRITES
                and path is not None
                and any(other.tool in WRITES and asked(other)[1] == path for other in later)
            )
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

    def _saves(self, items: Sequence[Item], requests: float) -> Decimal:
        """Money that so many requests save, less that of sending anew what stays behind."""
        prices = self.policy.prices or Prices()
        anew = (prices.cache_write or prices.input) - prices.cache_read
        stays = self._behind(items[0]) - freed(items)
        return Decimal(requests) * freed(items) * prices.cache_read - stays * anew

    def _behind(self, first: Item) -> int:
        """Letters of the view from a thing on; a message sends its results behind all else."""
        if first.kind != "result":
            return Letters().messages(self.messages[first.at :])
        own = [item for item in self.results if item.at == first.at]
        here = sum(CLEARED_TOKENS if item.pruned else item.size for item in own[own.index(first) :])
        return here + Letters().messages(self.messages[first.at + 1 :])

    def _requests(self, items: Sequence[Item]) -> float:
        """Half of the steps that have read these, by what they gathered."""
        steps = [step for step in self.steps if step >= items[0].at]
        return freed(items) / (2 * self._behind(items[0]) / max(len(steps), 1))


def _begin_of(count: int, begins: Sequence[int], messages: Sequence[Message]) -> int:
    """The index at which the newest `count` begin; all is before it if none are protected."""
    return (begins[-count] if len(begins) >= count else 0) if count else len(messages)


def freed(items: Sequence[Item], marker: int = CLEARED_TOKENS) -> int:
    """Letters that clearing these frees."""
    return sum(item.size - marker for item in items)


def has_much(part: ReasoningPart) -> bool:
    """Whether a thought is worth clearing."""
    return len(cast("str", part.pieces[0])) > LARGE


def asked(part: ToolPart) -> tuple[dict[str, Any], str | None]:
    """The arguments of a call beside a path, and the path."""
    given = cast("dict[str, Any]", json.loads(cast("str", part.input)))
    return given, given.pop("filePath", None)


@pytest.mark.parametrize("planner", sorted(PLANNERS))
def test_a_plan_is_that_of_the_plain_model(planner: str) -> None:
    """Each planner plans what its rule names, oldest first, and nothing else."""
    random, plans, kinds = Random(7), 0, set[str]()
    for _ in range(CASES):
        messages, policy = drawn(random), policy_drawn(random, planner)
        usable, inside = random.choice((None, 300, 3_000)), random.random() < 0.5
        model = PlainModel(messages, policy, usable, inside=inside)
        expected: list[Item] = getattr(model, planner.replace("-", "_"))()
        found = plan(messages, policy, usable, inside=inside)
        assert list(parts_of(found)) == [item.part.id for item in expected if item.kind != "arguments"]
        if found is not None:
            assert list(found.arguments) == [item.part.id for item in expected if item.kind == "arguments"]
            assert found.freed == freed(expected, 0 if planner == "opencode" else CLEARED_TOKENS)
            plans += 1
            kinds |= {item.kind for item in expected}
    assert plans > CASES / 10
    assert kinds == ({"result"} if planner == "opencode" else {"result", "arguments", "reasoning", "media"})
