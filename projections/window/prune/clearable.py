"""Content that a prune may clear: results, arguments, thoughts and media of the user.

Left alone under every policy: calls that did not end; thoughts that carry their provider's
state, or that their provider wants back; thoughts and media of the newest turn; and in it
arguments whose call carries an id or a signature.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from eventlog.values import Body, Content, Model
from projections.conversation.parts import FilePart, Message, ReasoningPart, ToolPart
from projections.requests.servers import SERVERS
from projections.view.cleared_arguments import LARGE
from projections.view.options import RenderOptions
from projections.view.part_rendering import is_sent
from projections.window.policy.policy import PrunePolicy

ClearableKind: TypeAlias = Literal["result", "arguments", "reasoning", "media"]

_WANTED_BACK = tuple(name for name, rules in SERVERS.items() if rules.no_reasoning)
"""Servers that refuse an answer whose reasoning is missing."""


class Clearable(NamedTuple):
    """A result, arguments, a thought or a file that a prune may clear, and its place."""

    message: int
    """Index of its message in the view."""
    place: int
    """Index of its part in the message."""
    part: ToolPart | ReasoningPart | FilePart
    kind: ClearableKind = "result"

    @property
    def tool(self) -> str:
        """The tool of a call, "" for a thought or a file."""
        return self.part.tool if isinstance(self.part, ToolPart) else ""

    @property
    def pruned(self) -> bool:
        """Whether it is cleared already."""
        if self.kind == "arguments" and isinstance(self.part, ToolPart):
            return self.part.arguments_pruned
        return self.part.pruned


def clearables(
    messages: Sequence[Message], policy: PrunePolicy, options: RenderOptions, newest_turn: int
) -> Iterator[Clearable]:
    """Yield the content of a view's messages that may be cleared, oldest first.

    `newest_turn` is the index of the message that begins the newest turn.
    """
    for index, message in enumerate(messages):
        is_old = index < newest_turn
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolPart):
                if policy.arguments and _has_large_arguments(part) and (is_old or part.metadata is None):
                    yield Clearable(index, place, part, "arguments")
                if is_result(part):
                    yield Clearable(index, place, part)
            elif isinstance(part, ReasoningPart):
                if policy.reasoning and is_old and _is_spare(part, options.model or message.model):
                    yield Clearable(index, place, part, "reasoning")
            elif policy.media and is_old and is_sent(part, message, options):
                yield Clearable(index, place, part, "media")


def is_result(part: ToolPart) -> bool:
    """Whether a tool has ended and its result, or its error, is shown, but for pruning."""
    return part.status in {"completed", "failed"} and not part.removed and not part.redacted


def _has_large_arguments(part: ToolPart) -> bool:
    """Whether a call of the program has ended, and its arguments may have a large text."""
    return is_result(part) and not part.provider_executed and length_of(part.input) > LARGE


def length_of(content: Content) -> int:
    """Return the characters of a text, without reading it."""
    return content.characters if isinstance(content, Body) else len(content)


def _is_spare(part: ReasoningPart, model: Model | None) -> bool:
    """Whether no provider wants a large thought back: it has no state, its model does without."""
    if part.metadata is not None or part.removed or part.redacted or sum(map(length_of, part.pieces)) <= LARGE:
        return False
    name = "" if model is None else str(model).lower()
    return not any(server in name for server in _WANTED_BACK)
