"""The state of a conversation: messages, parts and marks, at O(1) for each event.

`apply.py` has the effect of each event, `view/selection.py` says what the model sees.  The
transcript keeps everything (`whole`). The model view evicts the messages that a completed
compaction covers, so its state has the size of the view, however long the history is.  An evicted
message cannot come back by applying an event: `NeedsReplay` makes the replay loop start from an
earlier point.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from eventlog.codec.deltas import DeltaRun
from eventlog.events import PartDelta
from eventlog.values import Content, Json, Limits, Model, Todo
from projections.conversation.carryover import TOUCHES, Carryover, FileTouch, Pin
from projections.conversation.parts import (
    Compaction,
    Message,
    OpaqueBoundary,
    Part,
    ReasoningPart,
    TextPart,
    ToolPart,
)
from projections.conversation.text_pieces import join_part, texts_of
from projections.replay.canonical import pack, unpack


class Changes(NamedTuple):
    """Changes of a conversation since its readers looked last."""

    changed: dict[str, set[str]]
    """The messages that changed, and which of their parts."""
    added: list[Message]
    """The messages that began, the newest last."""
    reshaped: bool
    """Whether to look at all messages again."""


class StoredConversation(msgspec.Struct, array_like=True):
    """A conversation as it is encoded: the attributes of `Conversation` that are its state."""

    whole: bool
    messages: list[Message]
    compactions: list[Compaction]
    in_force: str | None
    header: Content
    rest: Content
    tools: Content | None
    model: Model | None
    limits: Limits | None
    policy: Json | None
    todos: tuple[Todo, ...]
    pins: list[Pin]
    touches: list[FileTouch]
    heard: tuple[str, int] = ("", 0)
    own: str | None = None
    target: str = ""
    boundaries: dict[str, OpaqueBoundary] = {}


class Conversation:
    """The state of a conversation, with the indexes that make one more event cost O(1).

    `messages` are in order of their beginning. `changed`, `added` and `reshaped` tell a live reader
    what changed since it last looked, from `track_changes` on; they, and the indexes `where`,
    `users` and `unsettled`, are no part of the state.
    """

    def __init__(self, *, whole: bool, own: str | None = None) -> None:
        """`own` is the target whose opaque compactions count; None: none of them does."""
        self.whole: bool = whole
        self.own: str | None = own
        self.target: str = ""
        """Target of the newest model call that has ended."""
        self.boundaries: dict[str, OpaqueBoundary] = {}
        """By target, its newest opaque compaction behind the newest that counts for all."""
        self.messages: dict[str, Message] = {}
        self.compactions: dict[str, Compaction] = {}
        self.in_force: str | None = None
        """The compaction part whose summary stands for the beginning."""
        self.header: Content = ""
        self.rest: Content = ""
        self.tools: Content | None = None
        self.model: Model | None = None
        self.limits: Limits | None = None
        self.policy: Json | None = None
        self.todos: tuple[Todo, ...] = ()
        self.pins: dict[str, Pin] = {}
        self.touches: dict[object, FileTouch] = {}
        """File touches of calls, each once, the newest last."""
        self.heard: tuple[str, int] = ("", 0)
        """Of the replies that were let go and end turns the one that has seen most, and how far."""
        self.newest_place: int = 0
        """Place of the newest message that is not the model's."""
        self.where: dict[str, tuple[Message, Part]] = {}
        self.redacted: set[str] = set()
        """The parts that are here without their content: an index."""
        self.users: dict[str, Message] = {}
        """The messages of users and of the program that have their place, in order."""
        self.unsettled: dict[str, Message] = {}
        """The replies that are open and the messages that are queued, the oldest first."""
        self.asked: dict[str, ToolPart] = {}
        """The calls that were asked and have no result, by part: an index."""
        self.newest_user: Message | None = None
        """Result of `newest_user_message`; None where it is to be looked for."""
        self.split: set[str] = set()
        """The messages with a text in more than one piece."""
        self.changed: dict[str, set[str]] = {}
        """The messages that changed, and which of their parts."""
        self.added: list[Message] = []
        """The messages that began, the newest last."""
        self.reshaped: bool = True
        self.tracks_changes: bool = False
        """Whether a reader wants `changed`, `added` and `reshaped` recorded."""

    @property
    def compaction_in_force(self) -> Compaction | None:
        """The compaction that the view begins with, or None."""
        return None if self.in_force is None else self.compactions.get(self.in_force)

    # -- bytes ----------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Canonical bytes: texts are joined, so it does not matter in how many pieces they came."""
        for name in [*self.split]:
            self.join_texts(self.messages[name])
        kept = {name: getattr(self, name) for name in StoredConversation.__struct_fields__}
        for name in ("messages", "compactions", "pins", "touches"):
            kept[name] = [*kept[name].values()]
        return pack(StoredConversation(**kept))

    @classmethod
    def decode(cls, data: bytes) -> Conversation:
        """The conversation again; ValueError if the bytes are of another shape."""
        plain = unpack(data, StoredConversation)
        found = cls(whole=plain.whole)
        for name in StoredConversation.__struct_fields__:
            setattr(found, name, getattr(plain, name))
        found.messages = {message.id: message for message in plain.messages}
        found.compactions = {compaction.part: compaction for compaction in plain.compactions}
        found.pins = {pin.pin: pin for pin in plain.pins}
        found.touches = {touch.key: touch for touch in plain.touches}
        for message in plain.messages:
            found._index(message)
        found.newest_place = max((message.place for message in plain.messages if message.user), default=0)
        found.where = {part.id: (message, part) for message in plain.messages for part in message.parts}
        found.redacted = {part.id for _, part in found.where.values() if part.redacted}
        found.asked = {
            part.id: part
            for message, part in found.where.values()
            if isinstance(part, ToolPart)
            and (part.waits or (part.status == "running" and message.finished is not None))
        }
        return found

    # -- events ---------------------------------------------------------------------------------

    def track_changes(self) -> None:
        """Start to record changes, with nothing recorded yet."""
        self.tracks_changes = True
        self.reshaped = True

    def take_changes(self) -> Changes | None:
        """Return what was recorded since the last call, for every reader of this state; or None."""
        if not (self.changed or self.added or self.reshaped):
            return None
        taken = Changes(self.changed, self.added, self.reshaped)
        self.changed, self.added, self.reshaped = {}, [], False
        return taken

    def apply_run(self, run: DeltaRun) -> None:
        """Apply a whole run of deltas."""
        if len(run.keys) == 1:
            part, field = run.keys[0]
            self.append_delta(PartDelta(part, field, run.text))
            return
        for (part, field), text in run.joined().items():
            self.append_delta(PartDelta(part, field, text))

    def append_delta(self, delta: PartDelta, version: int = 0, time: int = 0) -> None:
        """Add streamed text to a field of a part; the most frequent rule, so it takes no detour."""
        del version, time
        try:
            message, grown = self.where[delta.part]
        except KeyError:  # it was let go
            return
        if grown.redacted:
            return
        if type(grown) is TextPart or type(grown) is ReasoningPart:
            pieces = grown.pieces
        elif type(grown) is ToolPart and (delta.field == "input" or self.whole):
            pieces = grown.pieces if delta.field == "input" else grown.live
        else:
            return
        text = delta.text
        if text:
            if len(pieces) == 1:
                self.split.add(message.id)
            pieces.append(text)
        if self.tracks_changes:
            self.mark_changed(message.id, delta.part)

    def mark_changed(self, message: str, *parts: str) -> None:
        """A message changed, and these of its parts."""
        if self.tracks_changes:
            self.changed.setdefault(message, set()).update(parts)

    def add_message(self, message: Message) -> None:
        """A message begins."""
        self.messages[message.id] = message
        self._index(message)
        if message.user:
            self.newest_place = message.version
        if not self.tracks_changes:
            self.newest_user = None
            return
        self.added.append(message)
        if message.user and not message.synthetic and message.delivery == "steer":
            self.newest_user = message

    def add_part(self, message: Message, part: Part) -> None:
        """A part of a message begins."""
        message.parts.append(part)
        self.where[part.id] = message, part
        if self.tracks_changes and (
            not self.added or self.added[-1] is not message
        ):  # who looks at one sees all its parts
            self.mark_changed(message.id, part.id)

    def join_texts(self, message: Message) -> None:
        """Make each text of the message one piece again."""
        self.split.discard(message.id)
        for part in message.parts:
            join_part(part)

    def finish(self, message: Message, time: int) -> None:
        """A reply ends."""
        if message.id in self.split:
            self.join_texts(message)
        message.finished = time
        self.unsettled.pop(message.id, None)
        self.mark_changed(message.id)

    def promote(self, message: Message, version: int) -> None:
        """Promote a queued message: it moves behind all others, except in the transcript."""
        message.promoted = self.newest_place = version
        self.unsettled.pop(message.id, None)
        self._index(message)
        self.newest_user = None
        self.mark_changed(message.id)
        if not self.whole:
            self.messages[message.id] = self.messages.pop(message.id)
        self.reshaped = True

    def answered_place(self) -> int:
        """Place up to which all user messages are answered or stopped: none is to be retried."""
        ended = (reply.seen_upto for reply in self.messages.values() if reply.answers)
        return max(self.heard[1], *ended, 0)

    def seen_place(self) -> int:
        """Place up to which any reply that is there has seen the user messages."""
        replies = (found for found in self.messages.values() if not (found.user or found.summary or found.removed))
        return max(self.heard[1], *(reply.seen_upto for reply in replies), 0)

    def newest_user_message(self) -> Message | None:
        """The newest message that a user wrote and the model may know."""
        if self.newest_user is None:
            self.newest_user = next(filter(is_from_user, reversed(self.messages.values())), None)
        return self.newest_user

    def add_touches(self, touches: tuple[FileTouch, ...]) -> None:
        """A call touched these files."""
        for touch in touches:
            self.touches.pop(touch.key, None)
            self.touches[touch.key] = touch
        while len(self.touches) > TOUCHES:
            del self.touches[next(iter(self.touches))]

    def to_carry(self) -> Carryover:
        """Return the carryover of a compaction that would complete now."""
        return Carryover(self.todos, tuple(map(self._pinned, self.pins.values())), tuple(self.touches.values()))

    def _pinned(self, pin: Pin) -> Pin:
        """The pin with what its part says now, or said when it was last seen."""
        found = self.where.get(pin.part or "")
        if found is None:
            return Pin(pin.pin, pin.part, pin.pieces, pin.redacted)
        return Pin(pin.pin, pin.part, texts_of(found[1]), found[1].redacted)

    def carry(self, compaction: Compaction) -> None:
        """Fix what a completed compaction carries over, before messages are evicted."""
        compaction.carried = self.to_carry() or None
        self.pins = {name: self._pinned(pin) for name, pin in self.pins.items()}

    def _index(self, message: Message) -> None:
        if message.user and not message.waiting:
            self.users[message.id] = message
        elif message.finished is None:
            self.unsettled[message.id] = message

    def forget(self, message: Message) -> None:
        """Evict a message."""
        if message.answers and message.seen_upto > self.heard[1]:
            self.heard = message.id, message.seen_upto
        del self.messages[message.id]
        self.users.pop(message.id, None)
        self.unsettled.pop(message.id, None)
        self.newest_user = None
        self.changed.pop(message.id, None)
        self.split.discard(message.id)
        for part in message.parts:
            del self.where[part.id]
            self.asked.pop(part.id, None)


def is_from_user(message: Message) -> bool:
    """Whether a user said this, and the model may know."""
    return message.user and not (message.synthetic or message.removed or message.waiting)
