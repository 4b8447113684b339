"""What a request is filled with: its counted tokens by kind, by tool, by message and by part.

Not the plans for making it smaller (`report.py`).  Counted from the neutral view itself, text by text, so the kinds sum to the
count of the whole request; nothing of the conversation's text is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from projections.conversation.parts import ToolPart
from projections.tokens import frame_tokens
from projections.view.carryover_text import carried_text
from projections.view.message_rendering import Draft
from projections.view.neutral import Call, File, NeutralMessage, NeutralPart, Reasoning, Result
from projections.view.part_rendering import QUESTION
from projections.view.selection import carried_with, compaction_of, ordered, shows_question
from projections.view.token_count import wire_messages

if TYPE_CHECKING:
    from projections.conversation.parts import Message, Part
    from projections.conversation.state import Conversation
    from projections.view.model_view import ModelView
    from projections.view.options import RenderOptions
    from projections.view.part_rendering import Resolver
    from projections.view.token_count import ViewCounter

__all__ = ["Breakdown", "Kinds", "MessageSize", "PartSize", "ToolSize", "break_down", "kind_of_part"]


class Kinds(msgspec.Struct, frozen=True):
    """Counted tokens by kind; they sum to the count of the request."""

    system: int = 0
    """The system prompt."""
    tools: int = 0
    """The schemas of the tools."""
    user: int = 0
    assistant: int = 0
    reasoning: int = 0
    calls: int = 0
    """Names and arguments of tool calls."""
    results: int = 0
    """Results of tools without their attachments."""
    attachments: int = 0
    """Files of the user's and of tool results."""
    summary: int = 0
    """Summaries and the questions that they answer."""
    carried: int = 0
    """What a compaction carries beside its summary: todos, pinned facts, files touched."""
    frames: int = 0
    """What a provider puts around each message, and what begins the answer."""

    @property
    def total(self) -> int:
        """All of them: the count of the request."""
        return sum(getattr(self, name) for name in self.__struct_fields__)


class ToolSize(msgspec.Struct, frozen=True):
    """What the calls of one tool take."""

    tool: str
    calls: int
    """Calls in the view."""
    pruned: int
    """Those whose results were cleared."""
    input: int
    """Tokens of names and arguments."""
    results: int
    """Tokens of results, attachments not counted."""
    attachments: int

    @property
    def tokens(self) -> int:
        """All that they take."""
        return self.input + self.results + self.attachments


class MessageSize(msgspec.Struct, frozen=True):
    """What one message takes, frames included."""

    id: str
    role: str
    """"user", "assistant" or "summary" (a summary, or the question that it answers)."""
    tokens: int


class PartSize(msgspec.Struct, frozen=True):
    """What one part takes; of a tool part: the call, its result and what is attached to that."""

    id: str
    message: str
    kind: str
    """"text", "reasoning", "tool", "file", "subtask" or "compaction"."""
    tokens: int
    tool: str = ""
    title: str = ""
    """The title that the tool gave its result."""
    pruned: bool = False
    truncated: bool = False
    """Whether a preview stands for the output."""


class Breakdown(msgspec.Struct, frozen=True):
    """All of it; tools, messages and parts with the largest first."""

    kinds: Kinds
    tools: tuple[ToolSize, ...]
    messages: tuple[MessageSize, ...]
    parts: tuple[PartSize, ...]


def break_down(
    state: Conversation, view: ModelView, options: RenderOptions, resolve: Resolver, counter: ViewCounter
) -> Breakdown:
    """Take a view apart: `state` is the conversation that it shows, `options` are those it was rendered with."""
    sizer = _Sizer(state, options, resolve, counter)
    sources = {sent.source for sent in view.messages}
    shown = [message for message in ordered(state, options) if message.id in sources]
    parts = [
        sizer.part(message, part, draft)
        for message in shown
        for draft in (sizer.draft(message),)
        for part in message.parts
    ]
    found = [size for size in parts if size is not None]
    return Breakdown(
        sizer.kinds(view),
        tuple(sorted(sizer.by_tool.values(), key=lambda tool: (-tool.tokens, tool.tool))),
        tuple(sorted(sizer.messages(view.messages), key=lambda message: -message.tokens)),
        tuple(sorted(found, key=lambda part: -part.tokens)),
    )


