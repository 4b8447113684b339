"""Builds the loop's state from events."""

from __future__ import annotations

from eventlog import events as ev
from eventlog.codec.batch import Batch
from eventlog.codec.deltas import DeltaRun
from eventlog.values import File, Opaque, Subtask, Text, Tool, target_of
from projections.loop.decision.loop_state import (
    OPEN,
    TRAIL,
    UNCOUNTED,
    LatestAnswer,
    LoopState,
    PendingUsage,
    StepUsage,
    TrailEntry,
    UndoableChange,
    note_refusal,
)
from projections.loop.task_calls import TASK
from projections.replay.canonical import pack, unpack
from projections.replay.projection import apply_each
from projections.window.policy.limits import step_total


class LoopStateProjection:
    """Builds the loop's state; keeps at most `changes` undoable changes."""

    name = "agenda"
    version = 12

    def __init__(self, changes: int = TRAIL) -> None:
        """Keep the newest `changes` prunes and compactions that can be undone."""
        self._most = changes

    def initial(self) -> LoopState:
        """Return the state of an empty session."""
        return LoopState()

    def apply(self, state: LoopState, event: ev.Event, version: int, time: int) -> LoopState:
        """Apply an event; an event without meaning for the window changes nothing."""
        del time
        match event:
            case ev.UserMessageAdded(cause=None, delivery="queue"):
                state.queued = version
            case ev.UserMessageAdded(cause=None):
                state.say(event.message, version)
                if not event.synthetic:
                    state.steps = 0
            case ev.MessagePromoted():
                state.say(event.message, version)
                state.steps = 0
                if event.message == state.tasks_of:
                    state.tasks_done = 0
            case ev.AssistantMessageStarted():
                state.pending.append(
                    PendingUsage(event.message, event.summary, "" if event.model is None else event.model.name)
                )
                del state.pending[:-OPEN]
                if not event.summary:
                    state.answer = LatestAnswer(event.message, version, event.reply_to, seen=event.seen)
                    state.answer.target = target_of(event.model)
            case ev.MessageFinished():
                answer = state.answer
                if event.error is not None and event.error.name == "overflow":
                    state.steps = max(state.steps - 1, 0)  # a request that was refused was no step
                if answer is not None and answer.message == event.message:
                    answer.reason, answer.error, answer.ended = event.reason, event.error, version
                    if event.error is not None:
                        note_refusal(state.targets, answer.target, event.error, answer.place)
            case ev.SettingsSet() | ev.SystemPromptSet() | ev.ToolsSet() | ev.Unpinned() | ev.PartEdited():
                state.acted = version
            case ev.MessageRemoved():
                state.acted = version
                if state.answer is not None and state.answer.message == event.message:
                    state.answer = None
                state.said = [("" if name == event.message else name, place) for name, place in state.said]
            case ev.PartStarted(kind=Text() | File()):
                state.say_more(event.message, event.part)
            case ev.PartStarted(kind=Subtask()):
                state.say_more(event.message, event.part)
                if event.message != state.tasks_of:
                    state.tasks_of, state.tasks_done = event.message, 0
            case ev.PartStarted(kind=Tool() as tool):
                self._called(state, event.message, event.part, tool)
            case ev.ToolCompleted() | ev.ToolFailed(interrupted=False) | ev.CallAnswered(verdict="deny" | "stop"):
                state.finish_task(event.part)
            case ev.StepStarted():
                state.steps += event.purpose == "turn"
                found = state.find(event.message)
                if found is not None and event.counted is not None:
                    found.counted = event.counted
                if event.target and state.answer is not None and state.answer.message == event.message:
                    state.answer.target = event.target
            case ev.PartStarted(kind=Opaque()):
                found = state.find(event.message)
                if found is not None:
                    found.is_compacted = True
                self._change(state, UndoableChange("provider-compaction", version, (event.part,)))
            case ev.PartRemoved():
                state.unsay(event.part)
                state.changes = [change for change in state.changes if change.parts != (event.part,)]
            case ev.StepFinished():
                found = state.find(event.message)
                if found is not None and not found.summary:
                    state.add_entry(TrailEntry("step", version))
            case ev.UsageRecorded(failed=False) if event.purpose == "turn" or event.more:
                self._used(state, event, version)
            case ev.CompactionRequested():
                state.requested[event.part] = event.auto
                state.said = [said for said in state.said if said[0] != event.message]
            case ev.CompactionCompleted():
                auto = state.requested.pop(event.part, False)
                state.last_step = None
                state.add_entry(TrailEntry("completed", version, auto=auto))
                self._change(state, UndoableChange("compaction", version, (event.part,)))
            case ev.CompactionFailed():
                auto = state.requested.get(event.part, False)
                if event.reason not in UNCOUNTED:
                    state.requested.pop(event.part, None)
                    state.add_entry(TrailEntry("failed", version, auto=auto, reason=event.reason))
            case ev.CompactionUndone():
                state.last_step = None
                state.changes = [change for change in state.changes if change.parts != (event.part,)]
            case ev.Pruned():
                self._change(state, UndoableChange("prune", version, event.parts, event.arguments))
            case ev.MediaReplaced():
                state.media_replaced = version
            case ev.Restored():
                state.remove_restored(set(event.parts), set(event.arguments))
            case ev.InterruptRequested():
                state.interrupted = version
            case ev.RolledBack():
                state.interrupted = 0  # a rollback means to go on from there
                state.acted = version
            case _:
                pass
        return state

    def _change(self, state: LoopState, change: UndoableChange) -> None:
        state.changes.append(change)
        del state.changes[: -self._most]

    def _called(self, state: LoopState, message: str, part: str, tool: Tool) -> None:
        answer = state.answer
        if answer is not None and answer.message == message and not tool.provider_executed:
            answer.calls = True
        if tool.tool == TASK and answer is not None and answer.reply_to == state.tasks_of:
            state.tasks_open.append(part)
            del state.tasks_open[:-OPEN]

    def _corrected(self, state: LoopState, message: str, more: int, version: int) -> None:
        """Add to the usage of the newest step, if it is of this message."""
        last = state.last_step
        if last is not None and last.message == message:
            state.last_step = StepUsage(version, message, last.tokens + more)
            if state.trail and state.trail[-1].kind == "step":
                state.trail.pop()
            state.add_entry(TrailEntry("step", version, last.tokens + more))

    def _used(self, state: LoopState, event: ev.UsageRecorded, version: int) -> None:
        found = state.find(event.message)
        if found is None or found.summary or event.message is None:
            return
        tokens = event.usage.tokens
        total = step_total(tokens)
        if event.more:
            self._corrected(state, event.message, total, version)
            return
        state.last_step = None if found.is_compacted else StepUsage(version, event.message, total)
        if state.trail and state.trail[-1].kind == "step" and not state.trail[-1].tokens:
            state.trail.pop()
        state.add_entry(TrailEntry("step", version, total))
        if found.is_compacted:
            found.is_compacted, found.counted = False, None
        if found.counted is not None:
            model = event.model.name if event.model is not None else found.model
            reported = tokens.input + tokens.cache_read + tokens.cache_write
            state.calibration = state.calibration.observe(model, found.counted, reported)
            found.counted = None

    def apply_run(self, state: LoopState, run: DeltaRun, version: int, time: int) -> LoopState:
        """Deltas say nothing of the window."""
        del run, version, time
        return state

    def apply_batch(self, state: LoopState, batch: Batch, version: int) -> tuple[LoopState, int]:
        """Apply all events of an append, or those before a rollback."""
        return apply_each(self, state, batch, version)

    def encode(self, state: LoopState) -> bytes:
        """The state's canonical bytes."""
        return pack(state)

    def decode(self, data: bytes) -> LoopState:
        """The state again."""
        return unpack(data, LoopState)
