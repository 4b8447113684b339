"""All events, as one closed union of frozen structs.

An event carries no session, version, position or time: those belong to its place in the log
(`Recorded` in `codec/batch.py`). Wire tags are explicit and short; fields are stored by position,
so a new field goes to the end with a default. Not here: which event is allowed when
(`state/rules.py`), and what views make of them (`projections`).
"""

from __future__ import annotations

from typing import TypeAlias

from eventlog.events.base import SCHEMA, Base
from eventlog.events.context import *
from eventlog.events.message import *
from eventlog.events.record import *
from eventlog.events.session import *

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
    | CallAsked
    | CallAnswered
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
    "CallAnswered",
    "CallAsked",
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
