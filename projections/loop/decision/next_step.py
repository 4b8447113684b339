"""The decision of the loop: a pure function from a situation to the next step.

The order: tools of an open message, calls that a person allowed, calls that wait for one, a pending
subtask, tasks that a crash broke off, a provider that asked to wait, a pending compaction, refused
media, overflow, prune, the model, a queued message, stop.  Tools come first: a message that waits
for results cannot be covered, and nothing else can be said before the results are there.
"""

from __future__ import annotations

from itertools import takewhile

from msgspec.structs import replace

from eventlog.session.failure import CRASHED, is_crash
from eventlog.streams.refusals import MEDIA
from projections.conversation.parts import Message, SubtaskPart, ToolPart
from projections.loop.decision.calls import asked_call, pending_call
from projections.loop.decision.exchange import (
    answer_of,
    answers,
    newest_answer,
    newest_question,
    open_answer,
    queued_message,
    turn_answers,
)
from projections.loop.decision.full_window import blocked, may_help, what_helps
from projections.loop.decision.loop_state import LatestAnswer, number_in
from projections.loop.decision.refused_turn import (
    asks_without_state,
    helps_after,
    media_of_question,
    media_to_replace,
    too_early,
)
from projections.loop.decision.situation import Situation
from projections.loop.decision.steps import (
    Ask,
    Blocked,
    CallModel,
    Compact,
    PendingCall,
    Promote,
    Prune,
    ReplaceMedia,
    RequestCompaction,
    RunSubtask,
    RunTools,
    Step,
    Stop,
    Wait,
)
from projections.loop.task_calls import is_task
from projections.window.policy.limits import is_over
from projections.window.prune.repeated_calls import repeated_call


def next_step(situation: Situation) -> Step:
    """Return the next step."""
    turn = _Turn(situation)
    if turn.interrupted:
        return turn.behind_interrupt()
    return (
        turn.open_message()
        or turn.asked_calls()
        or turn.subtask()
        or turn.broken_tasks()
        or turn.rate()
        or turn.compaction()
        or turn.media()
        or turn.overflow()
        or turn.prune()
        or turn.model()
        or turn.promotion()
        or turn.end()
    ).step


class _Found:
    """A step that was decided on; always true, even if the step is false."""

    __slots__ = ("step",)

    def __init__(self, step: Step) -> None:
        self.step = step


