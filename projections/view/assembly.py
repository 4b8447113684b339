"""The view's messages as one sequence, kept up to date at O(1) per event.

This module does what depends on neighbours: order, alternation, reminders.  Messages that will
hardly change are frozen into one list that views share; a view is that list up to a length, and a
short tail of its own (`messages.py`).  An event that changes a frozen message (a late result, a
prune mark, an edit) begins a new list, which shares every rendered message before the change.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from sys import getsizeof

from projections.conversation.parts import Message
from projections.conversation.state import Changes, Conversation
from projections.view.constraints import join
from projections.view.message_rendering import MessageRenderer, render_user_message, renderer_of
from projections.view.messages import Messages
from projections.view.neutral import Call, File, NeutralMessage, NeutralPart, Opaque, Result, Text
from projections.view.options import RenderOptions
from projections.view.part_rendering import Resolver
from projections.view.selection import is_hidden, shows_question, visible_messages

TOGETHER = 8
"""Messages that wait before finished ones are frozen, all at once."""
PATIENCE = 16
"""Most messages that wait, even if the first is open.

A message that was left open must not make all others wait.
"""
_OBJECT = 400
"""Bytes of a message or part beside its text, where it is kept and where it is rendered."""


class Assembly:
    """Follows a conversation; `view` is what the model would be sent now."""

    def __init__(self, state: Conversation, options: RenderOptions, resolve: Resolver) -> None:
        self._state = state
        self._options = options
        self._resolve = resolve
        self._joins = options.constraints.alternate or options.constraints.after_tool is not None
        """Whether what a message is depends on the one before it."""
        self._shared: list[NeutralMessage] = []
        self._frozen: list[Message] = []
        self._places: list[int] = []
        """Where in `_shared` each frozen message begins."""
        self._index: dict[str, int] = {}
        self._waiting: list[Message] = []
        self._known: dict[str, tuple[NeutralMessage, ...]] = {}
        self.size: int = 0
        """About how many bytes the rendered messages have."""
        self._tail: tuple[NeutralMessage, ...] | None = None
        """Rendered waiting messages, or None after a change to one of them."""
        self._drafts: dict[str, MessageRenderer] = {}
        """Of the assistant messages that are open and wait."""
        self._last: Message | None = None
        """The last finished step, if its turn goes on and reminders are asked for."""
        state.track_changes()

    def replace_state(self, state: Conversation) -> None:
        """Continue with another state of the same conversation; everything is rendered again."""
        self._state = state
        self._known.clear()
        self._drafts.clear()
        self.size = 0
        state.track_changes()

    def view(self, excluding: str | None = None, last_words: str | None = None) -> Messages:
        """Return the messages now; `last_words` of the assistant replace the option `max_steps`.

        `excluding` leaves out the message that is about to be filled.
        """
        if (changes := self._state.take_changes()) is not None:
            self.apply(changes)
        words = last_words or self._options.max_steps
        if self._joins or self._last is not None or excluding is not None or words is not None:
            return self._adapted(excluding, words)
        if self._tail is None:
            self._tail = tuple([found for message in self._waiting for found in self._rendered(message)])
        return Messages(self._shared, len(self._shared), self._tail)

    def apply(self, changes: Changes) -> None:
        """Take in changes of the state."""
        state = self._state
        if changes.reshaped or changes.changed:
            self._tail = None
        if changes.reshaped:
            self._shared, self._frozen, self._places, self._index = [], [], [], {}
            self._waiting = visible_messages(state, self._options)
            self._forget_rendered()
            self._drafts.clear()
        else:
            if changes.changed:
                index, last = self._index, len(self._frozen)
                cut = min([index.get(name, last) for name in changes.changed])
                if cut < last:
                    self._thaw(cut)
            self._waiting += changes.added
        if changes.changed:
            for name, parts in changes.changed.items():
                if (known := self._known.pop(name, None)) is not None:
                    self.size -= _size_of(known)
                if (draft := self._drafts.get(name)) is not None:
                    draft.touch(parts)
        if self._tail is not None:
            for message in changes.added:
                self._tail += self._rendered(message)
        self._last = self._last_finished() if self._options.reminder else None
        if len(self._waiting) > (1 if self._joins else TOGETHER):
            self._freeze()

    # -- helpers -------------------------------------------------------------------------------

    def _adapted(self, excluding: str | None, words: str | None) -> Messages:
        """Return the messages where one depends on others, is left out, or is put at the end."""
        if excluding is not None and excluding in self._index:
            self._thaw(self._index[excluding])
        tail: list[NeutralMessage] = []
        length, last = len(self._shared), self._last
        is_behind = last is not None and last.id in self._index
        for message in self._waiting:
            is_behind = is_behind or message is last
            if message.id == excluding:
                continue
            rendered = self._rendered(message)
            if rendered and is_behind and message.user and not message.synthetic:
                rendered = self._user_message(message, reminds=True)
            for found in rendered:
                length = self._append(tail, length, found)
        if words is not None:
            length = self._append(tail, length, NeutralMessage("assistant", (Text(words),)))
        return Messages(self._shared, length, tuple(tail))

    def _append(self, tail: list[NeutralMessage], length: int, message: NeutralMessage) -> int:
        """Append to the tail, joined to the message before; return the length that stays shared."""
        before = tail[-1] if tail else (self._shared[length - 1] if length else None)
        together = join(before, message, self._options.constraints)
        if before is not None and together[0] is not before:
            if tail:
                tail.pop()
            else:
                length -= 1
            tail.extend(together)
        else:
            tail.extend(together[1:] if before is not None else together)
        return length

    def _forget_rendered(self) -> None:
        """Forget messages that are gone, and those whose place a compaction decides."""
        known, self._known, self.size = self._known, {}, 0
        provided = {compaction.message for compaction in self._state.compactions.values() if compaction.is_provided}
        for message in self._state.messages.values():
            decided = message.removed or message.summary or message.is_marker or message.id in provided
            if message.id in known and not decided:
                found = self._known[message.id] = known[message.id]
                self.size += _size_of(found)

    def _thaw(self, index: int) -> None:
        """Make the frozen messages from `index` on wait again.

        Messages that were joined into one begin at the same place and go together.
        """
        self._tail = None
        place = self._places[index]
        index = bisect_left(self._places, place)
        again = self._frozen[index:]
        for message in again:
            del self._index[message.id]
        self._waiting[:0] = again
        del self._frozen[index:], self._places[index:]
        self._shared = self._shared[:place]

    def _freeze(self) -> None:
        """Move messages that will hardly change to the shared list; the newest always waits."""
        self._tail = None
        waiting, final, last = self._waiting, self._frozen, self._last
        impatient, before = len(waiting) - PATIENCE, len(final)
        count = 0
        is_behind = last is not None and last.id in self._index
        for message in waiting[:-1]:
            is_behind = is_behind or message is last
            if message.user:  # waits for as long as it is to be wrapped: what is final stays as it is
                if is_behind:
                    break
            elif message.finished is None and count >= impatient:
                break
            name = message.id
            place = len(self._shared)
            rendered = self._known.get(name) or self._rendered(message)
            if self._joins:
                place = self._join_frozen(rendered, place)
            else:
                self._shared += rendered
            self._index[name] = before + count
            final.append(message)
            self._places.append(place)
            if self._drafts:
                self._drafts.pop(name, None)
            count += 1
        del waiting[:count]

    def _join_frozen(self, rendered: Iterable[NeutralMessage], place: int) -> int:
        """Append a message to the frozen ones, joined to the one before; return where it begins."""
        for index, found in enumerate(rendered):
            tail: list[NeutralMessage] = []
            length = self._append(tail, len(self._shared), found)
            if length < len(self._shared):
                self._shared = self._shared[:length]
                place = self._reach_back(length) if index == 0 else place
            self._shared.extend(tail)
        return place

    def _reach_back(self, place: int) -> int:
        """Where the message begins whose words at `place` are joined with what follows.

        It may begin earlier, with what was put between it and a result; messages in between that
        showed nothing belong to it too.
        """
        owner = bisect_right(self._places, place) - 1
        begin = self._places[owner]
        self._places[owner:] = [begin] * (len(self._places) - owner)
        return begin

    def _last_finished(self) -> Message | None:
        """The last finished step, if its turn goes on."""
        for message in reversed(self._state.messages.values()):
            if message.finished is not None:
                return message if message.reason in {"tool-calls", "unknown"} else None
        return None

    def _rendered(self, message: Message) -> tuple[NeutralMessage, ...]:
        known = self._known.get(message.id)
        if known is None:
            known = ()
            state, options = self._state, self._options
            may_hide = state.compactions or message.removed or message.covered or message.delivery == "queue"
            if may_hide and is_hidden(state, message, options):
                pass
            elif message.user:
                known = self._user_message(message)
            else:
                known = tuple(self._draft(message).messages())
            self._known[message.id] = known
            self.size += _size_of(known)
        return known

    def _user_message(self, message: Message, *, reminds: bool = False) -> tuple[NeutralMessage, ...]:
        question = bool(self._state.compactions) and shows_question(self._state, message, self._options)
        return render_user_message(message, self._options, self._resolve, shows_question=question, reminds=reminds)

    def _draft(self, message: Message) -> MessageRenderer:
        draft = self._drafts.pop(message.id, None)
        if draft is None:
            draft = renderer_of(self._state, message, self._options, self._resolve)
        if message.finished is None:
            self._drafts[message.id] = draft
        return draft


def _size_of(messages: tuple[NeutralMessage, ...]) -> int:
    return sum([_OBJECT + sum([_OBJECT + getsizeof(_text_of(part)) for part in found.parts]) for found in messages])


def _text_of(part: NeutralPart) -> str:
    """The text of a part that may be large."""
    if isinstance(part, Result):
        return part.output if not part.files else part.output + "".join([file.url for file in part.files])
    if isinstance(part, Opaque):
        return part.data
    return part.input if isinstance(part, Call) else part.url if isinstance(part, File) else part.text
