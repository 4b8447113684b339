"""All events, as one closed union of frozen structs.

An event carries no session, version, position or time: those belong to its place in the log
(`Recorded` in `codec/batch.py`). Wire tags are explicit and short; fields are stored by position,
so a new field goes to the end with a default. Not here: which event is allowed when
(`state/rules.py`), and what views make of them (`projections`).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from eventlog.values import (
    Attachment,
    Body,
    Content,
    Json,
    Limits,
    MessageError,
    Model,
    Origin,
    PartKind,
    Todo,
    Truncation,
    Usage,
)

SCHEMA = 4
"""Schema version that this program writes; older ones are upcast on read.

See `codec/upcast.py`.
"""


class Base(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of the events.

    Their values are in no reference cycle, so the collector need not look at them (`gc=False`).
    """


# -- session: not undone by rollback -------------------------------------------------------------


class SessionStarted(Base, frozen=True, array_like=True, tag="ss"):
    """The first event of a session that is not a fork.

    `parent` is set for a sub-agent's session.
    """

    title: str = ""
    scope: str = ""
    directory: str = ""
    agent: str = ""
    model: Model | None = None
    parent: str | None = None
    origin: Origin | None = None


class SessionForked(Base, frozen=True, array_like=True, tag="sf"):
    """The first event of a fork: it continues `parent` as that was right after version `at`.

    `parent_head` is the head of the hash tree of what it continues (`integrity/fork_anchor.py`),
    filled in when the session begins.
    """

    parent: str
    at: int
    parent_head: bytes = b""
    title: str = ""
    scope: str = ""
    origin: Origin | None = None


class SessionRenamed(Base, frozen=True, array_like=True, tag="sr"):
    """The session has a new title."""

    title: str


class SessionArchived(Base, frozen=True, array_like=True, tag="sa"):
    """The session is put away, not erased."""


class SessionUnarchived(Base, frozen=True, array_like=True, tag="su"):
    """The session is back."""


class MetadataSet(Base, frozen=True, array_like=True, tag="md"):
    """An entry of the embedder's own metadata; `value` None removes the key."""

    key: str
    value: Json | None


# -- settings ----------------------------------------------------------------------------------


class SettingsSet(Base, frozen=True, array_like=True, tag="st"):
    """Model limits and the context policy in force from here on (None: unchanged)."""

    model: Model | None = None
    limits: Limits | None = None
    policy: Json | None = None


class SystemPromptSet(Base, frozen=True, array_like=True, tag="sp"):
    """The system prompt in force: `header` stays byte-stable across turns, `rest` may change."""

    header: Content
    rest: Content = ""


class ToolsSet(Base, frozen=True, array_like=True, tag="tl"):
    """The tool schemas offered from here on: a JSON array."""

    schemas: Content


class TodosSet(Base, frozen=True, array_like=True, tag="td"):
    """The whole list of things to do, as it is now."""

    todos: tuple[Todo, ...]


class Pinned(Base, frozen=True, array_like=True, tag="pi"):
    """A fact (`text`) or a part (`part`) that compaction must carry over.  `pin` is its id."""

    pin: str
    text: Content | None = None
    part: str | None = None


class Unpinned(Base, frozen=True, array_like=True, tag="pu"):
    """The pin is gone."""

    pin: str


# -- message -----------------------------------------------------------------------------------


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


# -- part --------------------------------------------------------------------------------------


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


# -- tool --------------------------------------------------------------------------------------


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
    """The tool failed, or was interrupted; `output` keeps the text printed before."""

    part: str
    error: Content
    interrupted: bool = False
    output: Content | None = None
    metadata: Json | None = None


# -- step and usage ----------------------------------------------------------------------------


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


class StepFinished(Base, frozen=True, array_like=True, tag="bf"):
    """The model call ended; it leaves a step-finish part `part`."""

    message: str
    part: str
    reason: str = ""
    snapshot: str | None = None


class UsageRecorded(Base, frozen=True, array_like=True, tag="us"):
    """Cost of a model call, failed calls and titles included.  Never undone.

    `step` is the step-finish part it belongs to, if any.
    """

    usage: Usage
    message: str | None = None
    step: str | None = None
    model: Model | None = None
    purpose: str = "turn"
    failed: bool = False
    catalogue: str = ""
    """The date of the price catalogue that gave the cost; empty if it was not computed."""