class _Turn:
    """The newest turn, and the questions that are asked of it in order."""

    def __init__(self, situation: Situation) -> None:
        self._now = situation
        self._asked = newest_question(situation.state)
        self._open = open_answer(situation.state)
        self._last = self._to_repeat(self._newest_answer())
        self._heard = self._newest_that_has_seen()
        self._said = situation.asked_place
        self.interrupted = situation.loop.interrupted > self._said and not (
            self._is_closed_after_interrupt() or self._is_answered_before_interrupt()
        )

    def _newest_answer(self) -> LatestAnswer | None:
        """Return the newest answer, also one that a compaction covers.

        A covered answer counts, so that the loop does not ask the model for it again.
        """
        last = newest_answer(self._now.state, self._asked)
        known = self._now.loop.answer
        if (
            known is not None
            and known.message not in self._now.state.messages
            and (last is None or known.place > last.place)
        ):
            return known
        if last is None:
            return None
        answer = answer_of(last)
        return replace(answer, error=CRASHED) if last is self._open and self._is_left() else answer

    def _is_left(self) -> bool:
        """Whether no loop fills the open answer: the next owner closes it as broken off.

        Its program died, or a file that was imported ends with it.
        """
        is_own = self._open is None or self._open.id == self._now.open_message
        return not (is_own or self._now.is_run is None or self._now.is_run())

    def _newest_that_has_seen(self) -> LatestAnswer | None:
        """Return the newest answer whose request had the newest question, None if none had it."""
        asked, last = self._asked, self._last
        if asked is None or last is None or last.has_seen(asked.place):
            return last
        for answer in answers(self._now.state):
            if answer.place < asked.place:
                break
            if answer.has_seen(asked.place):
                return self._to_repeat(answer_of(answer))
        return None

    def _to_repeat(self, last: LatestAnswer | None) -> LatestAnswer | None:
        """Return the answer; a refusal counts as broken off once the request has changed."""
        if last is None or not (self._now.loop.is_out_of_date(last) or asks_without_state(self._now, last)):
            return last
        return replace(last, error=CRASHED)

    def _is_closed_after_interrupt(self) -> bool:
        """Whether an interrupt was answered by an abort, which is then why the loop ends."""
        last = self._last
        if last is None or last.error is None or not last.has_seen(self._said):
            return False
        return last.error.name == "aborted" and not is_crash(last.error)

    def _is_answered_before_interrupt(self) -> bool:
        """Whether an interrupt came after the answer: then it changes nothing."""
        heard = self._heard
        if self._asked is None or heard is None or heard.error is not None or self._goes_on():
            return False
        return 0 < self._ended() < self._now.loop.interrupted

    def _ended(self) -> int:
        """Version at which the newest answer to the newest request ended; 0 if it is not known."""
        known, heard = self._now.loop.answer, self._heard
        return 0 if known is None or heard is None or known.message != heard.message else known.ended

    # -- in order ------------------------------------------------------------------------------

    def open_message(self) -> _Found | None:
        """An open message waits for its results, or for the loop that fills it."""
        message = self._open
        if message is None or self._is_left():
            return None
        if message.id != self._now.open_message:
            return _Found(Wait("another-loop", message.id))
        tools = [part for part in message.parts if isinstance(part, ToolPart) and _is_pending(part)]
        calls = tuple(pending_call(part, self._now.measure) for part in tools)
        if not calls:
            waits = any(isinstance(part, ToolPart) and part.waits and not part.removed for part in message.parts)
            return _Found(RunTools(message.id, ()) if waits else Wait("streaming", message.id))
        return self._repeats() or _Found(RunTools(message.id, calls))

    def asked_calls(self) -> _Found | None:
        """Calls of finished messages: those that a person allowed, else those that wait for one.

        A compaction that was requested comes before the end of the loop.
        """
        where, asked = self._now.state.where, self._now.state.asked
        if not asked:
            return None
        for part, tool in asked.items():
            message = where[part][0]
            if tool.status == "running":
                return _Found(Wait("tool", message.id))
            if tool.status == "allowed":
                allowed = [
                    other for name, other in asked.items() if where[name][0] is message and other.status == "allowed"
                ]
                return _Found(RunTools(message.id, tuple(pending_call(other, self._now.measure) for other in allowed)))
        due = None if self.rate() else self.compaction()
        return due or _Found(
            Ask(tuple(asked_call(where[part][0], tool, self._now.measure) for part, tool in asked.items()))
        )

    def subtask(self) -> _Found | None:
        """The first subtask of the newest request that is not carried out yet."""
        asked, loop = self._asked, self._now.loop
        if asked is None or self._broke_off():
            return None
        tasks = [part for part in asked.parts if isinstance(part, SubtaskPart) and not part.removed]
        done = loop.tasks_done if loop.tasks_of == asked.id else 0
        if done >= len(tasks):
            return None
        part = tasks[done]
        broken = next((call for call in self._broken_tasks() if call.call == part.id), None)
        return _Found(RunSubtask(asked.id, part.id, part.subtask, broken))

    def broken_tasks(self) -> _Found | None:
        """The `task` calls of the newest answer that a crash broke off."""
        calls = self._broken_tasks()
        return _Found(RunTools(next(answers(self._now.state)).id, calls)) if calls else None

    def rate(self) -> _Found | None:
        """End the loop where the model's provider asked to wait: no request before that time."""
        blocked = too_early(self._now) if self._goes_on() else None
        return None if blocked is None else _Found(blocked)

    def compaction(self) -> _Found | None:
        """The newest compaction that was requested, or that a crash interrupted."""
        compaction = self._now.pending_compaction()
        if compaction is None or (compaction.auto and not self._now.policy.overflow.auto):
            return None
        return _Found(Compact(compaction.part, compaction.message, compaction.auto, compaction.overflow is True))

    def media(self) -> _Found | None:
        """Name the media for which the newest request was refused, and ask again."""
        last, now = self._last, self._now
        if last is None or last.error is None or not self._broke_off():
            return None
        if last.error.name == MEDIA:
            times = len([*takewhile(_is_media_refusal, turn_answers(now.state))])
            media = media_to_replace(now, last.error, times)
        else:
            media = media_of_question(now) if self._is_refused() else ()
        return _Found(ReplaceMedia(media, last.error.message, now.options.asked)) if media else None

    def overflow(self) -> _Found | None:
        """Compact if the window is full: by reported usage, by count, or after a refusal.

        Only where the model is to be called: a turn that is answered ends, however full the window
        is. Where a compaction cannot help, the request is sent as it is if it fits, or would
        without what a report alone says: the next report, or a refusal, shows which.
        """
        now = self._now
        if not now.policy.overflow.auto:
            return None
        refused = self._is_refused()
        tokens = self._tokens_over() if self._goes_on() else None
        if not refused and tokens is None:
            return None
        fits = not refused and (now.largest is None or now.request() < now.largest)
        if may_help(now, fits=fits, refused=refused):
            return _Found(RequestCompaction(refused, tokens or 0))
        fits = fits or (not refused and now.largest is not None and now.shown_tokens() < now.largest)
        return None if fits else _Found(blocked(now, refused=refused))

    def prune(self) -> _Found | None:
        """Old results that are worth clearing, once the window is as full as the policy says."""
        now = self._now
        policy = now.policy.prune
        if not policy.enabled or (now.usable is not None and now.request() < policy.trigger * now.usable):
            return None
        plan = now.prune_plan(inside=self._goes_on())
        return None if plan is None else _Found(Prune(plan))

    def model(self) -> _Found | None:
        """The newest request, or a result, that the model has not seen."""
        now = self._now
        if not self._goes_on() or self._asked is None:
            return None
        repeats = self._repeats()
        if repeats is not None:
            return repeats
        steps = now.loop.steps
        given = now.policy.loop.max_steps
        limit = None if given is None else max(given, 1)
        if limit is not None and steps >= limit:
            more = "a new question, `session.turn(text, request_id)`, has as many again; a policy with more `max_steps` goes on, too"
            return _Found(Blocked("max-steps", f"the turn had its {limit} steps; {more}"))
        tokens = now.request()
        return _Found(CallModel(self._asked.id, limit is not None and steps + 1 == limit, tokens))

    def promotion(self) -> _Found | None:
        """A queued message, once the turn is over.

        Behind an answer that failed or was stopped, none before the user goes on.
        """
        queued = queued_message(self._now.state)
        if queued is None or (self._broke_off() and not 0 < self._ended() < max(self._said, self._now.loop.queued)):
            return None
        return _Found(Promote(queued.id))

    def behind_interrupt(self) -> Step:
        """Stop, or go on with the queue if the user queued a message since."""
        queued, loop = queued_message(self._now.state), self._now.loop
        if queued is not None and loop.queued > loop.interrupted and open_answer(self._now.state) is None:
            return Promote(queued.id)
        return Stop("interrupted")

    def end(self) -> _Found:
        """Nothing is left to do."""
        said, place = self._now.loop.said[-1] if self._now.loop.said else ("", 0)
        is_covered = bool(said) and said not in self._now.state.messages  # by a compaction that was not the window's
        last = self._heard
        is_failed = last is not None and bool(last.error) and not (is_crash(last.error) or last.is_refused)
        if is_covered and place > self._now.state.answered_place() and not is_failed:
            return _Found(
                Blocked(
                    "question-covered",
                    "a compaction covers the newest question before it was answered; ask it again, in fewer words if it"
                    " was refused for its size",
                )
            )
        if (self._asked is not None or is_covered) and last is not None and last.error and not is_crash(last.error):
            question = said if self._asked is None else self._asked.id
            if last.is_refused:
                helps, _ = what_helps(self._now)
            else:
                helps = helps_after(last.error, question, number_in(last.error, "status"))
            return _Found(Stop("aborted" if last.error.name == "aborted" else "failed", last.error, helps))
        return _Found(Stop("nothing-asked" if self._asked is None else "finished"))

    # -- helpers -------------------------------------------------------------------------------

    def _broken_tasks(self) -> tuple[PendingCall, ...]:
        """The `task` calls that a crash broke off in the newest answer, if it has seen all."""
        asked, last = self._asked, next(answers(self._now.state), None)
        if asked is None or last is None or not last.has_seen(asked.place) or not is_crash(last.error):
            return ()
        broken = [part for part in last.parts if isinstance(part, ToolPart) and _is_broken_task(part)]
        return tuple(pending_call(part, self._now.measure) for part in broken)

    def _goes_on(self) -> bool:
        """Whether to call the model again: it has not seen a request, or a result."""
        if self._asked is None:
            return False
        heard, last = self._heard, self._last
        return heard is None or heard.goes_on or (last is not None and last.goes_on)

    def _broke_off(self) -> bool:
        """Whether the newest answer to the newest request ended with an error."""
        heard = self._heard
        return self._asked is not None and heard is not None and bool(heard.error) and not is_crash(heard.error)

    def _is_refused(self) -> bool:
        """Whether the newest request was refused for its size, and nothing came after it."""
        last = self._last
        return last is not None and last.is_refused and self._asked is not None and last.has_seen(self._asked.place)

    def _tokens_over(self) -> int | None:
        """The tokens that are over the limit, None if none are."""
        now = self._now
        policy = now.policy.overflow
        if policy.max_messages is not None and len(now.messages) > policy.max_messages:
            return now.request()
        if now.usable is None:
            return None
        last_step = now.loop.last_step
        if last_step is not None and is_over(last_step.tokens, now.usable, policy):
            return last_step.tokens
        if policy.count_next == "never" or (policy.count_next == "before-usage" and last_step is not None):
            return None
        tokens = now.request()
        return tokens if is_over(tokens, now.usable, policy) else None

    def _repeats(self) -> _Found | None:
        now = self._now
        if now.allow_repeats or not now.policy.loop.doom_loop:
            return None
        found = repeated_call(turn_answers(self._now.state), now.policy.loop.doom_loop, now.measure.text)
        if found is None:
            return None
        then = "`next_step(allow_repeats=True)` goes on, and so does the user's next message"
        return _Found(Blocked("doom-loop", f"{found.sentence}; {then}"))


def _is_media_refusal(answer: Message) -> bool:
    return answer.error is not None and answer.error.name == MEDIA


def _is_pending(part: ToolPart) -> bool:
    return not (part.removed or part.provider_executed) and part.status in {"pending", "running"}


def _is_broken_task(part: ToolPart) -> bool:
    is_there = not (part.removed or part.redacted or part.provider_executed)
    return is_there and part.status == "failed" and part.interrupted and is_task(part.tool, part.details)
