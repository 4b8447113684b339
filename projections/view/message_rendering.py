"""Render one message; a part that did not change is not rendered again.

Ended parts at the beginning are also arranged for good, so one more delta of an open message costs
its own part and the other open parts.  A user's message is never open and is rendered whole.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from projections.conversation.carryover import Carryover
from projections.conversation.parts import Message, Part, ReasoningPart, StepPart, TextPart, ToolPart
from projections.conversation.state import Conversation
from projections.conversation.text_pieces import join_part
from projections.view.carryover_text import carried_text
from projections.view.constraints import constrained
from projections.view.neutral import File, NeutralMessage, NeutralPart, Result, Text
from projections.view.options import UNCONSTRAINED, RenderOptions
from projections.view.part_rendering import (
    MEDIA_HEADING,
    NOTHING,
    ForeignReasoning,
    PartRendering,
    Resolver,
    render_part,
    render_user_part,
)
from projections.view.selection import boundary_of, carryover_of, shows_question

ABORTED = "aborted"
"""Name of the error of a message that was stopped."""
REMINDER = (
    "<system-reminder>\nThe user sent the following message:\n",
    "\n\nPlease address this message and continue with your tasks.\n</system-reminder>",
)
"""Words around a message that arrived while a turn runs."""


def render_user_message(
    message: Message,
    options: RenderOptions,
    resolve: Resolver,
    *,
    shows_question: bool = False,
    reminds: bool = False,
) -> tuple[NeutralMessage, ...]:
    """A user's message: one, or nothing if it says nothing.

    `reminds` wraps each text that the user wrote as a reminder; blank ones stay as they are.
    """
    said: list[NeutralPart] = []
    for part in message.parts:
        if part.removed:
            continue
        found = render_user_part(message, part, options, resolve, shows_question=shows_question)
        if reminds and isinstance(part, TextPart) and not part.synthetic:
            found = tuple(_reminder(one) for one in found)
        said += found
    if options.constraints != UNCONSTRAINED:
        said = [*constrained(said, options.constraints)]
    return (NeutralMessage("user", tuple(said), message.id),) if said else ()


def _reminder(part: NeutralPart) -> NeutralPart:
    return Text(REMINDER[0] + part.text + REMINDER[1]) if isinstance(part, Text) and part.text.strip() else part


class _Block:
    """The output of one model call: the parts of a wire message, and the results after it."""

    def __init__(
        self, said: Iterable[NeutralPart] = (), results: Iterable[Result] = (), *, foreign: bool = False
    ) -> None:
        self.said = [*said]
        self.results = [*results]
        self.foreign = foreign
        """Whether another model's reasoning is among what was said."""


