"""The case that a prune planner decides: view, policy, sizes, and the content to clear.

One pass over the conversation's state finds it (`clearable.py`). It goes from the newest to the
oldest; `prunable` leaves out what no planner may touch: protected turns or steps, protected tools,
what is cleared already or is smaller than the marker.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import msgspec

from projections.conversation.parts import FilePart, Message, StepPart, TextPart, ToolPart
from projections.conversation.state import Conversation
from projections.view.cleared_arguments import LARGE
from projections.view.options import RenderOptions
from projections.view.selection import visible_messages
from projections.window.policy.policy import PrunePolicy
from projections.window.prune.clearable import Clearable, clearables, length_of
from projections.window.sizing.sizes import Sizes

CLEARED_TOKENS = 8
"""About what the marker in place of what is cleared costs, in any counter."""
_WORD = re.compile(r"[^\s\"'`()<>\[\]{},;|=]+")


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
        """Yield the content to choose from, newest first.

        It is not protected, not pruned, and larger than the marker. Names of tools are compared
        without case.
        """
        for found in self.clearables():
            is_protected = found.message >= self.unprotected or found.tool.casefold() in self._protected_tools
            if not (is_protected or found.pruned) and self.size(found) > CLEARED_TOKENS:
                yield found

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
        counted, room = [*found], self.protect / self.measure.ratio
        if named_last and sum(map(self.size, counted)) > room:
            named = _named_parts(counted, self.messages, self._newest_turn, self.measure)
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


def _named_parts(found: Iterable[Clearable], messages: Sequence[Message], newest_turn: int, measure: Sizes) -> set[str]:
    """Return the parts that later messages of the newest turn name: their results go last.

    The words of a user's message name a file by its path, or by the end of it ("look at auth.py
    again"), and a call by its id; so do the calls of the turn, and a call of `recall` by its part.
    A call counts for what stands before it.

    `found` are things of a view's `messages`, the newest first; `newest_turn` is an index of them.
    """
    names = _Names(measure)
    named: set[str] = set()
    end = len(messages)
    for one in found:
        while end > max(one.message + 1, newest_turn):
            end -= 1
            names.add(messages[end])
        if names.has(one):
            named.add(one.part.id)
        elif names.are_none and one.message < newest_turn:
            break
    return named


class _Names:
    """The paths and ids that some messages name."""

    def __init__(self, measure: Sizes) -> None:
        self._measure = measure
        self._names: set[str] = set()
        self._ends: set[str] = set()
        """The end of each behind its last slash."""

    @property
    def are_none(self) -> bool:
        """Whether there is no name."""
        return not self._names

    def add(self, message: Message) -> None:
        """Add the names in the texts of a user, and in the arguments of calls."""
        for part in message.parts:
            if part.removed or part.redacted:
                continue
            if isinstance(part, TextPart) and message.user:
                self._add(_words("".join(map(self._measure.text, part.pieces))))
            elif isinstance(part, ToolPart) and part.input:
                self._add(self._measure.paths(part))
                if length_of(part.input) <= LARGE:
                    self._add(_words(self._measure.text(part.input)))

    def has(self, one: Clearable) -> bool:
        """Whether a call, one of its files, or a user's file is among the names."""
        part = one.part
        if isinstance(part, FilePart):
            return part.id in self._names or (part.file.filename or "") in self._names
        if not isinstance(part, ToolPart):
            return False
        if part.id in self._names or part.call in self._names:
            return True
        return any(
            path.rpartition("/")[2] in self._ends and not self._names.isdisjoint(_ends(path))
            for path in self._measure.paths(part)
        )

    def _add(self, names: Iterable[str]) -> None:
        for name in names:
            self._names.add(name)
            self._ends.add(name.rpartition("/")[2])


def _words(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        bare = word.lstrip("@*").rstrip(".:!?*")
        if bare:
            yield posixpath.normpath(bare) if "/" in bare else bare


def _ends(path: str) -> Iterator[str]:
    """Yield the path, and each end of it that begins behind a slash."""
    yield path
    at = path.find("/")
    while at >= 0:
        yield path[at + 1 :]
        at = path.find("/", at + 1)
