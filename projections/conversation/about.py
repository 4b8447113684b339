"""Kinds of events by their subject: one message, or one part."""

from __future__ import annotations

from eventlog import events as ev

OF_MESSAGE: frozenset[type[ev.Base]] = frozenset(
    (
        ev.PartStarted,
        ev.StepStarted,
        ev.StepFinished,
        ev.MessageFinished,
        ev.MessagePromoted,
        ev.MessageRemoved,
        ev.CompactionRequested,
    )
)
"""Events about a message (`event.message`) that has begun."""
OF_PART: frozenset[type[ev.Base]] = frozenset(
    (
        ev.PartDelta,
        ev.PartEnded,
        ev.PartEdited,
        ev.PartRemoved,
        ev.PartRedacted,
        ev.ToolRunning,
        ev.ToolProgress,
        ev.ToolCompleted,
        ev.ToolFailed,
        ev.CallAsked,
        ev.CallAnswered,
    )
)
"""Events about a part (`event.part`), beside its media and its compaction."""