class MessageRenderer:
    """Renders one message as it grows; the owner calls `touch` for each part that changed."""

    def __init__(
        self,
        message: Message,
        options: RenderOptions,
        resolve: Resolver,
        *,
        shows_question: bool = False,
        carried: Carryover | None = None,
        boundary: str | None = None,
    ) -> None:
        """`boundary` is the part with the provider's compaction that is in force, if it is here."""
        parts = [part.id for part in message.parts] if boundary is not None else []
        self.covered: frozenset[str] = frozenset(parts[: parts.index(boundary)] if boundary is not None else parts)
        """The parts before the boundary, which show nothing."""
        self._message = message
        self._boundary = boundary
        self._carried = carried
        self._options = options
        self._resolve = resolve
        self._question = shows_question
        self._rendered: dict[str, PartRendering] = {}
        self._arranged: set[str] = set()
        """The parts at the beginning that came to an end; what they say is in the fields below."""
        self._whole: list[NeutralMessage] = []
        self._block = _Block()
        self._media: list[Text | File] = []
        self._content = False

    def touch(self, parts: Iterable[str]) -> None:
        """These parts are to be rendered again."""
        for name in parts:
            self._rendered.pop(name, None)
            if name in self._arranged:
                self._arranged, self._whole, self._block, self._media, self._content = set(), [], _Block(), [], False

    def messages(self) -> list[NeutralMessage]:
        """The neutral messages now."""
        parts = self._message.parts
        while len(self._arranged) < len(parts) and _is_over(part := parts[len(self._arranged)]):
            self._content = self._take(part, self._whole, self._media) or self._content
            self._arranged.add(part.id)
        kept, content = self._block, self._content
        whole, media = [*self._whole], [*self._media]
        self._block = _Block(kept.said, kept.results, foreign=kept.foreign)
        for part in parts[len(self._arranged) :]:
            content = self._take(part, whole, media) or content
        whole.extend(self._closed(self._block))
        self._block = kept
        if self._message.user:
            return whole
        if self._left_out(content=content):
            return []
        if self._carried is not None and whole and self._boundary is None:
            whole[-1] = replace(whole[-1], parts=(*whole[-1].parts, *self._carryover()))
        if media:
            whole.append(NeutralMessage("user", (Text(MEDIA_HEADING), *media), self._message.id))
        return whole

    def rendered(self, part: Part) -> PartRendering:
        """Return the rendering of a part by itself."""
        if part.id in self.covered:
            return NOTHING
        found = self._rendered.get(part.id)
        if found is None:
            if not self._message.user:
                join_part(part)  # or each view of a long stream would join all its pieces again
            found = self._rendered[part.id] = render_part(
                self._message,
                part,
                self._options,
                self._resolve,
                shows_compaction=self._question or part.id == self._boundary,
            )
        return found

    def is_left_out(self) -> bool:
        """Whether this message is an assistant's that the view leaves out.

        The view leaves out a failed or unfinished message that has no content for the model.
        """
        return not self._message.user and self._left_out(
            content=any(self._is_content(part, self.rendered(part)) for part in self._message.parts)
        )

    # -- helpers -------------------------------------------------------------------------------

    def _carryover(self) -> tuple[Text, ...]:
        return () if self._carried is None else (Text(carried_text(self._carried, self._resolve)),)

    def _take(self, part: Part, whole: list[NeutralMessage], media: list[Text | File]) -> bool:
        """Append a part to the neutral messages; return whether it is content."""
        found = self.rendered(part)
        if isinstance(part, StepPart) and part.begins and not part.removed:
            whole.extend(self._closed(self._block))
            self._block = _Block()
        self._block.said.extend(found.said if part.id != self._boundary else (*found.said, *self._carryover()))
        self._block.foreign = self._block.foreign or isinstance(next(iter(found.said), None), ForeignReasoning)
        self._block.results.extend(found.results)
        media.extend(found.media)
        return self._is_content(part, found)

    def _is_content(self, part: Part, found: PartRendering) -> bool:
        """Whether a part is reason enough to show a broken-off message: reasoning alone is not."""
        return bool(found.said) and not (isinstance(part, ReasoningPart) and not part.redacted)

    def _left_out(self, *, content: bool) -> bool:
        message = self._message
        if self._options.drop_failed:
            if message.error is None:
                return False
            return message.error.name != ABORTED or all(
                part.removed or isinstance(part, ReasoningPart) or (isinstance(part, StepPart) and part.begins)
                for part in message.parts
            )
        return (message.finished is None or message.error is not None) and not content

    def _closed(self, block: _Block) -> Iterable[NeutralMessage]:
        message = self._message
        if block.said:
            yield NeutralMessage("user" if message.user else "assistant", self._unseparated(block), message.id)
        if block.results:
            yield NeutralMessage("tool", tuple(block.results), message.id)

    def _unseparated(self, block: _Block) -> tuple[NeutralPart, ...]:
        """Turn another model's reasoning into plain texts.

        A separator stands between such a text and the text that follows.
        """
        said = block.said
        if not block.foreign:
            return tuple(said)
        result: list[NeutralPart] = []
        for index, part in enumerate(said):
            if isinstance(part, ForeignReasoning):
                followed = index + 1 < len(said) and isinstance(said[index + 1], Text)
                result.append(Text(part.text + self._options.reasoning_separator if followed else part.text))
            else:
                result.append(part)
        return tuple(result)


def renderer_of(state: Conversation, message: Message, options: RenderOptions, resolve: Resolver) -> MessageRenderer:
    """Return a renderer of one message as the view of this state shows it."""
    return MessageRenderer(
        message,
        options,
        resolve,
        shows_question=message.user and shows_question(state, message, options),
        carried=carryover_of(state, message) if options.carry else None,
        boundary=boundary_of(state, message),
    )


def _is_over(part: Part) -> bool:
    """Whether a part will hardly change any more."""
    match part:
        case TextPart() | ReasoningPart():
            return part.ended
        case ToolPart():
            return part.status in {"completed", "failed"}
        case _:
            return True
