"""Break a request down into tokens by kind, by tool, by message and by part.

Counted from the view part by part, so the kinds sum to the count of the whole request.  The result
holds no text of the conversation, unless the first words of messages and parts are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from operator import add
from typing import TYPE_CHECKING

import msgspec

from projections.conversation.parts import FilePart, ReasoningPart, ToolPart
from projections.tokens.counter import frame_tokens
from projections.view.carryover_text import carried_text
from projections.view.message_rendering import MessageRenderer, renderer_of
from projections.view.messages import Messages
from projections.view.neutral import NeutralMessage, NeutralPart
from projections.view.opening_words import words_of
from projections.view.part_rendering import QUESTION
from projections.view.selection import carryover_of, compaction_of, visible_messages
from projections.view.token_count import wire_messages

if TYPE_CHECKING:
    from projections.conversation.parts import Message, Part
    from projections.conversation.state import Conversation
    from projections.view.model_view import ModelView
    from projections.view.options import RenderOptions
    from projections.view.part_rendering import Resolver
    from projections.view.token_count import ViewCounter


class TokensByKind(msgspec.Struct, frozen=True):
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
    """Text carried beside the summary of a compaction: todos, pinned facts, files touched."""
    frames: int = 0
    """Tokens of the frame around each message, and of the beginning of the answer."""

    @property
    def total(self) -> int:
        """All of them: the count of the request."""
        return sum(getattr(self, name) for name in self.__struct_fields__)


class ToolSize(msgspec.Struct, frozen=True):
    """Tokens of the calls of one tool."""

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
    """Tokens of one message, frames included."""

    id: str
    role: str
    """"user", "assistant" or "summary" (a summary, or the question that it answers)."""
    tokens: int
    words: str = ""
    """The first words of it, if they are asked for."""


class PartSize(msgspec.Struct, frozen=True):
    """Tokens of one part; of a tool part: the call, its result and the attachments."""

    id: str
    message: str
    kind: str
    """"text", "reasoning", "tool", "file", "subtask" or "compaction".

    In a plan of a prune "arguments", too.
    """
    tokens: int
    tool: str = ""
    title: str = ""
    """The title that the tool gave its result."""
    pruned: bool = False
    """Whether a prune cleared something of it."""
    truncated: bool = False
    """Whether a preview stands for the output."""
    words: str = ""
    """The first words of a text, or of the arguments of a call, if they are asked for."""


class Breakdown(msgspec.Struct, frozen=True):
    """All of it; tools, messages and parts with the largest first."""

    kinds: TokensByKind
    tools: tuple[ToolSize, ...]
    messages: tuple[MessageSize, ...]
    parts: tuple[PartSize, ...]


def break_down(
    state: Conversation,
    view: ModelView,
    options: RenderOptions,
    resolve: Resolver,
    counter: ViewCounter,
    *,
    words: bool = False,
) -> Breakdown:
    """Break down a view; `state` and `options` are those that it was rendered from.

    With `words` messages and parts come with their first words.
    """
    sizer = _Sizer(state, options, resolve, counter, words=words)
    sources = {sent.source for sent in view.messages}
    shown = [message for message in visible_messages(state, options) if message.id in sources]
    parts = [
        sizer.part(message, part, draft)
        for message in shown
        for draft in (renderer_of(state, message, options, resolve),)
        for part in message.parts
    ]
    found = [size for size in parts if size is not None]
    return Breakdown(
        RunningKinds().of(state, view, options, resolve, counter),
        tuple(sorted(sizer.by_tool.values(), key=lambda tool: (-tool.tokens, tool.tool))),
        tuple(sorted(sizer.messages(view.messages), key=lambda message: -message.tokens)),
        tuple(sorted(found, key=lambda part: -part.tokens)),
    )


class RunningKinds:
    """Tokens by kind of views that follow each other; their common beginning is counted once."""

    def __init__(self) -> None:
        self._messages = Messages([])
        """The messages of the view counted last."""
        self._sums: list[tuple[int, ...]] = [(0,) * len(_KINDS)]
        """Running sums over `_messages`: by kind, with messages on the wire in place of frames."""

    def of(
        self, state: Conversation, view: ModelView, options: RenderOptions, resolve: Resolver, counter: ViewCounter
    ) -> TokensByKind:
        """The tokens of a view, as `break_down` has them."""
        sizer = _Sizer(state, options, resolve, counter)
        messages = view.messages
        del self._sums[messages.common(self._messages) + 1 :]
        for message in messages.since(len(self._sums) - 1):
            found = sizer.kinds_of(message)
            found["frames"] = wire_messages(message)
            self._sums.append(tuple(map(add, self._sums[-1], map(found.get, _KINDS, repeat(0)))))
        self._messages = messages
        return sizer.whole(dict(zip(_KINDS, self._sums[-1], strict=True)), view)


_KINDS = TokensByKind.__struct_fields__


class _Sizer:
    """Counts pieces of one view."""

    def __init__(
        self,
        state: Conversation,
        options: RenderOptions,
        resolve: Resolver,
        counter: ViewCounter,
        *,
        words: bool = False,
    ) -> None:
        self._words: Callable[[Iterable[NeutralPart]], str] = words_of if words else lambda _: ""
        self._state = state
        self._options = options
        self._resolve = resolve
        self._counter = counter
        self.by_tool: dict[str, ToolSize] = {}

    # -- kinds ---------------------------------------------------------------------------------

    def kinds_of(self, message: NeutralMessage) -> dict[str, int]:
        """The tokens of one message by kind, without frames."""
        sums: dict[str, int] = {}
        source = self._state.messages.get(message.source)
        carried = self._carried(source)
        for part in message.parts:
            for content, tokens in self._counter.by_kind(part):
                kind = self._kind_of_text(message, source, part, carried) if content == "text" else content
                sums[kind] = sums.get(kind, 0) + tokens
        return sums

    def whole(self, sums: dict[str, int], view: ModelView) -> TokensByKind:
        """The tokens of a request: sums over its messages, with their number as its frames."""
        others = len(view.system) + bool(view.tools) + bool(view.format)
        return TokensByKind(
            **sums
            | {
                "system": sum(map(self._counter.text, view.system)),
                "tools": sum(map(self._counter.text, filter(None, (view.tools, view.format)))),
                "frames": frame_tokens(sums["frames"] + others),
            }
        )

    def _kind_of_text(
        self, message: NeutralMessage, source: Message | None, part: NeutralPart, carried: str | None
    ) -> str:
        text = getattr(part, "text", "")
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
        carried = carryover_of(self._state, message)
        return None if carried is None else carried_text(carried, self._resolve)

    # -- messages and parts --------------------------------------------------------------------

    def messages(self, sent: Iterable[NeutralMessage]) -> list[MessageSize]:
        """The sizes of the messages, in the order of the view."""
        sizes: dict[str, int] = {}
        words: dict[str, str] = {}
        for message in sent:
            sizes[message.source] = sizes.get(message.source, 0) + self._counter.message(message)
            words[message.source] = words.get(message.source) or self._words(message.parts)
        return [MessageSize(name, self._role(name), size, words[name]) for name, size in sizes.items()]

    def _role(self, name: str) -> str:
        message = self._state.messages.get(name)
        if message is None:
            return "assistant"
        if compaction_of(self._state, message) is not None:
            return "summary"
        return "user" if message.user else "assistant"

    def part(self, message: Message, part: Part, draft: MessageRenderer) -> PartSize | None:
        """The size of a part; None if it says nothing."""
        rendered = draft.rendered(part)
        said = (*rendered.said, *rendered.results, *rendered.media)
        if not said:
            return None
        sums: dict[str, int] = {}
        for content, tokens in (counted for piece in said for counted in self._counter.by_kind(piece)):
            sums[content] = sums.get(content, 0) + tokens
        kind, tokens = kind_of_part(part), sum(sums.values())
        if not isinstance(part, ToolPart):
            is_cleared = isinstance(part, (ReasoningPart, FilePart)) and part.pruned
            return PartSize(part.id, message.id, kind, tokens, pruned=is_cleared, words=self._words(said))
        self._add(part, sums)
        cleared = (part.pruned or part.arguments_pruned, part.full is not None)
        return PartSize(
            part.id, message.id, kind, tokens, part.tool, part.shown_title, *cleared, words=self._words(said)
        )

    def _add(self, part: ToolPart, sums: dict[str, int]) -> None:
        """Add a call to the sums of its tool."""
        known = self.by_tool.get(part.tool) or ToolSize(part.tool, 0, 0, 0, 0, 0)
        self.by_tool[part.tool] = ToolSize(
            part.tool,
            known.calls + 1,
            known.pruned + part.pruned,
            known.input + sums.get("calls", 0),
            known.results + sums.get("results", 0),
            known.attachments + sums.get("attachments", 0) + sums.get("text", 0),
        )


def kind_of_part(part: Part) -> str:
    """The kind of a part in a word."""
    return type(part).__name__.removesuffix("Part").lower()
