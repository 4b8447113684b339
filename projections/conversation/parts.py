"""The data of a conversation: messages, parts and compactions with their marks.

Structs here are mutable and stored as arrays: a new field goes to the end, with a default.  Texts
are lists of pieces, because they grow; `Conversation.encode` joins them first.  None of them can be
part of a cycle, so the garbage collector need not look at them (`gc=False`).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from eventlog.history.effective_history import has_seen, seen_upto
from eventlog.session.outcome import ends_turn
from eventlog.values import (
    Agent,
    Attachment,
    Content,
    File,
    Json,
    MessageError,
    Model,
    Opaque,
    Patch,
    Retry,
    Snapshot,
    Subtask,
    target_of,
)
from projections.conversation.carryover import Carryover


class PartBase(msgspec.Struct, array_like=True, gc=False):
    """Fields of every part.  `removed`: taken out of its message; `redacted`: never shown."""

    id: str
    removed: bool = False
    redacted: bool = False


class ReplacedMedia(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """An image or document that is named instead of sent to a target ("": to any)."""

    mime: str
    name: str
    target: str = ""


class TextPart(PartBase, array_like=True, gc=False, tag="x"):
    """A text of a user or the model; `pieces` joined are the text."""

    pieces: list[Content] = msgspec.field(default_factory=list[Content])
    synthetic: bool = False
    ignored: bool = False
    metadata: Json | None = None
    ended: bool = False


class ReasoningPart(PartBase, array_like=True, gc=False, tag="r"):
    """Reasoning of the model; `metadata` is its provider's, such as a signature."""

    pieces: list[Content] = msgspec.field(default_factory=list[Content])
    metadata: Json | None = None
    ended: bool = False
    pruned: bool = False


class ToolPart(PartBase, array_like=True, gc=False, tag="t"):
    """A tool call and what came of it.  `metadata` is the call's, `details` the result's."""

    call: str = ""
    tool: str = ""
    provider_executed: bool = False
    metadata: Json | None = None
    status: Literal["pending", "asked", "allowed", "running", "completed", "failed"] = "pending"
    """"asked" and "allowed": it waits for a person, or for a loop after a person allowed it."""
    pieces: list[Content] = msgspec.field(default_factory=list[Content])
    """The input as far as it has streamed; empty once the tool runs."""
    live: list[Content] = msgspec.field(default_factory=list[Content])
    """The output as far as it has streamed; empty once the tool ended. Kept by the transcript
    only.
    """
    input: Content = ""
    output: Content | None = None
    """The output the model is to see: the preview of a truncated one."""
    full: Content | None = None
    """The whole output, when `output` is a preview."""
    error: Content | None = None
    interrupted: bool = False
    title: str = ""
    details: Json | None = None
    attachments: tuple[Attachment, ...] = ()
    pruned: bool = False
    replaced: tuple[ReplacedMedia, ...] = ()
    """Attachments that are named instead of sent."""
    arguments_pruned: bool = False
    reason: str = ""
    """Why a person was asked."""
    asked: int = 0
    """When, in UTC milliseconds."""

    @property
    def result(self) -> Content:
        """The output that the model is to see, or the error of a call that failed."""
        return (self.error if self.status == "failed" else self.output) or ""

    @property
    def waits(self) -> bool:
        """Whether it was asked and has not begun to run."""
        return self.status in {"asked", "allowed"}

    @property
    def shown_title(self) -> str:
        """The title; "" of a redacted call."""
        return "" if self.redacted else self.title


class FilePart(PartBase, array_like=True, gc=False, tag="f"):
    """A file of the user's, or of the model's."""

    file: File = msgspec.field(default_factory=lambda: File("", ""))
    replaced: tuple[ReplacedMedia, ...] = ()
    """Targets for which it is named instead of sent."""
    pruned: bool = False


class SubtaskPart(PartBase, array_like=True, gc=False, tag="s"):
    """Work given to a sub-agent."""

    subtask: Subtask = msgspec.field(default_factory=lambda: Subtask(""))


class NotePart(PartBase, array_like=True, gc=False, tag="n"):
    """A part that is never sent: a mention, a snapshot, a patch, a retry."""

    note: Agent | Snapshot | Patch | Retry = msgspec.field(default_factory=lambda: Snapshot(""))


class OpaquePart(PartBase, array_like=True, gc=False, tag="o"):
    """A compaction that the provider made; its state is in `Conversation.compactions`."""

    opaque: Opaque = msgspec.field(default_factory=lambda: Opaque("", ""))
    tokens: int | None = None
    """Tokens of the model call's output, as reported: the compaction has at most as many."""


