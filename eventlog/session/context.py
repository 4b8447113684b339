"""Commands about what the model sees: promote, prune, and the steps of a compaction.

What to prune or to cover is decided in `projections/window`; these commands record the decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from eventlog import events as ev
from eventlog.errors import NotFoundError, RefusedError
from eventlog.errors.base import brief
from eventlog.log.commit import Committed
from eventlog.session.executor import Executor, Request
from eventlog.session.outcome import unanswered_questions
from eventlog.state.state import State
from eventlog.validation import each, require
from eventlog.values import Media, Model

__all__ = ["ContextCommands"]


class ContextCommands:
    """Commands that change the model's view of a session; reached as `session.context`.

    Each takes the lease if the caller does not hold it, within `wait` seconds. Not so
    `start_compaction`, `complete_compaction` and `fail_compaction` of a started one: those need one
    `with session.lease():` around all of them.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def promote(self, message: str, *, wait: float = 0.0) -> None:
        """Let a queued user message take its place in the conversation, now.

        Or one that stands before others and that no reply has seen. `wait` is the seconds to wait
        for the lease.
        """
        require(str, message, "a message is named by its id, a str")
        with self._executor.lease(wait=wait):
            with self._executor.reader.deciding() as state:
                facts = state.message(message)
                if state.now(facts.changes) != "waiting" and state.answered(message):
                    raise RefusedError(
                        f"message {brief(message)} was seen by a reply",
                        expected="a queued message that waits, or one before others that no reply has seen",
                    )
            self._executor.run([ev.MessagePromoted(message)])

    def prune(
        self,
        parts: Sequence[str],
        *,
        arguments: Sequence[str] = (),
        policy: str = "",
        freed: int = 0,
        wait: float = 0.0,
    ) -> None:
        """Clear these parts from the view: results of calls, thoughts, files of a user.

        `arguments` are calls whose large arguments are cleared. `freed` counts tokens, `policy`
        names the planner. `wait` is the seconds to wait for the lease.
        """
        found = [each(given, "parts are a list of ids") for given in (parts, arguments)]
        self._executor.run([ev.Pruned(found[0], policy, freed, found[1])], wait=wait)

    def unprune(self, parts: Sequence[str], *, arguments: Sequence[str] = (), wait: float = 0.0) -> None:
        """Bring pruned parts back into the view, and the `arguments` of these calls.

        `wait` is the seconds to wait for the lease.
        """
        found = [each(given, "parts are a list of ids") for given in (parts, arguments)]
        self._executor.run([ev.Restored(*found)], wait=wait)

    def replace_media(self, media: Sequence[Media], *, reason: str = "", target: str = "", wait: float = 0.0) -> None:
        """Name these images and documents in the view instead of sending them.

        `target` is the "provider/model" that refused them, for which alone it is done; "" is all.
        `reason` is recorded. `wait` is the seconds to wait for the lease.
        """
        found = each(media, "media are a list of Media")
        for one in found:
            require(Media, one, "media are a list of Media")
        events = [ev.MediaReplaced(one.part, one.mime, one.name, reason, target) for one in found]
        self._executor.run(events, wait=wait)

    def restore_media(self, parts: Sequence[str], *, target: str = "", wait: float = 0.0) -> None:
        """Send the images and documents of these parts again, to `target` or to all.

        `wait` is the seconds to wait for the lease.
        """
        found = each(parts, "parts are a list of ids")
        self._executor.run([ev.MediaRestored(part, target) for part in found], wait=wait)

    # -- compaction ----------------------------------------------------------------------------

    def request_compaction(
        self,
        *,
        auto: bool = False,
        overflow: bool | None = None,
        agent: str = "",
        model: Model | None = None,
        request_id: str | None = None,
        wait: float = 0.0,
    ) -> str:
        """Ask for a compaction, in a user message of its own; returns the compaction's part.

        `overflow`: a request was refused for its size. `agent` and `model` are those of the
        conversation. `auto` says that the loop asks, not a user. `wait` is the seconds to wait for
        the lease; the same `request_id` gives the part of the first call.
        """
        executor = self._executor

        def ask(request: Request | None) -> str:
            message, part = executor.host.new_id("msg_"), executor.host.new_id("prt_")
            asked: list[ev.Event] = [
                ev.UserMessageAdded(message, agent, model, synthetic=True),
                ev.CompactionRequested(message, part, auto, overflow),
            ]
            if request is not None:
                return first(executor.commit(asked, request=request))
            executor.run(asked, wait=wait)
            return part

        def first(known: Committed) -> str:
            *_, made = executor.reader.events(known.first - 1, known.last)
            assert isinstance(made.event, ev.CompactionRequested)
            return made.event.part

        return ask(None) if request_id is None else executor.once("a compaction", request_id, ask, first, wait=wait)

    def start_compaction(
        self,
        part: str,
        *,
        through: str | None = None,
        tail: str | None = None,
        kept: Sequence[str] | None = None,
        tokens_before: int | None = None,
        model: Model | None = None,
        prompt_digest: bytes | None = None,
    ) -> None:
        """Fix what a requested compaction covers: see `CompactionStarted`.

        Without `kept` the questions that wait for their answer are kept.

        Refused without `with session.lease():` around everything from here to `complete_compaction`
        or `fail_compaction`: the next owner of the lease, even this handle's next command, settles
        a running compaction as failed. `through` is the last message that is covered, `tail` the
        first one that stays. `tokens_before` counts the view, `model` writes the summary,
        `prompt_digest` is that of its prompt.
        """
        if kept is None:
            kept = unanswered_questions(self._executor.reader, through)
        names = each(kept, "what is kept is a list of ids")
        self._executor.command([ev.CompactionStarted(part, through, tail, tokens_before, model, prompt_digest, names)])

    def complete_compaction(
        self,
        part: str,
        summary: str,
        *,
        tokens_after: int | None = None,
        then: Sequence[ev.Event] = (),
        bodies: Mapping[bytes, bytes] | None = None,
    ) -> None:
        """Let a finished summary message stand for the messages that the compaction covers.

        `then` is appended with it, in one append. Needs the lease that the compaction was started
        under. `tokens_after` counts the new view; `bodies` are those of `then`.
        """
        completed = ev.CompactionCompleted(part, summary, tokens_after)
        self._executor.command([completed, *each(then, "events are a list of events")], bodies)
        self._executor.leave_checkpoint([completed])

    def fail_compaction(self, part: str, reason: str, *, summary: str | None = None, wait: float = 0.0) -> None:
        """Record that the compaction failed: it hides nothing.

        A compaction that is only requested takes the lease for this call; a started one needs the
        lease it was started under. `summary` is the message of a summary that was refused. `wait`
        is the seconds to wait for the lease.
        """
        failed = [ev.CompactionFailed(part, reason, summary)]
        with self._executor.reader.deciding() as state:
            running = state.running_compaction() == part
        if running:  # to take the lease here would settle it as interrupted
            self._executor.command(failed)
        else:
            self._executor.run(failed, wait=wait)

    def undo_compaction(self, *, request_id: str | None = None, wait: float = 0.0) -> str:
        """Undo the latest compaction in force; returns its part, `NotFoundError` if there is none.

        Messages that it added are removed too, unless they were answered. `wait` is the seconds to
        wait for the lease; the same `request_id` gives the result of the first call.
        """
        executor = self._executor
        work, first = partial(undo_latest, executor), partial(_undone, executor)
        return executor.once("the undoing of a compaction", request_id, work, first, wait=wait)


def undo_latest(executor: Executor, request: Request | None) -> str:
    """Undo the latest compaction in force, under the lease; see `undo_compaction`."""
    with executor.reader.deciding() as state:
        compaction = state.compaction_in_force()
    if compaction is None:
        raise NotFoundError("compaction in force", "", session=executor.id)
    part, version = compaction
    added = [
        span.item.message
        for span in executor.reader.history(after=version - 1)
        if isinstance(span.item, ev.UserMessageAdded) and span.item.cause == part
    ]
    with executor.reader.deciding() as state:
        undone: list[ev.Event] = [ev.CompactionUndone(part)]
        undone += [ev.MessageRemoved(message) for message in added if _is_unanswered(state, message)]
    return _undone(executor, executor.commit(undone, request=request))


def _undone(executor: Executor, known: Committed) -> str:
    made, *_ = executor.reader.events(known.first - 1, known.first)
    assert isinstance(made.event, ev.CompactionUndone)
    return made.event.part


def _is_unanswered(state: State, message: str) -> bool:
    """Whether a message is effective, and no assistant message has seen it."""
    return state.now(state.messages[message].changes) != "removed" and not state.answered(message)