class _Sizer:
    """Counts pieces of one view."""

    def __init__(self, state: Conversation, options: RenderOptions, resolve: Resolver, counter: ViewCounter) -> None:
        self._state = state
        self._options = options
        self._resolve = resolve
        self._counter = counter
        self.by_tool: dict[str, ToolSize] = {}

    # -- kinds ---------------------------------------------------------------------------------

    def kinds(self, view: ModelView) -> Kinds:
        """The tokens by kind."""
        sums = dict.fromkeys(Kinds.__struct_fields__, 0)
        sums["system"] = self._texts(view.system)
        sums["tools"] = self._texts([view.tools] if view.tools else [])
        others = len(view.system) + bool(view.tools)
        sums["frames"] = frame_tokens(sum(map(wire_messages, view.messages)) + others)
        for message in view.messages:
            source = self._state.messages.get(message.source)
            carried = self._carried(source)
            for part in message.parts:
                for kind, piece in _pieces(part):
                    sums[kind or self._kind_of_text(message, source, piece, carried)] += self.tokens(piece)
        return Kinds(**sums)

    def _kind_of_text(
        self, message: NeutralMessage, source: Message | None, piece: NeutralPart, carried: str | None
    ) -> str:
        text = getattr(piece, "text", "")
        if source is None:
            return message.role
        if message.role == "user":
            if not source.user:
                return "attachments"  # the heading over media of results
            return "summary" if text == QUESTION and compaction_of(self._state, source) is not None else "user"
        if not source.summary:
            return "assistant"
        return "carried" if text == carried else "summary"

    def _carried(self, message: Message | None) -> str | None:
        if message is None or not self._options.carry:
            return None
        carried = carried_with(self._state, message)
        return None if carried is None else carried_text(carried, self._resolve)

    # -- messages and parts --------------------------------------------------------------------

    def messages(self, sent: Iterable[NeutralMessage]) -> list[MessageSize]:
        """The sizes of the messages, in the order of the view."""
        sizes: dict[str, int] = {}
        for message in sent:
            sizes[message.source] = sizes.get(message.source, 0) + self._counter.count((message,)) - frame_tokens(0)
        return [MessageSize(name, self._role(name), size) for name, size in sizes.items()]

    def _role(self, name: str) -> str:
        message = self._state.messages.get(name)
        if message is None:
            return "assistant"
        if compaction_of(self._state, message) is not None:
            return "summary"
        return "user" if message.user else "assistant"

    def draft(self, message: Message) -> Draft:
        """The message as it is rendered."""
        question = message.user and shows_question(self._state, message, self._options)
        return Draft(message, self._options, self._resolve, shows_question=question)

    def part(self, message: Message, part: Part, draft: Draft) -> PartSize | None:
        """The size of a part; None if it says nothing."""
        rendered = draft.rendered(part)
        said = (*rendered.said, *rendered.results, *rendered.media)
        if not said:
            return None
        sums: dict[str, int] = {}
        for kind, piece in (found for one in said for found in _pieces(one)):
            sums[kind] = sums.get(kind, 0) + self.tokens(piece)
        kind, tokens = kind_of_part(part), sum(sums.values())
        if not isinstance(part, ToolPart):
            return PartSize(part.id, message.id, kind, tokens)
        self._add(part, sums)
        return PartSize(part.id, message.id, kind, tokens, part.tool, part.title, part.pruned, part.full is not None)

    def _add(self, part: ToolPart, sums: dict[str, int]) -> None:
        """Put a call to the others of its tool."""
        known = self.by_tool.get(part.tool) or ToolSize(part.tool, 0, 0, 0, 0, 0)
        self.by_tool[part.tool] = ToolSize(
            part.tool,
            known.calls + 1,
            known.pruned + part.pruned,
            known.input + sums.get("calls", 0),
            known.results + sums.get("results", 0),
            known.attachments + sums.get("attachments", 0) + sums.get("", 0),
        )

    # -- counting ------------------------------------------------------------------------------

    def tokens(self, piece: NeutralPart) -> int:
        """Tokens of one piece without the frame of its message."""
        return self._counter.count((NeutralMessage("user", (piece,)),)) - frame_tokens(1)

    def _texts(self, texts: Sequence[str]) -> int:
        return self._counter.count((), texts) - frame_tokens(len(texts))


def kind_of_part(part: Part) -> str:
    """The kind of a part in a word."""
    return type(part).__name__.removesuffix("Part").lower()


def _pieces(part: NeutralPart) -> list[tuple[str, NeutralPart]]:
    """What is counted of a part by itself, each with its kind; "" for a text, whose kind its message tells."""
    match part:
        case Result():
            output = msgspec.structs.replace(part, files=())
            return [("results", output), *(("attachments", file) for file in part.files)]
        case Call():
            return [("calls", part)]
        case File():
            return [("attachments", part)]
        case Reasoning():
            return [("reasoning", part)]
        case _:
            return [("", part)]
