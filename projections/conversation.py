"""The state of a conversation: messages, parts and marks, with the indexes that make one more event cost O(1).

Not what each event does to it (`folding.py`), nor the selection of what the model sees (`selection.py`), nor its form
(`rendering.py`).  The transcript keeps everything (`whole`); the model view lets go of the messages that a completed
compaction covers, so that its state has the size of the view whatever the length of the history.  What was let go cannot
come back by applying an event; `ReachesBack` tells the replay loop to fold again from an earlier point.
"""

from __future__ import annotations

import msgspec

from eventlog.deltas import DeltaRun
from eventlog.values import Content, Json, Limits, Model
from projections.parts import Compaction, Message, Part, ReasoningPart, TextPart, ToolPart
from projections.plain import pack, unpack

__all__ = ["Conversation", "ReachesBack", "join_part"]


class ReachesBack(Exception):  # noqa: N818  # not an error: control flow between the fold and the replay loop
    """The compaction `part` is undone, but the messages that it covered were let go."""

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part


class Plain(msgspec.Struct, array_like=True):
    """A conversation as it is encoded."""

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


class Conversation:
    """The state of a conversation, with the indexes that make one more event cost O(1).

    `messages` are in order of their beginning.  `touched`, `born` and `reshaped` tell a live reader what changed since it
    last looked; they are no part of the state.
    """

    __slots__ = (
        "born",
        "compactions",
        "header",
        "in_force",
        "limits",
        "messages",
        "model",
        "policy",
        "reshaped",
        "rest",
        "tools",
        "touched",
        "where",
        "whole",
    )

    def __init__(self, *, whole: bool) -> None:
        self.whole = whole
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
        self.where: dict[str, tuple[Message, Part]] = {}
        self.touched: dict[str, set[str]] = {}
        """The messages that changed, and which of their parts."""
        self.born: list[str] = []
        self.reshaped = True

    # -- bytes ----------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Canonical bytes: texts are joined, so it does not matter in how many pieces they came."""
        for message in self.messages.values():
            if message.finished is None and not message.user:
                self.join(message)
        plain = Plain(
            self.whole,
            list(self.messages.values()),
            list(self.compactions.values()),
            self.in_force,
            self.header,
            self.rest,
            self.tools,
            self.model,
            self.limits,
            self.policy,
        )
        return pack(plain)

    @classmethod
    def decode(cls, data: bytes) -> Conversation:
        """The conversation again; ValueError if the bytes are of another shape."""
        plain = unpack(data, Plain)
        found = cls(whole=plain.whole)
        found.messages = {message.id: message for message in plain.messages}
        found.compactions = {compaction.part: compaction for compaction in plain.compactions}
        found.in_force = plain.in_force
        found.header, found.rest, found.tools = plain.header, plain.rest, plain.tools
        found.model, found.limits, found.policy = plain.model, plain.limits, plain.policy
        found.where = {part.id: (message, part) for message in plain.messages for part in message.parts}
        return found

    # -- events ---------------------------------------------------------------------------------

    def apply_run(self, run: DeltaRun) -> None:
        """Take in a run of deltas, whole."""
        for (part, field), text in run.joined().items():
            self.grow(part, field, text)

    def grow(self, part: str, field: str, text: str) -> None:
        """Add streamed text to a field of a part."""
        found = self.where.get(part)
        if found is None:
            return
        message, grown = found
        if isinstance(grown, (TextPart, ReasoningPart)):
            grown.pieces.append(text)
        elif isinstance(grown, ToolPart) and self.whole:
            (grown.pieces if field == "input" else grown.live).append(text)
        self.touch(message.id, part)

    def touch(self, message: str, *parts: str) -> None:
        """A message changed, and these of its parts."""
        self.touched.setdefault(message, set()).update(parts)

    def add_message(self, message: Message) -> None:
        """A message begins."""
        self.messages[message.id] = message
        self.born.append(message.id)

    def add_part(self, message: str, part: Part) -> None:
        """A part begins; nothing if its message was let go."""
        found = self.messages.get(message)
        if found is not None:
            found.parts.append(part)
            self.where[part.id] = (found, part)
            self.touch(message, part.id)

    def join(self, message: Message) -> None:
        """Make each text of the message one piece again."""
        for part in message.parts:
            join_part(part)

    def let_go(self, compaction: Compaction) -> None:
        """Forget, or mark, every message that a completed compaction covers."""
        bound = self._bound(compaction)
        keep = {compaction.message, compaction.summary}
        for message in list(self.messages.values()):
            if message.version > bound:
                break
            if message.id in keep:
                continue
            if self.whole:
                if message.covered is None:
                    message.covered = compaction.part
                continue
            del self.messages[message.id]
            self.touched.pop(message.id, None)
            for part in message.parts:
                del self.where[part.id]
        if not self.whole:
            self.born.clear()  # who follows this state looks at all messages again
            self.compactions = {
                part: other for part, other in self.compactions.items() if other.message in self.messages
            }
        self.reshaped = True

    def _bound(self, compaction: Compaction) -> int:
        """Version of the last covered message's beginning.  An unknown tail is no tail (spec §4.1)."""
        tail = self.messages.get(compaction.tail or "")
        if tail is not None:
            return tail.version - 1
        through = self.messages.get(compaction.through or "")
        if through is not None:
            return through.version
        own = self.messages.get(compaction.message)
        return own.version - 1 if own is not None else -1

    def take_back(self, part: str) -> None:
        """A completed compaction counts no more: what it covered is there again, or `ReachesBack`."""
        compaction = self.compactions.get(part)
        if compaction is None:
            return
        if compaction.status == "completed":
            if not self.whole:
                raise ReachesBack(part)
            for message in self.messages.values():
                if message.covered == part:
                    message.covered = None
        compaction.status = "undone"
        if self.in_force == part:
            self.in_force = next(
                (other.part for other in reversed(self.compactions.values()) if other.status == "completed"), None
            )
        self.reshaped = True


def join_part(part: Part) -> None:
    """Bring the growing texts of a part into their canonical form: no two strings side by side."""
    if isinstance(part, (TextPart, ReasoningPart)):
        part.pieces[:] = joined(part.pieces)
    elif isinstance(part, ToolPart):
        part.pieces[:] = joined(part.pieces)
        part.live[:] = joined(part.live)


def joined(pieces: list[Content]) -> list[Content]:
    """The pieces with neighbouring strings made one, and empty ones left out."""
    result: list[Content] = []
    strings: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            strings.append(piece)
            continue
        if any(strings):
            result.append("".join(strings))
        strings = []
        result.append(piece)
    if any(strings):
        result.append("".join(strings))
    return result
