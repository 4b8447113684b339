"""A summary that a sub-session writes in a thread, under its own lease, beside the loop.

All that is known of it stands in the sub-session, so that any owner of the session may put it in:
by one append, which is decided on the version that it follows.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from inspect import unwrap
from typing import TYPE_CHECKING

from eventlog import events as ev
from eventlog.errors import (
    AlreadyExistsError,
    CallError,
    ConflictError,
    EventlogError,
    KeyMissingError,
    LeaseHeldError,
    NotFoundError,
)
from eventlog.logger import kind_of, logger
from eventlog.session.held_lease import POLL, Lease
from eventlog.session.outcome import unanswered_questions
from eventlog.session.status import is_run
from eventlog.validation import require
from projections.conversation.coverage import bound_of, covered_messages
from projections.conversation.parts import Compaction
from projections.loop.context.continuation import continuation_events, tokens_after
from projections.loop.context.summary_attempt import SummaryAttempt, newest_attempt, summaries_id
from projections.loop.context.summary_run import SummaryFailure, SummaryRun, judge
from projections.loop.decision.full_window import may_help
from projections.loop.decision.loop_state import COMPACTED, ROLLED_BACK, TOLD_CHANGED
from projections.loop.decision.steps import CallModel, Compact, RequestCompaction
from projections.window.compaction.offline import summarize_offline
from projections.window.compaction.record import Begun
from projections.window.compaction.selection import Selection

if TYPE_CHECKING:
    from eventlog.codec.deltas import DeltaRun
    from eventlog.session.session import Session
    from eventlog.values import Model
    from projections.loop.context.window_state import WindowState
    from projections.loop.decision.steps import Step
    from projections.window.compaction.summarizer import Summarizer


def in_background(
    session: Session, state: WindowState, summarizer: Summarizer, model: Model | None, *, wanted: bool
) -> BackgroundSummary | None:
    """Return the summaries in the background of a window, None if they are not `wanted`."""
    require(bool, wanted, "background is True or False")
    if wanted and unwrap(summarizer) is summarize_offline:
        raise CallError(
            "the offline summariser is no work to wait for; background=True goes with a summariser that asks a model"
        )
    return BackgroundSummary(session, state, summarizer, model) if wanted else None


class BackgroundSummary:
    """The summary that is written while a session goes on: begun, put in, or given up."""

    def __init__(self, session: Session, state: WindowState, summarizer: Summarizer, model: Model | None) -> None:
        """`model` writes the summaries; None is the conversation's."""
        self.waits: int = 0
        """Steps that had to wait for the summary, since the window was full before it was done."""
        self._session = session
        self._state = state
        self._summarizer = summarizer
        self._model = model
        self._child: Session | None = None
        self._read = 0
        """The version up to which the sub-session was read."""
        self._attempt: SummaryAttempt | None = None
        self._watched: tuple[str, int] = ("", 0)
        """The compaction that is watched, and the version up to which it was."""
        self._is_changed = False
        """Whether a summary tells something that has changed since."""

    def look(self, step: Step) -> bool:
        """Do what is due before `step`; True if the session has changed, or a stop may be there.

        For the owner of the session, with the state as of now.
        """
        if not self._concerns(step) or self._session.executor.leases.held is None:
            return False
        child, attempt = self._found()
        if child is not None and self._is_written(child):
            over = "" if attempt is None or attempt.finished is not None else self._over(attempt.begun)
            if attempt is not None and over and not attempt.is_stopped(child):
                child.interrupt(over)
            if over or isinstance(step, CallModel):
                return False
            self._wait(child)
            self._state.catch_up()
            return True
        if child is not None and attempt is not None and self._close(child, attempt):
            return True
        if isinstance(step, CallModel) and self._may_begin(attempt):
            self._begin(step)
        return False

    def _concerns(self, step: Step) -> bool:
        """Whether the window is so full before this step that a summary is of use.

        A request that was refused for its size is compacted at once.
        """
        policy, usable = self._state.policy, self._state.usable
        if usable is None or policy.preset.startswith("opencode"):
            return False
        if isinstance(step, RequestCompaction):
            return not step.overflow
        share = policy.compaction.background_share
        return isinstance(step, CallModel) and policy.overflow.auto and step.tokens >= share * usable

    # -- what there is -------------------------------------------------------------------------

    def _found(self) -> tuple[Session | None, SummaryAttempt | None]:
        """Return the sub-session and its newest summary, if there are any."""
        name = summaries_id(self._session.id)
        try:
            if self._child is None and self._session.store.log.head(name) is not None:
                self._child = self._session.store.session(name)
            child = self._child
            if child is not None and (version := child.version) != self._read:
                self._read, self._attempt = version, newest_attempt(child)
        except (NotFoundError, KeyMissingError):  # it was erased, or is locked
            self._child = None
            return None, None
        return child, self._attempt

    def _is_written(self, child: Session) -> bool:
        """Whether a live task of any process writes a summary."""
        head = child.store.log.head(child.id)
        return head is not None and is_run(child.store.registry, head)

    def _wait(self, child: Session) -> None:
        """Wait until no summary is written any more, or the session is to stop."""
        self.waits += 1
        executor = self._session.executor
        since = self._state.version
        while self._is_written(child):
            if executor.pass_stop_on() or self._session.reader.state().interrupt_pending(since):
                return
            time.sleep(POLL)

    def _over(self, begun: Begun) -> str:
        """Why a summary can stand for nothing any more; "" if it can."""
        with self._session.reader.deciding() as state:
            if state.history.shared_with(begun.version) != begun.version:
                return ROLLED_BACK
            if any(found == "completed" and version > begun.version for version, _, found in state.compactions):
                return COMPACTED
        if self._state.conversation.in_force != begun.previous:
            return COMPACTED
        return TOLD_CHANGED if self._has_changed(begun) else ""

    def _has_changed(self, begun: Begun) -> bool:
        """Whether something that the summary tells was edited, removed, redacted or completed."""
        part, upto = self._watched
        if part != begun.part:
            upto, self._is_changed = begun.version, False
        version = self._session.version
        if not self._is_changed:
            spans = self._session.reader.spans(upto, version)
            self._is_changed = any(self._changes(span.item, begun) for span in spans)
        self._watched = (begun.part, version)
        return self._is_changed

    def _changes(self, item: ev.Event | DeltaRun, begun: Begun) -> bool:
        with self._session.reader.deciding() as state:
            match item:
                case ev.RecordForgotten():
                    return any(first <= begun.version for first, _ in item.ranges)
                case ev.MessageRemoved():
                    name = item.message
                case ev.PartRemoved() | ev.PartEdited() | ev.PartRedacted():
                    name = state.parts[item.part].message
                case ev.ToolCompleted() | ev.ToolFailed():
                    name = state.parts[item.part].message
                    if name in begun.kept:
                        return False
                case _:
                    return False
            facts = state.messages[name]
            return facts.added <= begun.bound or (facts.summary and facts.added <= begun.version)

    # -- the end of one ------------------------------------------------------------------------

    def _close(self, child: Session, attempt: SummaryAttempt) -> bool:
        """Put a summary in, or record why it came to nothing; False if there is nothing to do."""
        begun = attempt.begun
        with self._session.reader.deciding() as state:
            if state.has_part(begun.part):
                return False
        while True:
            self._state.catch_up()
            reason = self._over(begun) or attempt.failure
            if attempt.is_lost and not reason:
                return False
            try:
                if not reason:
                    self._put_in(child, attempt)
            except SummaryFailure as failed:
                reason = str(failed)
            except ConflictError:  # another writer was quicker: decided anew
                continue
            if reason:
                _, events = self._requested(begun.part)
                self._session.executor.command([*events, ev.CompactionFailed(begun.part, reason)])
            self._state.catch_up()
            self._state.evict_sizes()
            self._state.save()
            return True

    def _put_in(self, child: Session, attempt: SummaryAttempt) -> None:
        """Complete the compaction by one append, if the session is as the state has it.

        Raises `SummaryFailure` for a view that would be too large to go on, and `ConflictError`.
        """
        begun, now, version = attempt.begun, self._state.situation(), self._state.version
        selection = self._covered(begun)
        marker, requested = self._requested(begun.part)
        step = Compact(begun.part, marker, auto=True, overflow=False)
        after = tokens_after(now, step, selection, attempt.text)
        judge(attempt.text, after, now.largest)
        bodies: dict[bytes, bytes] = {}
        summary = [*attempt.copied(marker, child, bodies)]
        model = next(item.model for item in summary if isinstance(item, ev.AssistantMessageStarted))
        like, hooks = self._state.newest_user_message(), self._state.hooks
        events = [
            *requested,
            ev.CompactionStarted(
                begun.part,
                begun.through,
                begun.tail,
                begun.tokens_before,
                model,
                begun.prompt_digest,
                selection.kept,
            ),
            *summary,
            ev.CompactionCompleted(begun.part, attempt.message, after),
            *continuation_events(self._session, now, step, selection, bodies, like=like, hooks=hooks),
        ]
        self._session.executor.commit(events, bodies=bodies, expected=version)

    def _covered(self, begun: Begun) -> Selection:
        """Return what the compaction covers: what it did at the start, less what waits now.

        A message that has moved, or a question that waits again, is kept.
        """
        state = self._state.situation().summarisable
        found = Compaction(begun.part, "", through=begun.through, tail=begun.tail, kept=begun.kept)
        covered = covered_messages(state, found, state.messages.values())
        pending = {*unanswered_questions(self._session.reader, begun.through)}
        stay = {message.id for message in covered if message.place > begun.bound or message.id in pending}
        head = tuple(message for message in covered if message.id not in stay)
        kept = (*begun.kept, *(message.id for message in covered if message.id in stay and not message.removed))
        return Selection(head, begun.through, begun.tail, kept)

    def _requested(self, part: str) -> tuple[str, list[ev.Event]]:
        """Return the message that asks for the compaction, and its events."""
        marker = self._session.store.host.new_id("msg_")
        asked = ev.UserMessageAdded(marker, *self._state.asks_as, synthetic=True)
        return marker, [asked, ev.CompactionRequested(marker, part, auto=True)]

    # -- the beginning of one ------------------------------------------------------------------

    def _may_begin(self, attempt: SummaryAttempt | None) -> bool:
        """Whether a new summary may help.

        One that failed by itself is not tried again: the window compacts once it is full.
        """
        if attempt is not None and not (attempt.is_lost or self._over(attempt.begun)):
            return False
        return may_help(self._state.situation(), fits=True, refused=False)

    def _begin(self, step: CallModel) -> None:
        """Fix what is covered, and let a thread write the summary of it."""
        state, session = self._state, self._session
        now = state.situation()
        selection = now.selection(None)
        child = self._open()
        if selection is None or child is None:
            return
        try:
            lease = child.executor.acquire()
        except LeaseHeldError:  # another writer was quicker
            return
        lease.unshare()
        try:
            found = Compaction("", "", through=selection.through, tail=selection.tail)
            begun = Begun(
                session.id,
                state.version,
                session.store.host.new_id("prt_"),
                bound_of(now.summarisable, found),
                selection.through,
                selection.tail,
                selection.kept,
                state.conversation.in_force,
                step.tokens,
            )
            model = self._model or state.asks_as[1] or state.model
            run = SummaryRun(
                child,
                now,
                state.version,
                selection,
                marker=None,
                summarizer=self._summarizer,
                hooks=state.hooks,
                model=model,
                since=child.version,
                begun=begun,
            )
            threading.Thread(target=_write, args=(child, lease, run, model), name="summary", daemon=True).start()
        except BaseException:
            child.executor.release(lease)
            raise

    def _open(self) -> Session | None:
        """Return the sub-session, begun now if there is none; None where none can be."""
        name = summaries_id(self._session.id)
        if self._child is None:
            with suppress(AlreadyExistsError, NotFoundError):  # begun by another process meanwhile, or erased
                self._session.subsession(id=name, title="Summaries", agent="compaction")
            with suppress(NotFoundError, KeyMissingError):
                self._child = self._session.store.session(name)
        return self._child


def _write(child: Session, lease: Lease, run: SummaryRun, model: Model | None) -> None:
    """Write a summary into the sub-session; the store may be closed meanwhile."""
    try:
        with lease, child.assistant(model, agent="compaction", mode="compaction", summary=True) as reply:
            try:
                judge(run.write(reply), None, None)
            except SummaryFailure as failed:
                reply.abort(failed.error)
            else:
                reply.finish("stop")
    except EventlogError as error:
        logger().info("a summary is lost: %s", kind_of(error))
    finally:
        with suppress(EventlogError):
            child.executor.release(lease)
