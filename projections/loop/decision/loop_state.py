"""The loop's state beside the conversation: usage, outcomes of compactions, interrupts.

A projection of its own, small however long the history is.  Usage events survive a rollback, but
the usage of a rolled-back step says nothing of the window: only steps of the effective history
count.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from eventlog import events as ev
from eventlog.codec.batch import Batch
from eventlog.codec.deltas import DeltaRun
from eventlog.history.seen import has_seen
from eventlog.session.failure import is_crash
from eventlog.session.outcome import GOES_ON
from eventlog.streams.refusals import MEDIA
from eventlog.values import MessageError, Subtask, Tool
from projections.loop.decision.refusing_targets import RefusingTarget, note_refusal, target_of
from projections.loop.tasks.task_calls import TASK
from projections.replay.canonical import pack, unpack
from projections.replay.projection import apply_each
from projections.tokens.calibration import Calibration
from projections.window.policy.limits import step_total

__all__ = [
    "NOTHING",
    "UNCOUNTED",
    "LatestAnswer",
    "LoopState",
    "LoopStateProjection",
    "StepUsage",
    "TrailEntry",
    "UndoableChange",
]

TRAIL = 32
"""Newest marks, and changes, that are kept."""
OPEN = 8
"""Newest assistant messages whose usage may still come."""
NOTHING = "nothing to compact"
"""How a compaction ends that found nothing to summarise: asking again cannot help."""
UNCOUNTED = ("interrupted", "taken over", "aborted", "undone", "rolled back")
"""How a compaction may end that says nothing about whether compacting helps."""


class StepUsage(msgspec.Struct, array_like=True, frozen=True):
    """The usage of the newest finished step."""

    version: int
    message: str
    tokens: int


class TrailEntry(msgspec.Struct, array_like=True, frozen=True):
    """A step with its tokens (0: none reported), or a compaction and its outcome."""

    kind: Literal["step", "completed", "failed"]
    version: int
    tokens: int = 0
    auto: bool = False
    reason: str = ""


class UndoableChange(msgspec.Struct, array_like=True, frozen=True):
    """A prune or compaction that can be undone: the cleared parts, or the compaction's part."""

    kind: Literal["prune", "compaction"]
    version: int
    parts: tuple[str, ...]


class PendingUsage(msgspec.Struct, array_like=True):
    """An assistant message whose usage may still come."""

    message: str
    summary: bool
    model: str = ""
    counted: int | None = None


class LatestAnswer(msgspec.Struct, array_like=True):
    """The newest assistant message that is no summary, known also when a compaction covers it."""

    message: str
    place: int
    reply_to: str | None = None
    calls: bool = False
    """Whether it called a tool that the program runs."""
    reason: str | None = None
    error: MessageError | None = None
    seen: int | None = None
    ended: int = 0
    """Version at which it ended; 0: it is open."""
    target: str = ""
    """Its model, as "provider/model"."""

    def has_seen(self, place: int) -> bool:
        """Whether it has seen the message at `place`."""
        return has_seen(self.place, self.seen, place)

    @property
    def is_refused(self) -> bool:
        """Whether its request was refused for its size."""
        return self.error is not None and self.error.name == "overflow"

    @property
    def goes_on(self) -> bool:
        """Whether the model is to be called again after it: for its results, or after a crash."""
        return is_crash(self.error) or (self.error is None and (self.reason in GOES_ON or self.calls))


