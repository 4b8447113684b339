"""The outline of a view: its messages, turns, steps and results, and queued messages.

Kept from one step of the loop to the next: a look takes in the messages that began or changed since
the look before, and begins anew only where the view itself was rearranged (compaction, rollback,
removal, promotion). Pure, and equal to an outline made anew.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import NamedTuple

from projections.conversation.parts import Message, StepPart, ToolPart
from projections.conversation.state import Conversation
from projections.view.options import RenderOptions
from projections.view.selection import is_hidden, visible_messages

__all__ = ["Outline", "ReadCursor", "ToolResult", "is_result"]


class ToolResult(NamedTuple):
    """A completed tool's result, and where it stands: in which message, as which part."""

    message: int
    place: int
    part: ToolPart


class ReadCursor:
    """How far one reader has looked at an outline: so much of its beginning is as it was then.

    A reader sets both numbers to that of the messages once it has looked; the outline lowers them.
    """

    __slots__ = ("messages", "results")

    def __init__(self) -> None:
        self.messages = 0
        """Messages at the beginning that did not change."""
        self.results = 0
        """Messages at the beginning whose results did not change."""


class Outline:
    """The outline of one conversation as these options show it.  For one thread."""

    def __init__(self, state: Conversation, options: RenderOptions) -> None:
        self._options = options
        self._marks: list[ReadCursor] = []
        self._begin(state)

    def look(self, state: Conversation) -> None:
        """Apply recorded changes; call it before the view does, which forgets them."""
        if state is not self._state or state.reshaped or _shape(state) != self._shape:
            self._begin(state)
            return
        for message in state.added:
            self._add(message)
        for name in state.changed:
            message = state.messages[name]
            if self._kinds[name] != self._kind(message):
                self._begin(state)
                return
            self._change(message)

    def mark(self) -> ReadCursor:
        """A new reader's mark: it has looked at nothing."""
        self._marks.append(ReadCursor())
        return self._marks[-1]

    # -- what is asked -------------------------------------------------------------------------

    def open_answer(self) -> Message | None:
        """The newest answer that is not finished."""
        return max(self._open.values(), key=_place, default=None)

    def turn_answers(self) -> Iterator[Message]:
        """The answers since the user last said something, newest first."""
        for message in reversed(self.answers):
            if message.place <= self.turn_place:
                return
            yield message

    # -- helpers -------------------------------------------------------------------------------

    def _begin(self, state: Conversation) -> None:
        self._state = state
        self._shape = _shape(state)
        self._kinds: dict[str, tuple[bool, bool]] = {}
        """Of every message whether it is hidden, and whether it asks for a compaction."""
        self.messages: list[Message] = []
        """The messages of the view, in its order."""
        self.answers: list[Message] = []
        """Those that the model said, without summaries, in the order of their places."""
        self.waiting: dict[str, Message] = {}
        """Queued messages, the oldest first."""
        self.asked: Message | None = None
        """The newest message of the view that is a user's, or the program's in a user's name."""
        self.turn_place = 0
        """Place of the newest message that begins a turn."""
        self.turns: list[int] = []
        """Indexes of the messages that begin turns."""
        self.steps: list[int] = []
        """Indexes of the model calls that said something."""
        self.results: list[ToolResult] = []
        """Every result that is complete and shown, or would be if it were not pruned; oldest
        first.
        """
        self._open: dict[str, Message] = {}
        self._index: dict[str, int] = {}
        for mark in self._marks:
            mark.messages = mark.results = 0
        for message in state.messages.values():
            self._note(message)
        for message in visible_messages(state, self._options):
            self._show(message)
        self.answers.sort(key=_place)

    def _add(self, message: Message) -> None:
        """Add a message that began: it is the newest."""
        self._note(message)
        if not self._kinds[message.id][0]:
            self._show(message)

    def _note(self, message: Message) -> None:
        """Note what counts of a message wherever it is, in the view or not."""
        self._kinds[message.id] = self._kind(message)
        if message.waiting and not message.removed:
            self.waiting[message.id] = message

    def _show(self, message: Message) -> None:
        """Put a message at the end of the view."""
        index = self._index[message.id] = len(self.messages)
        self.messages.append(message)
        if message.user:
            if not self._kinds[message.id][1]:
                if self.asked is None or message.place > self.asked.place:
                    self.asked = message
                if not message.synthetic:
                    self.turns.append(index)
                    self.turn_place = max(self.turn_place, message.place)
        elif not message.summary:
            self.answers.append(message)
        self._change(message)

    def _change(self, message: Message) -> None:
        """Apply what may change of a message that stays where it is."""
        index = self._index.get(message.id)
        if index is None:
            return
        if not message.user:
            if message.finished is None and not message.summary:
                self._open[message.id] = message
            else:
                self._open.pop(message.id, None)
            self._set_step(
                index, says=any(not isinstance(part, StepPart) and not part.removed for part in message.parts)
            )
        first, end = (find(self.results, index, key=_message) for find in (bisect_left, bisect_right))
        found = [
            ToolResult(index, place, part)
            for place, part in enumerate(message.parts)
            if isinstance(part, ToolPart) and is_result(part)
        ]
        if found or first < end:
            self.results[first:end] = found
            for mark in self._marks:
                mark.results = min(mark.results, index)
        for mark in self._marks:
            mark.messages = min(mark.messages, index)

    def _set_step(self, index: int, *, says: bool) -> None:
        at = bisect_left(self.steps, index)
        known = at < len(self.steps) and self.steps[at] == index
        if says and not known:
            insort(self.steps, index)
        elif known and not says:
            del self.steps[at]

    def _kind(self, message: Message) -> tuple[bool, bool]:
        return is_hidden(self._state, message, self._options), message.user and message.is_marker


def is_result(part: ToolPart) -> bool:
    """Whether a tool has completed and its result is shown, but for pruning."""
    return part.status == "completed" and not part.removed and not part.redacted


def _shape(state: Conversation) -> tuple[int, str | None]:
    """Return what decides on summaries and their questions, beside the messages."""
    return len(state.compactions), state.in_force


def _place(message: Message) -> int:
    return message.place


def _message(result: ToolResult) -> int:
    return result.message