class StepPart(PartBase, array_like=True, gc=False, tag="b"):
    """The beginning or the end of a model call."""

    begins: bool = True
    reason: str = ""
    snapshot: str | None = None


class CompactionPart(PartBase, array_like=True, gc=False, tag="c"):
    """The place of a compaction, whose state is in `Conversation.compactions`."""


Part: TypeAlias = (
    TextPart | ReasoningPart | ToolPart | FilePart | SubtaskPart | NotePart | OpaquePart | StepPart | CompactionPart
)


class Message(msgspec.Struct, array_like=True, gc=False):
    """One user or assistant message."""

    id: str
    user: bool
    version: int
    """Version of the event that began it."""
    created: int
    """UTC milliseconds."""
    parts: list[Part] = msgspec.field(default_factory=list[Part])
    agent: str = ""
    model: Model | None = None
    variant: str | None = None
    system: Content | None = None
    tools: Json | None = None
    format: Json | None = None
    synthetic: bool = False
    delivery: Literal["steer", "queue"] = "steer"
    reply_to: str | None = None
    mode: str = ""
    summary: bool = False
    finished: int | None = None
    """UTC milliseconds; None for user messages and open ones."""
    reason: str | None = None
    error: MessageError | None = None
    removed: bool = False
    covered: str | None = None
    """The compaction (its part) that covers this message.  Known to the transcript only."""
    cause: str | None = None
    """The compaction (its part) that added this message."""
    promoted: int = 0
    """Version at which a queued message took its place; 0 before, and for all others."""
    seen: int | None = None
    """`AssistantMessageStarted.seen` of a reply."""
    target: str = ""
    """Target of the newest model call that filled it, if its model does not say it."""

    @property
    def waiting(self) -> bool:
        """Whether this is a queued message that was not promoted yet."""
        return self.delivery == "queue" and not self.promoted

    @property
    def is_marker(self) -> bool:
        """Whether this is the message that asks for a compaction."""
        return any(isinstance(part, CompactionPart) for part in self.parts)

    @property
    def place(self) -> int:
        """The version that orders it among the messages of the view."""
        return self.promoted or self.version

    @property
    def calls(self) -> bool:
        """Whether it has a call of the program's tools."""
        return any(isinstance(part, ToolPart) and not (part.removed or part.provider_executed) for part in self.parts)

    @property
    def waits_for_person(self) -> bool:
        """Whether it is a finished reply with a call that was asked and has no result."""
        tools = (part for part in self.parts if isinstance(part, ToolPart) and not part.removed)
        return self.finished is not None and any(part.waits or part.status == "running" for part in tools)

    @property
    def ends_turn(self) -> bool:
        """Whether it is a reply that ends the turns of what it has seen."""
        is_over = self.finished is not None and not (self.user or self.summary or self.removed)
        return is_over and ends_turn(self.reason, self.error, calls=self.calls)

    @property
    def answers(self) -> bool:
        """Whether it is a reply that settles what it has seen: a failed one may be retried."""
        return self.ends_turn and (self.error is None or self.error.name == "aborted")

    @property
    def asked(self) -> str:
        """Target of the newest model call that filled it."""
        return self.target or target_of(self.model)

    @property
    def seen_upto(self) -> int:
        """Place up to which this reply has seen the conversation."""
        return seen_upto(self.version, self.seen)

    def has_seen(self, place: int) -> bool:
        """Whether this reply has seen the message at `place`."""
        return has_seen(self.version, self.seen, place)


class Compaction(msgspec.Struct, array_like=True, gc=False):
    """One compaction.  Only a completed one hides anything."""

    part: str
    message: str
    auto: bool = False
    overflow: bool | None = None
    status: Literal["requested", "started", "completed", "failed", "undone"] = "requested"
    through: str | None = None
    tail: str | None = None
    summary: str | None = None
    reason: str = ""
    kept: tuple[str, ...] = ()
    carried: Carryover | None = None
    target: str | None = None
    """The only target that can read it; None: it counts for all."""
    bound: int | None = None
    """Place up to which a compaction of the provider's covers; None for our own."""

    @property
    def is_provided(self) -> bool:
        """Whether the provider made it, in a reply, which is both its question and its summary."""
        return self.bound is not None


class OpaqueBoundary(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """The newest compaction that counts for one target alone: its part, message and place."""

    part: str
    message: str
    place: int
