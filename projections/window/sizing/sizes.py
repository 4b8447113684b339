"""Sizes that planners decide by: counted tokens, or OpenCode 1.18's estimate.

The sizes of all messages sum to the count of the request, but for the few tokens that begin the
answer.  A message is counted again only when something in it changed; the count of a large text is
cached under its hash.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from posixpath import normpath
from typing import TYPE_CHECKING, TypeAlias, cast

import msgspec

from eventlog.values import Body, Content
from projections.conversation.file_access import paths_of
from projections.conversation.parts import FilePart, ReasoningPart, ToolPart
from projections.requests.ai_sdk import model_messages
from projections.tokens.counter import CharsCounter, counter_named
from projections.view.cleared_arguments import cleared_arguments
from projections.view.message_rendering import renderer_of
from projections.view.neutral import NeutralMessage, NeutralPart, Text
from projections.view.part_rendering import Resolver, text_of
from projections.view.selection import boundary_of, carryover_of, shows_question
from projections.view.token_count import ViewCounter

if TYPE_CHECKING:
    from projections.conversation.carryover import Carryover
    from projections.conversation.parts import Message, Part
    from projections.conversation.state import Conversation
    from projections.tokens.cache import CountCache
    from projections.tokens.counter import Counter
    from projections.view.options import RenderOptions

Stamp: TypeAlias = tuple[object, ...]
"""All contents of a message or part, to be compared with its later contents."""


class Sizes(ABC):
    """Sizes of what one conversation holds, each kept until what it is the size of changes.

    For one thread. `options` are those the view is rendered with: they decide what a message sends.
    """

    def __init__(self, state: Conversation, options: RenderOptions, resolve: Resolver) -> None:
        self._state = state
        self._options = options
        self._resolve = resolve
        self._messages: dict[str, tuple[Stamp, int]] = {}
        self._results: dict[str, tuple[Stamp, int]] = {}
        self._arguments: dict[str, tuple[Content, int]] = {}
        self._paths: dict[str, tuple[Content, tuple[str, ...]]] = {}
        self.ratio: float = 1.0
        """Tokens that the provider reports for one counted here."""

    def update(self, state: Conversation) -> None:
        """Continue with another state of the same conversation; sizes of equal messages stay."""
        self._state = state

    def text(self, content: Content) -> str:
        """The text behind a content."""
        return self._resolve(content)

    @abstractmethod
    def messages(self, messages: Sequence[Message]) -> int:
        """Return the tokens that these messages send; a message that sends nothing counts 0."""

    @abstractmethod
    def sent(self, message: Message) -> int:
        """Tokens that one message sends, before calibration."""

    def counted(self, part: ToolPart | ReasoningPart | FilePart) -> int:
        """Return the tokens of a result, a thought or a file, uncalibrated.

        As if it were not pruned; a result with its attachments.
        """
        if isinstance(part, ToolPart):
            stamp: Stamp = (part.result, part.attachments)
        else:
            stamp = (part.file,) if isinstance(part, FilePart) else tuple(part.pieces)
        known = self._results.get(part.id)
        if known is None or known[0] != stamp:
            known = self._results[part.id] = (stamp, self._count_part(part))
        return known[1]

    def clearing_arguments(self, part: ToolPart) -> int:
        """Return the tokens that a call has less once its arguments are cleared, uncalibrated."""
        known = self._arguments.get(part.id)
        if known is None or known[0] != part.input:
            given = self._resolve(part.input)
            left = cleared_arguments(given)
            saved = 0 if left is given else max(0, self._count_text(part.input) - self._count_text(left))
            known = self._arguments[part.id] = (part.input, saved)
        return known[1]

    def paths(self, part: ToolPart) -> tuple[str, ...]:
        """The files that a call names, without superfluous dots and slashes."""
        known = self._paths.get(part.id)
        if known is None or known[0] != part.input:
            paths = tuple(map(normpath, paths_of(part.tool, self._resolve(part.input))))
            known = self._paths[part.id] = (part.input, paths)
        return known[1]

    def evict(self) -> None:
        """Let go of the sizes of what the conversation no longer holds (after a compaction)."""
        state = self._state
        self._messages = {name: known for name, known in self._messages.items() if name in state.messages}
        self._results = {name: known for name, known in self._results.items() if name in state.where}
        self._arguments = {name: known for name, known in self._arguments.items() if name in state.where}
        self._paths = {name: known for name, known in self._paths.items() if name in state.where}

    def _units(self, message: Message) -> int:
        """The size of one message in the units that are summed."""
        question = message.user and shows_question(self._state, message, self._options)
        carried = carryover_of(self._state, message) if self._options.carry else None
        beside = (question, boundary_of(self._state, message), None if carried is None else _carried_stamp(carried))
        stamp = (beside, _message_stamp(message))
        known = self._messages.get(message.id)
        if known is None or known[0] != stamp:
            draft = renderer_of(self._state, message, self._options, self._resolve)
            units = self._count_message(draft.messages())
            # Rendering joins the pieces of texts, so what the message is made of is looked at
            # again.
            known = self._messages[message.id] = ((beside, _message_stamp(message)), units)
        return known[1]

    @abstractmethod
    def _count_message(self, sent: Sequence[NeutralMessage]) -> int:
        """The units of what one message sends."""

    @abstractmethod
    def _count_text(self, content: Content) -> int:
        """The tokens of a text."""

    @abstractmethod
    def _count_part(self, part: ToolPart | ReasoningPart | FilePart) -> int:
        """The tokens of a result with its attachments, of a thought, or of a file."""


class TokenSizes(Sizes):
    """Counted tokens, frames and attachments included, times `ratio`, which calibration sets."""

    def __init__(
        self,
        state: Conversation,
        options: RenderOptions,
        resolve: Resolver,
        counter: Counter,
        cache: CountCache | None = None,
    ) -> None:
        super().__init__(state, options, resolve)
        self._counter = ViewCounter(counter, options.model.name if options.model is not None else "", cache)

    def messages(self, messages: Sequence[Message]) -> int:
        """Return the tokens that these messages send: their sum, rounded once."""
        return round(self.ratio * sum(map(self._units, messages)))

    def sent(self, message: Message) -> int:
        """Return the tokens that one message sends, before calibration."""
        return self._units(message)

    def _count_message(self, sent: Sequence[NeutralMessage]) -> int:
        return sum(map(self._counter.message, sent))

    def _count_text(self, content: Content) -> int:
        return self._counter.content(content, self._resolve)

    def _count_part(self, part: ToolPart | ReasoningPart | FilePart) -> int:
        if isinstance(part, ReasoningPart):
            return self._count_text(text_of(part.pieces, self._resolve))
        text, files = ("", (part.file,)) if isinstance(part, FilePart) else (part.result, part.attachments)
        return self._count_text(text) + sum([self._counter.file(file.mime, self._resolve(file.url)) for file in files])


class CharsSizes(Sizes):
    """OpenCode 1.18's estimate: a quarter of the UTF-16 units, halves rounded up.

    Messages are measured as the JSON array of their `ModelMessage` form, media and marks included;
    a result as its stored output alone, without its attachments.
    """

    def messages(self, messages: Sequence[Message]) -> int:
        """A quarter of the UTF-16 units of the messages' JSON array."""
        units = [found for found in map(self._units, messages) if found]
        commas = max(len(units) - 1, 0)
        return (sum(units) + commas + len("[]") + 2) // 4

    def sent(self, message: Message) -> int:
        """A quarter of the UTF-16 units of one message in an array; they are never calibrated."""
        return self.messages([message])

    def _count_message(self, sent: Sequence[NeutralMessage]) -> int:
        """UTF-16 units of the JSON between the brackets; 0 if nothing is sent."""
        filled, added = _filled(sent)
        made = model_messages(filled)
        return _utf16(msgspec.json.encode(made)) - len("[]") - added if made else 0

    def _count_text(self, content: Content) -> int:
        if isinstance(content, Body) and content.size == content.characters:  # ASCII: nothing need be read
            return (content.size + 2) // 4
        return CharsCounter().count(self._resolve(content))

    def _count_part(self, part: ToolPart | ReasoningPart | FilePart) -> int:
        if isinstance(part, ReasoningPart):
            return self._count_text(text_of(part.pieces, self._resolve))
        return self._count_text(part.file.url if isinstance(part, FilePart) else part.result)


