"""The loop's state beside the conversation: usage, outcomes of compactions, interrupts.

A projection of its own, small however long the history is.  Usage events survive a rollback, but
the usage of a rolled-back step says nothing of the window: only steps of the effective history
count.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec

from eventlog.history.effective_history import has_seen
from eventlog.session.failure import NOT_BEFORE, is_crash
from eventlog.session.outcome import GOES_ON
from eventlog.streams.refusals import MEDIA, OPAQUE, RATE
from eventlog.validation import json_value
from eventlog.values import MessageError
from projections.tokens.calibration import Calibration

TRAIL = 32
"""Newest marks, and changes, that are kept."""
OPEN = 8
"""Newest assistant messages whose usage may still come."""
MOST = 8
"""Targets whose refusals are kept."""
NOTHING = "nothing to compact"
"""How a compaction ends that found nothing to summarise: asking again cannot help."""
ROLLED_BACK = "rolled back"
COMPACTED = "compacted meanwhile"
TOLD_CHANGED = "what it tells was changed"
"""How a summary in the background ends that says nothing of the session any more."""
UNCOUNTED = ("interrupted", "taken over", "aborted", "undone", ROLLED_BACK, COMPACTED, TOLD_CHANGED)
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

    kind: Literal["prune", "compaction", "provider-compaction"]
    """"provider-compaction": the provider compacted."""
    version: int
    parts: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    """Calls whose arguments the prune cleared."""


class PendingUsage(msgspec.Struct, array_like=True):
    """An assistant message whose usage may still come."""

    message: str
    summary: bool
    model: str = ""
    counted: int | None = None
    is_compacted: bool = False
    """Whether the provider compacted the conversation meanwhile, so that its usage tells less."""


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
    """Target of its newest model call."""

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


class RefusingTarget(msgspec.Struct, array_like=True):
    """The lasting refusals of a target."""

    not_before: int = 0
    """Time (UTC milliseconds) before which it is not asked: it refused for its rate."""
    state_from: int = 0
    """Place of the newest reply for which it refused its own state; earlier state is not sent."""
    state_before: int = 0
    """Place of the reply before it that was refused so."""


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

    The name of a removed one is "", and of one whose parts were all removed.
    """
    parts: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Texts, files and subtasks of these messages: each part and its message."""
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
    """Targets that refuse for longer than one request."""

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
        names = {name for name, _ in self.said}
        self.parts = {part: of for part, of in self.parts.items() if of in names}

    def say_more(self, message: str, part: str) -> None:
        """A message has a part that a model can see; only those of the newest messages count."""
        if any(name == message for name, _ in self.said):
            self.parts[part] = message

    def unsay(self, part: str) -> None:
        """A part was removed."""
        message = self.parts.pop(part, None)
        if message is not None and message not in self.parts.values():
            self.said = [("" if name == message else name, place) for name, place in self.said]

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
        """Why the latest automatic compaction since the user acted failed; "" if none did."""
        failed = (mark for mark in reversed(self.trail) if mark.kind == "failed" and mark.auto)
        return next((mark.reason for mark in failed if mark.version >= self.began_anew), "")

    def is_out_of_date(self, refusal: LatestAnswer) -> bool:
        """Whether a refusal may not be repeated: what was refused has changed since."""
        place, error = refusal.place, refusal.error
        if error is None or error.name not in {"overflow", MEDIA}:
            return False
        if error.name == MEDIA:
            return self.media_replaced > place
        compacted = max((mark.version for mark in self.trail if mark.kind == "completed"), default=0)
        return max(self.began_anew, compacted, self.media_replaced) > place

    def add_entry(self, entry: TrailEntry) -> None:
        """Something happened."""
        self.trail.append(entry)
        del self.trail[:-TRAIL]

    def remove_restored(self, parts: set[str], arguments: set[str]) -> None:
        """These parts are back, and the arguments of these calls."""
        left: list[UndoableChange] = []
        for change in self.changes:
            if change.kind == "prune":
                kept = tuple(part for part in change.parts if part not in parts)
                calls = tuple(part for part in change.arguments if part not in arguments)
                if not (kept or calls):
                    continue
                change = UndoableChange("prune", change.version, kept, calls)  # noqa: PLW2901  # the same prune, less what is back
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


def refusing(targets: dict[str, RefusingTarget], target: str) -> RefusingTarget:
    """Return the refusals of a target; for "", of the newest that refused."""
    newest = next(reversed(targets.values()), None)
    return targets.get(target) or (newest if not target else None) or RefusingTarget()


def note_refusal(targets: dict[str, RefusingTarget], target: str, error: MessageError, place: int) -> None:
    """Keep what the refusal `error` of the reply at `place` says for later requests."""
    if error.name not in {OPAQUE, RATE}:
        return
    found = targets[target] = targets.pop(target, RefusingTarget())
    if error.name == RATE:
        found.not_before = number_in(error, NOT_BEFORE) or 0
    else:
        found.state_before, found.state_from = found.state_from, place
    while len(targets) > MOST:
        del targets[next(iter(targets))]


def number_in(error: MessageError, name: str) -> int | None:
    """Return the number of this name in the data of an error; None without one."""
    try:
        data = json_value(error.data or "{}")
    except ValueError:  # of another program
        return None
    found = cast("dict[str, Any]", data).get(name) if isinstance(data, dict) else None
    return found if isinstance(found, int) else None
