"""Events of messages: their parts, tool calls, steps and usage."""

from __future__ import annotations

from typing import Literal

from eventlog.events.base import Base
from eventlog.values import Attachment, Content, Json, MessageError, Model, PartKind, Truncation, Usage

__all__ = [
    "AssistantMessageStarted",
    "CallAnswered",
    "CallAsked",
    "MessageFinished",
    "MessagePromoted",
    "MessageRemoved",
    "PartDelta",
    "PartEdited",
    "PartEnded",
    "PartRemoved",
    "PartStarted",
    "StepFinished",
    "StepStarted",
    "ToolCompleted",
    "ToolFailed",
    "ToolProgress",
    "ToolRunning",
    "UsageRecorded",
    "UserMessageAdded",
]

# -- message -------------------------------------------------------------------------------------


class UserMessageAdded(Base, frozen=True, array_like=True, tag="mu"):
    """A user message; its parts follow in the same append, complete at birth."""

    message: str
    agent: str = ""
    model: Model | None = None
    variant: str | None = None
    system: Content | None = None
    tools: Json | None = None
    """The tools switched on or off for this message: a JSON object of booleans, by name."""
    format: Json | None = None
    """The output format asked for, as JSON."""
    synthetic: bool = False
    delivery: Literal["steer", "queue"] = "steer"
    """"queue": it waits, unseen by the model, until it is promoted."""
    cause: str | None = None
    """The compaction (its part) that added this message.

    Undoing the compaction removes the message unless it was answered.
    """


class MessagePromoted(Base, frozen=True, array_like=True, tag="mp"):
    """A user message takes its place in the conversation, here.

    A queued one, or one before others that no reply has seen.
    """

    message: str


class AssistantMessageStarted(Base, frozen=True, array_like=True, tag="ma"):
    """An assistant message begins.  `summary` marks a compaction's summary."""

    message: str
    reply_to: str | None = None
    agent: str = ""
    mode: str = ""
    model: Model | None = None
    variant: str | None = None
    cwd: str | None = None
    root: str | None = None
    summary: bool = False
    seen: int | None = None
    """The history up to this version was sent to the model; it is on the path of the reply.

    None (imports, records): all that stands before the reply. It says which user messages the reply
    answers; `reply_to` does not.
    """


class MessageFinished(Base, frozen=True, array_like=True, tag="mf"):
    """The assistant message is closed.  `reason` None: it ended without the model saying why."""

    message: str
    reason: str | None = None
    error: MessageError | None = None


class MessageRemoved(Base, frozen=True, array_like=True, tag="mr"):
    """The message is no longer part of the conversation (its events stay)."""

    message: str


# -- part ----------------------------------------------------------------------------------------


class PartStarted(Base, frozen=True, array_like=True, tag="ps"):
    """A part of a message begins.  Parts of user messages are complete, others open."""

    message: str
    part: str
    kind: PartKind


class PartDelta(Base, frozen=True, array_like=True, tag="pd"):
    """A piece of streamed text for one field of an open part.

    `field` is "text" (text and reasoning), "input" (a call's arguments), or "output" (a tool's live
    output).
    """

    part: str
    field: str
    text: str


class PartEnded(Base, frozen=True, array_like=True, tag="pe"):
    """A text or reasoning part is complete; `metadata` is the provider's."""

    part: str
    metadata: Json | None = None


class PartEdited(Base, frozen=True, array_like=True, tag="px"):
    """The text of an ended part was replaced (text and reasoning parts, a tool's output)."""

    part: str
    text: Content


class PartRemoved(Base, frozen=True, array_like=True, tag="pr"):
    """The part is no longer part of its message (its events stay)."""

    part: str


# -- tool ----------------------------------------------------------------------------------------


class ToolRunning(Base, frozen=True, array_like=True, tag="tr"):
    """The call's input is complete and the tool runs."""

    part: str
    input: Content
    """The arguments: JSON text."""
    title: str = ""
    metadata: Json | None = None