class LoopState(msgspec.Struct, array_like=True):
    """The state."""

    last_step: StepUsage | None = None
    """The latest finished step since the compaction in force, if there was one."""
    trail: list[TrailEntry] = msgspec.field(default_factory=list[TrailEntry])
    pending: list[PendingUsage] = msgspec.field(default_factory=list[PendingUsage])
    requested: dict[str, bool] = msgspec.field(default_factory=dict[str, bool])
    """Compactions that have not ended, and whether they are automatic."""
    changes: list[UndoableChange] = msgspec.field(default_factory=list[UndoableChange])
    """The newest prunes and compactions in force, oldest first."""
    interrupted: int = 0
    """Version of the newest interrupt request."""
    said: list[tuple[str, int]] = msgspec.field(default_factory=list[tuple[str, int]])
    """The newest messages of the user's or the program's, and their places: two at most.

    The name of a removed one is "".
    """
    calibration: Calibration = Calibration()
    answer: LatestAnswer | None = None
    steps: int = 0
    """Model calls since a user last said something, also those that a compaction covers."""
    tasks_of: str = ""
    """The newest message with a subtask."""
    tasks_done: int = 0
    """Subtasks carried out since."""
    tasks_open: list[str] = msgspec.field(default_factory=list[str])
    """Parts of `task` calls without a result, or interrupted ones, whose result may come late."""
    acted: int = 0
    """Version of the user's newest action, beside messages, after which a request may fit.

    Other settings, another system prompt or other tools, a removal, a pin that is gone, a rollback.
    """

    media_replaced: int = 0
    """Version of the newest replacement of media."""
    queued: int = 0
    """Version of the newest message that was queued."""
    targets: dict[str, RefusingTarget] = msgspec.field(default_factory=dict[str, RefusingTarget])
    """Models that refuse for longer than one request, by "provider/model"."""

    @property
    def said_place(self) -> int:
        """Place of the newest message of the user's or the program's, covered or not.

        Never one that a compaction left or added.
        """
        return self.said[-1][1] if self.said else 0

    @property
    def began_anew(self) -> int:
        """Version from which failed compactions are counted: of the user's newest action."""
        return max(self.acted, self.said_place, self.queued)

    def say(self, message: str, place: int) -> None:
        """The user or the program said something, or a queued message took its place."""
        self.said = [*self.said[-1:], (message, place)]

    def failed_compactions(self, usable: int | None) -> int:
        """Count automatic compactions in a row that failed or did not help, since the user acted.

        A compaction did not help if the next step was over the limit again.
        """
        count = 0
        for mark in reversed(self.trail):
            if mark.version < self.began_anew:
                break
            if mark.kind == "step":
                if usable is None or mark.tokens < usable:
                    break
            elif mark.kind == "completed" and not mark.auto:
                break
            elif mark.auto:
                count += 1
        return count

    def latest_failure(self) -> str:
        """Why the latest compaction since the user acted failed; "" if none did."""
        return next(
            (mark.reason for mark in reversed(self.trail) if mark.kind == "failed" and mark.version >= self.began_anew),
            "",
        )

    def is_out_of_date(self, refusal: LatestAnswer) -> bool:
        """Whether a refusal may not be repeated: what was refused has changed since."""
        place, error = refusal.place, refusal.error
        if error is None or error.name not in {"overflow", MEDIA}:
            return False
        if error.name == MEDIA:
            return self.media_replaced > place
        compacted = max((mark.version for mark in self.trail if mark.kind == "completed"), default=0)
        return max(self.began_anew, compacted) > place

    def add_entry(self, entry: TrailEntry) -> None:
        """Something happened."""
        self.trail.append(entry)
        del self.trail[:-TRAIL]

    def remove_restored(self, parts: set[str]) -> None:
        """These results are back."""
        left: list[UndoableChange] = []
        for change in self.changes:
            if change.kind == "prune":
                kept = tuple(part for part in change.parts if part not in parts)
                if not kept:
                    continue
                change = UndoableChange("prune", change.version, kept)  # noqa: PLW2901  # the same prune, less what is back
            left.append(change)
        self.changes = left

    def finish_task(self, part: str) -> None:
        """A call has its result: if it is one of `task`, a subtask is carried out."""
        if part in self.tasks_open:
            self.tasks_open.remove(part)
            self.tasks_done += 1

    def find(self, message: str | None) -> PendingUsage | None:
        """The assistant message, if its usage may still come."""
        return next((found for found in reversed(self.pending) if found.message == message), None)


class LoopStateProjection:
    """Builds the loop's state; a replay without checkpoints may keep more `changes`."""

    name = "agenda"
    version = 8

    def __init__(self, changes: int = TRAIL) -> None:
        """`changes`: the newest so many are kept."""
        self._most = changes

    def initial(self) -> LoopState:
        """Nothing has happened."""
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
            case ev.SettingsSet() | ev.SystemPromptSet() | ev.ToolsSet() | ev.Unpinned():
                state.acted = version
            case ev.MessageRemoved():
                state.acted = version
                if state.answer is not None and state.answer.message == event.message:
                    state.answer = None
                state.said = [("" if name == event.message else name, place) for name, place in state.said]
            case ev.PartStarted(kind=Subtask()):
                if event.message != state.tasks_of:
                    state.tasks_of, state.tasks_done = event.message, 0
            case ev.PartStarted(kind=Tool() as tool):
                self._called(state, event.message, event.part, tool)
            case ev.ToolCompleted() | ev.ToolFailed(interrupted=False):
                state.finish_task(event.part)
            case ev.StepStarted():
                state.steps += event.purpose == "turn"
                found = state.find(event.message)
                if found is not None and event.counted is not None:
                    found.counted = event.counted
            case ev.StepFinished():
                found = state.find(event.message)
                if found is not None and not found.summary:
                    state.add_entry(TrailEntry("step", version))
            case ev.UsageRecorded(failed=False, purpose="turn"):
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
                self._change(state, UndoableChange("prune", version, event.parts))
            case ev.MediaReplaced():
                state.media_replaced = version
            case ev.Restored():
                state.remove_restored(set(event.parts))
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

    def _used(self, state: LoopState, event: ev.UsageRecorded, version: int) -> None:
        found = state.find(event.message)
        if found is None or found.summary or event.message is None:
            return
        tokens = event.usage.tokens
        total = step_total(tokens)
        state.last_step = StepUsage(version, event.message, total)
        if state.trail and state.trail[-1].kind == "step" and not state.trail[-1].tokens:
            state.trail.pop()
        state.add_entry(TrailEntry("step", version, total))
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
