"""The effect of the events of compactions; `coverage.py` has the messages they cover."""

from __future__ import annotations

from eventlog import events as ev
from projections.conversation import coverage
from projections.conversation.parts import Compaction, CompactionPart, OpaquePart
from projections.conversation.state import Conversation
from projections.conversation.tool_events import Rule

__all__ = ["COMPACTION_RULES"]


def _requested(state: Conversation, event: ev.CompactionRequested, _version: int, _time: int) -> None:
    state.compactions[event.part] = Compaction(event.part, event.message, event.auto, event.overflow)
    message = state.messages.get(event.message)
    if message is not None:
        state.add_part(message, CompactionPart(event.part))


def _started(state: Conversation, event: ev.CompactionStarted, _version: int, _time: int) -> None:
    compaction = state.compactions.get(event.part)
    if compaction is not None:
        compaction.status, compaction.through, compaction.tail = "started", event.through, event.tail
        compaction.kept = event.kept


def _completed(state: Conversation, event: ev.CompactionCompleted, _version: int, _time: int) -> None:
    compaction = state.compactions.get(event.part)
    if compaction is not None and compaction.message in state.messages:
        compaction.summary = event.summary
        coverage.complete(state, compaction)


def _failed(state: Conversation, event: ev.CompactionFailed, _version: int, _time: int) -> None:
    compaction = state.compactions.get(event.part)
    if compaction is not None:
        compaction.status, compaction.reason = "failed", event.reason
        compaction.summary = event.summary or compaction.summary
        state.reshaped = True


def _undone(state: Conversation, event: ev.CompactionUndone, _version: int, _time: int) -> None:
    coverage.undo(state, event.part)


def _used(state: Conversation, event: ev.UsageRecorded, _version: int, _time: int) -> None:
    for compaction in coverage.provided_in(state, event.message):
        part = state.where[compaction.part][1]
        if isinstance(part, OpaquePart) and part.tokens is None:
            part.tokens = event.usage.tokens.output
            state.mark_changed(compaction.message, part.id)


COMPACTION_RULES: dict[type[ev.Base], Rule] = {
    ev.CompactionRequested: _requested,
    ev.CompactionStarted: _started,
    ev.CompactionCompleted: _completed,
    ev.CompactionFailed: _failed,
    ev.CompactionUndone: _undone,
    ev.UsageRecorded: _used,
}
"""Rules by the type of the event."""