class ToolProgress(Base, frozen=True, array_like=True, tag="tp"):
    """Title and metadata that a running tool reports."""

    part: str
    title: str | None = None
    metadata: Json | None = None


class ToolCompleted(Base, frozen=True, array_like=True, tag="tc"):
    """The tool's full output.  With `truncation` the view shows its preview instead."""

    part: str
    output: Content
    truncation: Truncation | None = None
    title: str = ""
    metadata: Json | None = None
    attachments: tuple[Attachment, ...] = ()


class ToolFailed(Base, frozen=True, array_like=True, tag="tf"):
    """The tool failed, or was interrupted; `output` keeps the text printed before.

    Of an error that is too long for the view, `error` is a preview and `output` the whole.
    """

    part: str
    error: Content
    interrupted: bool = False
    output: Content | None = None
    metadata: Json | None = None


class CallAsked(Base, frozen=True, array_like=True, tag="ta"):
    """The call's input is complete, and a person is to say whether its tool may run."""

    part: str
    input: Content
    """The arguments: JSON text."""
    reason: str = ""
    salt: bytes = b""
    """Goes into both digests, so that short arguments cannot be guessed from them."""
    schema: bytes = b""
    """Salted digest of the tool's schema as it is recorded now."""
    digest: bytes = b""
    """Salted digest of tool, arguments and schema."""


class CallAnswered(Base, frozen=True, array_like=True, tag="tn"):
    """A person answered for a call that was asked; a denied one has this as its result.

    "stop": an interrupt denied it.
    """

    part: str
    asked: int
    """Version of the `CallAsked` that is answered."""
    verdict: Literal["allow", "deny", "stop"]
    by: str = ""
    reason: str = ""
    edit: Content | None = None
    """The arguments that the tool runs with instead: JSON text."""
    digest: bytes = b""
    """Salted digest of tool, arguments and schema that the answer is for."""


# -- step and usage ------------------------------------------------------------------------------


class StepStarted(Base, frozen=True, array_like=True, tag="bs"):
    """One model call begins, filling `message`; it leaves a step-start part `part`.

    `view_version` and `view_digest` say what was sent; `render` names renderer, version
    and options.
    """

    message: str
    part: str
    purpose: Literal["turn", "summary", "title"] = "turn"
    view_version: int | None = None
    view_digest: bytes | None = None
    render: Json | None = None
    snapshot: str | None = None
    counted: int | None = None
    """Tokens of the request as they were counted then, uncalibrated; calibration learns from
    them.
    """
    patch: Content | None = None
    """Changes that hooks made to the view before it was sent, as JSON.

    See `projections/window/policy/hooks.py`.
    """
    target: str = ""
    """The target that is asked (`eventlog.values.target_of`); "": the reply's model alone."""
    form: Json | None = None
    """The form that the request was sent in, with its version and options, as JSON.

    See `projections/requests/forms.py`.
    """
    body_digest: bytes | None = None
    """SHA-256 of the request in that form."""


class StepFinished(Base, frozen=True, array_like=True, tag="bf"):
    """The model call ended; it leaves a step-finish part `part`."""

    message: str
    part: str
    reason: str = ""
    snapshot: str | None = None


CORRECTION = "correction"
"""Purpose of a usage that adds to what was recorded for a call before."""


class UsageRecorded(Base, frozen=True, array_like=True, tag="us"):
    """Cost of a model call, failed calls and titles included.  Never undone.

    `step` is the step-finish part it belongs to, if any. `purpose` is "turn", "summary", "title", a
    program's word, or `CORRECTION`: then `usage` is no call, but what one had more.
    """

    usage: Usage
    message: str | None = None
    step: str | None = None
    model: Model | None = None
    purpose: str = "turn"
    failed: bool = False
    catalogue: str = ""
    """The date of the price catalogue that gave the cost; empty if it was not computed."""

    @property
    def more(self) -> bool:
        """Whether the usage adds to a call that was recorded before."""
        return self.purpose == CORRECTION
