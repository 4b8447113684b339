"""What the loop should do now: a pure function of the projected state (spec §8).

Not the doing (`window.py`), and it reads nothing but what it is given.  The order: tools of an open message, a pending subtask, a
pending compaction, overflow, prune, the model, a queued message, stop.  (Tools come first, because a message that waits for results cannot be
covered, and nothing else can be said before they are there.)  Steps that end a loop are false, so that a loop is `while step := …`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from eventlog.errors import BlockedError, WindowTooSmallError
from eventlog.values import Json, MessageError, Subtask
from projections.conversation import Conversation
from projections.parts import CompactionPart, Message, SubtaskPart, ToolPart
from projections.render_options import RenderOptions
from projections.selection import hidden
from projections.window.agenda import NOTHING, Agenda, Answer
from projections.window.doom import repeated_call
from projections.window.measure import Measure
from projections.window.overflow import is_over
from projections.window.policy import ContextPolicy
from projections.window.prune import PrunePlan, plan_prune
from projections.window.prune_case import is_real_user

__all__ = [
    "Blocked",
    "CallModel",
    "Compact",
    "PendingCall",
    "Promote",
    "Prune",
    "RequestCompaction",
    "RunSubtask",
    "RunTools",
    "Situation",
    "Step",
    "Stop",
    "Wait",
    "next_step",
]

GOES_ON = ("tool-calls", "tool_calls", "tool_use", "unknown", None)
"""Reasons of a finished message after which the model is called again."""
INTERRUPTED = "interrupted"
"""Message of the error with which a lease taker closed what a dead owner had left open."""


_ADVICE = (
    "if whoever writes the summaries was not reached, compact by hand once it is; else take a model with a larger window, or begin a"
    " new session"
)
_NOTHING_LEFT = (
    "nothing older is left to summarise: what is newest is too large by itself; remove that message or roll back to before it, or take a"
    " model with a larger window"
)


class Situation(msgspec.Struct, frozen=True):
    """What is decided on."""

    state: Conversation
    agenda: Agenda
    policy: ContextPolicy
    """With the switches of the environment in it."""
    options: RenderOptions
    measure: Measure
    usable: int | None
    """Tokens the next request may have; None: any number."""
    request: Callable[[], int]
    """Tokens of the next request as the view is now, calibrated."""
    fixed: Callable[[], int]
    """Tokens of the system prompt and the tools alone, calibrated."""
    mine: str | None = None
    """The open message that this loop is filling."""
    allow_repeats: bool = False
    """Whether identical calls in a row are nothing to stop for."""


class PendingCall(msgspec.Struct, frozen=True):
    """A call that has no result yet."""

    part: str
    call: str
    tool: str
    input: Json
    running: bool


class RunTools(msgspec.Struct, frozen=True):
    """Run these calls of the open message, record their results, and finish the message."""

    message: str
    calls: tuple[PendingCall, ...]


class RunSubtask(msgspec.Struct, frozen=True):
    """Give this work to a sub-agent."""

    message: str
    part: str
    subtask: Subtask


class Compact(msgspec.Struct, frozen=True):
    """Carry out the compaction that was requested."""

    part: str
    message: str
    auto: bool
    overflow: bool


class RequestCompaction(msgspec.Struct, frozen=True):
    """The window is full: ask for a compaction.  `overflow`: a request was refused for its size."""

    overflow: bool
    tokens: int


class Prune(msgspec.Struct, frozen=True):
    """Clear these old results."""

    plan: PrunePlan


class CallModel(msgspec.Struct, frozen=True):
    """Call the model with the view.  `last`: the turn has no further step, and the view says so."""

    reply_to: str
    last: bool
    tokens: int


class Promote(msgspec.Struct, frozen=True):
    """Let the oldest queued message take its place."""

    message: str


class Wait(msgspec.Struct, frozen=True):
    """Somebody else, or this loop's own reply, is at work on a message."""

    reason: Literal["streaming", "another-loop"]
    message: str

    def __bool__(self) -> bool:
        return False


class Blocked(msgspec.Struct, frozen=True):
    """The loop cannot go on by itself; `sentence` says why, and what would help."""

    reason: Literal["doom-loop", "max-steps", "compaction-fails", "window-too-small"]
    sentence: str

    def __bool__(self) -> bool:
        return False

    def error(self) -> BlockedError:
        """The same as an error, for a program that wants to raise it."""
        kind = WindowTooSmallError if self.reason == "window-too-small" else BlockedError
        return kind(self.reason, self.sentence)


class Stop(msgspec.Struct, frozen=True):
    """There is nothing to do, or somebody asked for a stop."""

    reason: Literal["finished", "nothing-asked", "interrupted", "aborted", "failed"]
    error: MessageError | None = None

    def __bool__(self) -> bool:
        return False