def sizes_named(
    counter: str,
    state: Conversation,
    options: RenderOptions,
    resolve: Resolver,
    cache: CountCache | None = None,
) -> Sizes:
    """Return the sizes for a resolved counter: an encoding, or "chars/4".

    Raises `NotFoundError` for another name. OpenCode's estimate is never calibrated.
    """
    if counter == CharsCounter.name:
        return CharsSizes(state, options, resolve)
    return TokenSizes(state, options, resolve, counter_named(counter), cache)


# -- helpers -----------------------------------------------------------------------------------


def _message_stamp(message: Message) -> Stamp:
    return (
        message.removed,
        message.covered,
        message.model,
        message.finished,
        message.error,
        *map(_part_stamp, message.parts),
    )


def _carried_stamp(carried: Carryover) -> Stamp:
    return (carried.todos, carried.touches, *map(msgspec.structs.astuple, carried.pins))


def _part_stamp(part: Part) -> Stamp:
    """Return all fields, growing texts as they are now; comparing equal strings is cheap."""
    fields: Iterable[object] = msgspec.structs.astuple(part)
    return tuple(tuple(cast("list[object]", field)) if isinstance(field, list) else field for field in fields)


def _filled(sent: Sequence[NeutralMessage]) -> tuple[list[NeutralMessage], int]:
    """Replace empty texts by a blank, because OpenCode sends them; return their number, too."""
    found: list[NeutralMessage] = []
    added = 0
    for message in sent:
        parts: list[NeutralPart] = []
        for part in message.parts:
            added += isinstance(part, Text) and not part.text
            parts.append(Text(" ", part.metadata) if isinstance(part, Text) and not part.text else part)
        found.append(NeutralMessage(message.role, tuple(parts), message.source))
    return found, added


def _utf16(data: bytes) -> int:
    """UTF-16 units of a text given as UTF-8."""
    if data.isascii():
        return len(data)
    return len(data.decode().encode("utf-16-le")) // 2