# -- context -----------------------------------------------------------------------------------


class Pruned(Base, frozen=True, array_like=True, tag="cp"):
    """The results of these tool parts are cleared from the view; `freed` in tokens."""

    parts: tuple[str, ...]
    policy: str = ""
    freed: int = 0


class Restored(Base, frozen=True, array_like=True, tag="cr"):
    """The results of these tool parts are back in the view."""

    parts: tuple[str, ...]


class MediaReplaced(Base, frozen=True, array_like=True, tag="cm"):
    """An image or document is named in the view instead of being sent, because it was refused.

    `part` is a file, or a call in whose result it is; `mime` and `name` say which one, and are
    shown. It is so for requests to `target` ("provider/model"), or for all if that is empty.
    """

    part: str
    mime: str
    name: str
    reason: str = ""
    target: str = ""


class MediaRestored(Base, frozen=True, array_like=True, tag="cv"):
    """The images and documents of this part are sent again, to `target` or, if empty, to all."""

    part: str
    target: str = ""


class CompactionRequested(Base, frozen=True, array_like=True, tag="cq"):
    """A compaction is due.  It leaves a compaction part `part` in the user message `message`."""

    message: str
    part: str
    auto: bool = False
    overflow: bool | None = None


class CompactionStarted(Base, frozen=True, array_like=True, tag="cs"):
    """A compaction covers every message up to `through`, in order; the tail begins at `tail`.

    Both are message ids. `through` None: everything before the tail is covered, and without a tail
    everything before the compaction's own message. The messages `kept` are not covered, wherever
    they stand.
    """

    part: str
    through: str | None = None
    tail: str | None = None
    tokens_before: int | None = None
    model: Model | None = None
    prompt_digest: bytes | None = None
    kept: tuple[str, ...] = ()


class CompactionCompleted(Base, frozen=True, array_like=True, tag="cc"):
    """The summary message stands for the covered set from here on."""

    part: str
    summary: str
    tokens_after: int | None = None


class CompactionFailed(Base, frozen=True, array_like=True, tag="cf"):
    """The compaction came to nothing and hides nothing."""

    part: str
    reason: str = ""
    summary: str | None = None


class CompactionUndone(Base, frozen=True, array_like=True, tag="cu"):
    """The completed compaction no longer hides anything, and its own messages show no more."""

    part: str


class RolledBack(Base, frozen=True, array_like=True, tag="rb"):
    """The effective history is again the one right after version `to`."""

    to: int


# -- control: not undone -----------------------------------------------------------------------


class InterruptRequested(Base, frozen=True, array_like=True, tag="ir"):
    """A caller asks the running loop to stop."""

    reason: str = ""


class Settled(Base, frozen=True, array_like=True, tag="sx"):
    """A new owner closed what a dead owner left open; the closing events precede this one."""

    epoch: int
    reason: str = "interrupted"


class PartRedacted(Base, frozen=True, array_like=True, tag="rd"):
    """The part's content must not be shown any more, in any view of any version."""

    part: str
    reason: str = ""


class SessionErased(Base, frozen=True, array_like=True, tag="se"):
    """The session was erased; what follows is nothing."""

    reason: str = ""


# -- values, names, notes: not undone ------------------------------------------------------------


class ShelfStarted(Base, frozen=True, array_like=True, tag="sh"):
    """The first event of a shelf: a stream of values without a conversation."""

    name: str


class ValuePut(Base, frozen=True, array_like=True, tag="vp"):
    """A value under a key, as `text` or as `data`; the newest one counts.

    With neither its content was freed: a newer one had taken its place everywhere.
    """

    key: str
    text: Content | None = None
    data: bytes | Body | None = None


class ValueDropped(Base, frozen=True, array_like=True, tag="vd"):
    """The key has no value any more."""

    key: str


class NameGiven(Base, frozen=True, array_like=True, tag="ng"):
    """The session can be found by this name: a format and a key within it."""

    format: str
    key: str


class NameFreed(Base, frozen=True, array_like=True, tag="nf"):
    """The name is free for another session."""

    format: str
    key: str


class NoteSet(Base, frozen=True, array_like=True, tag="nt"):
    """The embedder's note in the session's catalog entry; an empty one removes it."""

    note: str


# -- records: not undone -------------------------------------------------------------------------