Step: TypeAlias = (
    RunTools | RunSubtask | Compact | RequestCompaction | Prune | CallModel | Promote | Wait | Blocked | Stop
)


def next_step(situation: Situation) -> Step:
    """What to do now."""
    turn = _Turn(situation)
    if turn.interrupted:
        return Stop("interrupted")
    return (
        turn.open_message()
        or turn.subtask()
        or turn.compaction()
        or turn.overflow()
        or turn.prune()
        or turn.model()
        or turn.promotion()
        or turn.end()
    ).step


class _Found:
    """A step that was decided on: always true, whatever the step is."""

    __slots__ = ("step",)

    def __init__(self, step: Step) -> None:
        self.step = step


class _Turn:
    """The newest turn, and the questions that are asked of it in order."""

    def __init__(self, situation: Situation) -> None:
        self._now = situation
        state = situation.state
        order = sorted(state.messages.values(), key=_place)
        shown = [message for message in order if not hidden(state, message, situation.options)]
        self._shown = shown
        self._waiting = [message for message in order if message.waiting and not message.removed]
        self._asked = next((message for message in reversed(shown) if message.user and not _is_marker(message)), None)
        self._answers = [message for message in shown if not message.user and not message.summary]
        self._last = self._newest_answer()
        begin = next((message.place for message in reversed(shown) if is_real_user(message)), 0)
        self._turn = [message for message in self._answers if message.place > begin]
        asked = max((message.place for message in order if message.user and _is_said(message)), default=0)
        self.interrupted = situation.agenda.interrupted > asked and not self._is_closed_after_interrupt()

    def _newest_answer(self) -> Answer | None:
        """The newest answer, also one that a compaction covers: what was answered is not asked again."""
        last = self._answers[-1] if self._answers else None
        known = self._now.agenda.answer
        if (
            known is not None
            and known.message not in self._now.state.messages
            and (last is None or known.place > last.place)
        ):
            return known
        if last is None:
            return None
        calls = any(
            isinstance(part, ToolPart) and not part.removed and not part.provider_executed for part in last.parts
        )
        finished = last.finished is not None
        return Answer(last.id, last.place, last.reply_to, calls, finished, last.reason, last.error)

    def _is_closed_after_interrupt(self) -> bool:
        """Whether an interrupt was answered by an abort, which is then why the loop ends."""
        last = self._last
        return last is not None and last.error is not None and last.error.name == "aborted" and not _crashed(last)

    # -- in order ------------------------------------------------------------------------------

    def open_message(self) -> _Found | None:
        """An open message waits for its results, or for whoever fills it."""
        message = next((found for found in reversed(self._answers) if found.finished is None), None)
        if message is None:
            return None
        if message.id != self._now.mine:
            return _Found(Wait("another-loop", message.id))
        tools = [part for part in message.parts if isinstance(part, ToolPart) and _is_pending(part)]
        calls = tuple(_pending(part, self._now.measure) for part in tools)
        if not calls:
            return _Found(Wait("streaming", message.id))
        return self._repeats() or _Found(RunTools(message.id, calls))

    def subtask(self) -> _Found | None:
        """The first subtask of the newest request that nobody has carried out."""
        asked, agenda = self._asked, self._now.agenda
        if asked is None or self._broke_off():
            return None
        tasks = [part for part in asked.parts if isinstance(part, SubtaskPart) and not part.removed]
        done = agenda.tasks_done if agenda.tasks_of == asked.id else 0
        if done >= len(tasks):
            return None
        part = tasks[done]
        return _Found(RunSubtask(asked.id, part.id, part.subtask))

    def compaction(self) -> _Found | None:
        """The newest compaction that was requested, or that a crash interrupted."""
        compaction = next(reversed(self._now.state.compactions.values()), None)
        if compaction is None or self._now.state.messages[compaction.message].removed:
            return None
        if compaction.auto and not self._now.policy.overflow.auto:
            return None
        if compaction.status == "requested" or (compaction.status == "failed" and compaction.reason == INTERRUPTED):
            return _Found(Compact(compaction.part, compaction.message, compaction.auto, compaction.overflow is True))
        return None

    def overflow(self) -> _Found | None:
        """The window is full, by the last step's usage, by the count of the next request, or because one was refused."""
        now = self._now
        policy = now.policy.overflow
        if not policy.auto:
            return None
        refused = self._is_refused()
        tokens = self._tokens_over()
        if not refused and tokens is None:
            return None
        failures = now.agenda.fruitless(now.usable)
        why = now.agenda.latest_failure()
        if failures >= now.policy.compaction.max_failures or (failures and why == NOTHING):
            return _Found(
                Blocked(
                    "compaction-fails",
                    f"{failures} automatic compaction(s) in a row did not bring the conversation below its window"
                    + (f" (the latest failed: {why})" if why else "")
                    + f"; {_ADVICE if why != NOTHING else _NOTHING_LEFT}",
                )
            )
        if now.usable is not None and now.fixed() >= now.usable:
            return _Found(
                Blocked(
                    "window-too-small",
                    f"the system prompt and the tools alone take {now.fixed()} of {now.usable} usable tokens",
                )
            )
        return _Found(RequestCompaction(refused, tokens or 0))

    def prune(self) -> _Found | None:
        """Old results that are worth clearing."""
        now = self._now
        if not now.policy.prune.enabled:
            return None
        plan = plan_prune(
            now.state,
            now.policy.prune,
            now.measure,
            usable=now.usable,
            inside=self._goes_on(),
            options=now.options,
        )
        return None if plan is None else _Found(Prune(plan))

    def model(self) -> _Found | None:
        """The newest request, or a result, that the model has not seen."""
        now = self._now
        if not self._goes_on() or self._asked is None:
            return None
        repeats = self._repeats()
        if repeats is not None:
            return repeats
        steps = now.agenda.steps
        limit = now.policy.loop.max_steps
        if limit is not None and steps >= limit:
            return _Found(Blocked("max-steps", f"the turn had its {limit} steps; ask again to go on"))
        tokens = now.request()
        return _Found(CallModel(self._asked.id, limit is not None and steps + 1 == limit, tokens))

    def promotion(self) -> _Found | None:
        """A queued message, once the turn is over."""
        if not self._waiting or self._broke_off():
            return None
        return _Found(Promote(self._waiting[0].id))

    def end(self) -> _Found:
        """Nothing is left to do."""
        if self._asked is None:
            return _Found(Stop("nothing-asked"))
        last = self._last
        if last is not None and last.error is not None and self._broke_off():
            return _Found(Stop("aborted" if last.error.name == "aborted" else "failed", last.error))
        return _Found(Stop("finished"))

    # -- helpers -------------------------------------------------------------------------------

    def _goes_on(self) -> bool:
        """Whether the model is to be called again: something was asked, or answered, that it has not seen."""
        asked, last = self._asked, self._last
        if asked is None:
            return False
        if last is None or (last.place < asked.place and last.reply_to != asked.id):
            return True
        if last.error is not None:
            return _crashed(last)
        return last.reason in GOES_ON or last.calls

    def _broke_off(self) -> bool:
        """Whether the newest answer ended with an error that nobody has said anything after."""
        asked, last = self._asked, self._last
        if asked is None or last is None or last.error is None or _crashed(last):
            return False
        return last.place > asked.place

    def _is_refused(self) -> bool:
        """Whether the newest request was refused for its size, and nothing was said or compacted since."""
        last, state = self._last, self._now.state
        if last is None or last.error is None or last.error.name != "overflow":
            return False
        compaction = state.compactions.get(state.in_force or "")
        if compaction is not None and state.messages[compaction.message].place > last.place:
            return False
        return self._asked is not None and self._asked.place < last.place

    def _tokens_over(self) -> int | None:
        """The tokens that are over the limit, None if none are."""
        now = self._now
        policy = now.policy.overflow
        if self._broke_off():
            return None
        if policy.max_messages is not None and len(self._shown) > policy.max_messages:
            return now.request()
        if now.usable is None:
            return None
        used = now.agenda.used
        if used is not None and is_over(used.tokens, now.usable, policy):
            return used.tokens
        if policy.count_next == "never" or (policy.count_next == "before-usage" and used is not None):
            return None
        if not self._goes_on():
            return None
        tokens = now.request()
        return tokens if is_over(tokens, now.usable, policy) else None

    def _repeats(self) -> _Found | None:
        now = self._now
        if now.allow_repeats or not now.policy.loop.doom_loop:
            return None
        found = repeated_call(self._turn, now.policy.loop.doom_loop, now.measure)
        if found is None:
            return None
        return _Found(
            Blocked("doom-loop", f"the model called {found.tool} {found.times} times in a row with the same input")
        )


def _place(message: Message) -> int:
    return message.place


def _is_marker(message: Message) -> bool:
    return any(isinstance(part, CompactionPart) for part in message.parts)


def _is_said(message: Message) -> bool:
    """Whether somebody said this; not what a compaction left or added."""
    return message.cause is None and not _is_marker(message)


def _crashed(answer: Answer) -> bool:
    """Whether a message was closed by whoever came after a crash, so that its turn goes on."""
    error = answer.error
    return error is not None and error.name == "aborted" and error.message == INTERRUPTED


def _is_pending(part: ToolPart) -> bool:
    return not (part.removed or part.provider_executed) and part.status in {"pending", "running"}


def _pending(part: ToolPart, measure: Measure) -> PendingCall:
    given = [part.input] if part.status == "running" else part.pieces
    return PendingCall(part.id, part.call, part.tool, "".join(map(measure.text, given)), part.status == "running")