class RecordKept(Base, frozen=True, array_like=True, tag="rk"):
    """A record ends here: `events` before it say what it means, `rest` has what is left.

    The version of this event is the record's number. `rest` is JSON, with null in place of what
    these events have; `moved` says where that is (`records/read.py`).
    """

    format: str
    rest: Content
    events: int = 0
    moved: Content = ""


class RecordForgotten(Base, frozen=True, array_like=True, tag="rf"):
    """The events in these ranges of versions must not be shown any more, in any view.

    They are those of records, with their ends; first and last version of each range, ascending.
    """

    ranges: tuple[tuple[int, int], ...]


# -- beside the conversation -------------------------------------------------------------------


class ForeignKept(Base, frozen=True, array_like=True, tag="fk"):
    """Data of an imported record that no other event has, kept for exports.

    `of` is "session", "line:N", or the id of a message or part.
    """

    of: str
    data: Content


class Custom(Base, frozen=True, array_like=True, tag="cx"):
    """An embedder's own fact; undone by rollback like the messages around it."""

    namespace: str
    data: Json


Event: TypeAlias = (
    SessionStarted
    | SessionForked
    | SessionRenamed
    | SessionArchived
    | SessionUnarchived
    | MetadataSet
    | SettingsSet
    | SystemPromptSet
    | ToolsSet
    | TodosSet
    | Pinned
    | Unpinned
    | UserMessageAdded
    | MessagePromoted
    | AssistantMessageStarted
    | MessageFinished
    | MessageRemoved
    | PartStarted
    | PartDelta
    | PartEnded
    | PartEdited
    | PartRemoved
    | ToolRunning
    | ToolProgress
    | ToolCompleted
    | ToolFailed
    | StepStarted
    | StepFinished
    | UsageRecorded
    | Pruned
    | Restored
    | MediaReplaced
    | MediaRestored
    | CompactionRequested
    | CompactionStarted
    | CompactionCompleted
    | CompactionFailed
    | CompactionUndone
    | RolledBack
    | InterruptRequested
    | Settled
    | PartRedacted
    | SessionErased
    | ForeignKept
    | Custom
    | ShelfStarted
    | ValuePut
    | ValueDropped
    | NameGiven
    | NameFreed
    | NoteSet
    | RecordKept
    | RecordForgotten
)
"""Any event of a session."""

LASTING: tuple[type[Base], ...] = (
    SessionStarted,
    SessionForked,
    SessionRenamed,
    SessionArchived,
    SessionUnarchived,
    MetadataSet,
    UsageRecorded,
    InterruptRequested,
    Settled,
    PartRedacted,
    SessionErased,
    ForeignKept,
    ShelfStarted,
    ValuePut,
    ValueDropped,
    NameGiven,
    NameFreed,
    NoteSet,
    RecordKept,
    RecordForgotten,
)
"""Events that a rollback does not undo."""

__all__ = [
    "LASTING",
    "SCHEMA",
    "AssistantMessageStarted",
    "Base",
    "CompactionCompleted",
    "CompactionFailed",
    "CompactionRequested",
    "CompactionStarted",
    "CompactionUndone",
    "Custom",
    "Event",
    "ForeignKept",
    "InterruptRequested",
    "MediaReplaced",
    "MediaRestored",
    "MessageFinished",
    "MessagePromoted",
    "MessageRemoved",
    "MetadataSet",
    "NameFreed",
    "NameGiven",
    "NoteSet",
    "PartDelta",
    "PartEdited",
    "PartEnded",
    "PartRedacted",
    "PartRemoved",
    "PartStarted",
    "Pinned",
    "Pruned",
    "RecordForgotten",
    "RecordKept",
    "Restored",
    "RolledBack",
    "SessionArchived",
    "SessionErased",
    "SessionForked",
    "SessionRenamed",
    "SessionStarted",
    "SessionUnarchived",
    "SettingsSet",
    "Settled",
    "ShelfStarted",
    "StepFinished",
    "StepStarted",
    "SystemPromptSet",
    "TodosSet",
    "ToolCompleted",
    "ToolFailed",
    "ToolProgress",
    "ToolRunning",
    "ToolsSet",
    "Unpinned",
    "UsageRecorded",
    "UserMessageAdded",
    "ValueDropped",
    "ValuePut",
]
