"""One session's writer: commits what its commands append.

The accepted commands (`queue.py`) go to the log in one append: when a caller waits for one of
them, or with the store's next flush.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import RLock
from time import perf_counter_ns
from typing import ParamSpec, TypeAlias, TypeVar

from eventlog.append.backoff import Backoff, Gate
from eventlog.append.command import Command
from eventlog.append.delta_buffer import DeltaBuffer
from eventlog.append.lease_claim import LeaseClaim
from eventlog.append.metrics import Metrics
from eventlog.append.pending import PendingAppend
from eventlog.append.queue import MAX_RUN, CommandQueue
from eventlog.codec.deltas import Key
from eventlog.errors import DataError, EventlogError, FencedError, LeaseHeldError
from eventlog.history.ancestry import head_of
from eventlog.history.effective_history import StreamRange
from eventlog.log.commit import Committed
from eventlog.log.contract import HeadReader, Log
from eventlog.state.committed import CommittedState
from eventlog.state.state import State

P = ParamSpec("P")
R = TypeVar("R")

Waited: TypeAlias = PendingAppend | Gate | Backoff
"""Waits that may stand between a command and its outcome."""


class SessionWriter:
    """Decides, accepts and commits for one session.  Safe across threads."""

    def __init__(self, committed: CommittedState, wake: Callable[[SessionWriter], None], metrics: Metrics) -> None:
        queue = CommandQueue(committed, metrics)
        self.log: Log = committed.log
        self.session: str = committed.session
        self.committed = committed
        self.queue = queue
        self.lock: RLock = queue.lock
        self.buffer: DeltaBuffer = queue.buffer
        self._guarded = queue.guarded
        self._counted = metrics
        self.accept: Callable[..., Command] = queue.accept
        self._wake = wake

    @property
    def is_ahead(self) -> bool:
        """Whether something is accepted whose outcome is not known."""
        queue = self.queue
        return bool(self.buffer.flat or queue.commands or queue.sent)

    @property
    def is_late(self) -> bool:
        """Whether another writer came before the last append, which was decided anew."""
        return bool(self.queue.backoff.conflicts and self.queue.commands)

    @property
    def is_held_by_others(self) -> bool:
        """Whether another thread's pipeline is open: then only that thread hands anything over."""
        return self.queue.gate_of_others() is not None

    # -- the state ---------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Bring the state up to what is committed, and ahead by what is accepted."""
        self._guarded(self.queue.catch_up)

    def follow(self) -> None:
        """Bring the state up to the head that a reader has read; see `Log.reading`."""
        with self.lock, self.log.reading() as heads:
            if self._is_behind(heads):
                self.catch_up()

    def followed(self) -> State | None:
        """Return the facts if this handle has read all of them; nothing more is read."""
        with self.lock, self.log.reading() as heads:
            return None if self._is_behind(heads) else self.committed.state

    def _is_behind(self, heads: HeadReader) -> bool:
        """Whether the state lacks an event, or is ahead by what is accepted."""
        committed, queue = self.committed, self.queue
        if not committed.loaded or queue.is_behind or queue.commands or queue.sent or self.buffer.flat:
            return True
        head = heads.head(self.session)
        return head is not None and head.version > committed.certain

    def known_state(self) -> State:
        """Return the facts as far as this handle has read them; others' newest may be missing."""
        if self.queue.is_behind or not self.committed.loaded:
            self.catch_up()
        return self.committed.state

    def ancestry(self) -> list[StreamRange]:
        """Return the streams of the session's history."""
        with self.lock:
            return self.committed.ancestry()

    def newest(self) -> int:
        """Return the version up to which everything is committed now.

        Without a state only the head is read.
        """
        with self.lock:
            if not self.committed.loaded:
                with self.log.reading() as heads:
                    return head_of(heads, self.session).version
            self.follow()
            return self.committed.certain

    def checkpoint(self) -> None:
        """Store the state as of now, if all is committed and it was stored long enough ago."""
        with self.lock:
            if self.committed.loaded and not self.queue.sent and not self.queue.commands:
                self.committed.keep_if_due()

    # -- the buffer --------------------------------------------------------------------------

    def wake(self, delta: tuple[Key, str] | None = None) -> None:
        """Have what was accepted flushed in time.

        `delta` was put into the buffer, which may have been closed in that moment: `ClosedError` if
        it is still there.
        """
        if self.buffer.ask():
            self._wake(self)
        elif delta is not None:
            with self.lock:  # the thread that takes deltas out has it
                self.buffer.refuse(*delta)

    def pressure(self) -> None:
        """Make room before a delta goes into a full buffer; raises what keeps it full.

        Until that has worked every delta comes here first, so that what cannot be written does not
        pile up.
        """
        self.buffer.require_open()
        self.buffer.hold()
        self._guarded(self.queue.ready, self.queue.epoch)
        self._empty_buffer()
        self.buffer.open()

    def weigh(self, characters: int) -> None:
        """Commit what is in the buffer before a long delta makes it too much.

        Raises what keeps it there.
        """
        if self.buffer.weigh(characters) > MAX_RUN:
            self._empty_buffer()
            self.buffer.weigh(characters)

    def _empty_buffer(self) -> None:
        """Commit what is in the buffer; inside a pipeline, accept it for the pipeline's append."""
        if self.queue.gate is None or self.queue.gate() is None or self.is_held_by_others:
            self.flush()
        else:
            self._guarded(self.queue.newest)

    # -- the lease, and the gate of a pipeline ---------------------------------------------------

    def hold(self, claim: LeaseClaim) -> None:
        """Accept deltas under a lease, whose record the appends write that it still needs."""
        with self.lock:
            self.queue.claim = claim
            self.buffer.open()  # what an earlier lease could not write is gone with it

    def leave(self) -> None:
        """Drop what was accepted under the lease, which is over, and is not handed over."""
        claim, self.queue.claim = self.queue.claim, None
        if claim is not None:
            self._guarded(self.queue.drop, claim)

    def give_up(self, claim: LeaseClaim) -> None:
        """End a lease that another task takes over: write what was accepted, or drop and count it.

        A pipeline that is open under it is not waited for, and goes in no more.
        """
        with suppress(EventlogError):
            if self.is_held_by_others:
                self._guarded(self.queue.drop, claim)
                self.queue.gate = None
            self.flush()
        if self.queue.claim is claim:
            self.leave()

    def retain(self, claim: LeaseClaim) -> bool:
        """Keep a lease that the next append is to give back; False if it is too late for that."""
        with self.lock:
            if self.queue.claim is claim and self.queue.sent is None:
                for command in self.queue.commands:
                    command.returns_lease = False
                claim.is_returning = claim.is_over = False
                return True
        self.flush()
        return False

    def shut(self, gate: Gate) -> None:
        """Keep other threads from handing anything over, once none of their gates is shut."""
        self.undisturbed(partial(setattr, self.queue, "gate", weakref.ref(gate)))

    def open_gate(self, gate: Gate) -> None:
        """Accept the buffered deltas for the pipeline, and let other threads hand over again.

        Nothing is left to do if the pipeline's lease was taken over.
        """
        shut = self.queue.gate
        if shut is None or shut() is not gate:
            return
        try:
            if self.buffer.flat:
                self._guarded(self.queue.newest)
        finally:
            self.queue.gate = None

    def undisturbed(self, work: Callable[[], R]) -> R:
        """Do some work, under the lock, once no other thread's pipeline is open."""
        while True:
            with self.lock:
                gate = self.queue.gate_of_others()
                if gate is None:
                    return work()
                gate.require_patience()
            gate.wait()

    # -- committing --------------------------------------------------------------------------

    def wait(self, command: Command) -> None:
        """Block until a command is durable; raises why it is not, and then it will not be."""
        pending: Waited | None = None if command.outcome is not None else self.queue.sent
        begun = perf_counter_ns()
        try:
            if pending is not None:
                pending.wait()
            while (pending := self._guarded(self._next, command, pending)) is not None:
                pending.wait()
            self._note_wait(begun)
        except BaseException as error:
            if self._broken_off(command, error):
                raise

    async def waited(self, command: Command) -> None:
        """Wait as `wait` does, without blocking the event loop."""
        pending: Waited | None = None
        begun = perf_counter_ns()
        try:
            while (pending := self._guarded(self._next, command, pending)) is not None:
                await pending.waited()
            self._note_wait(begun)
        except BaseException as error:
            if self._broken_off(command, error):
                raise

    def _note_wait(self, begun: int) -> None:
        self._counted.waits += 1
        self._counted.wait_nanoseconds += perf_counter_ns() - begun

    def _next(self, command: Command, ended: Waited | None, *, flushes: bool = False) -> Waited | None:
        """Return what to wait for before `command` has its outcome; None if it is durable.

        Raises why the command is not durable, to its owner. A caller who `flushes` hears of others'
        commands nothing, but of an append that failed and is tried again later: `ended` is what was
        waited for before.
        """
        queue = self.queue
        if queue.sent is not None or not self.committed.loaded:
            queue.resolve()
        if flushes and queue.sent is None and isinstance(ended, PendingAppend) and ended.is_retried_later:
            assert isinstance(ended.outcome, Exception)
            if not isinstance(command.outcome, Committed):
                raise ended.outcome
        if command.outcome is None and queue.sent is None:
            if self.queue.gate is not None and (gate := self.queue.gate_of_others()) is not None:
                gate.require_patience()
                return gate
            if queue.backoff.asks_for_pause:
                if ended is not queue.backoff:
                    return queue.backoff
                queue.refresh()
            if command.outcome is None:
                queue.hand_over()
        outcome = command.outcome
        if outcome is None:
            return queue.sent
        if isinstance(outcome, Exception) and not (flushes and (command.owned or isinstance(outcome, EventlogError))):
            if queue.failure is outcome:
                queue.failure = None
            raise outcome
        return None

    def _broken_off(self, command: Command, error: BaseException) -> bool:
        """End the wait for a command; False for an error that would contradict its commit.

        After an interrupt it is flushed all the same, with those of its pipeline, and tried again
        if need be. A caller who hears of an error, as that the log cannot be read now, finds
        nothing of the command in the log later, unless the append with it is on its way.
        """
        if isinstance(error, Exception) and isinstance(command.outcome, Committed):
            return False  # the next caller meets the error again
        if command.outcome is not None or not command.owned:
            return True
        with self.lock:
            sent = self.queue.sent
            if isinstance(error, Exception) and sent is not None and command in sent.commands:
                return True  # as for a signal handler inside the commit of its own thread
            if isinstance(error, Exception):
                self.queue.refuse(command, error)
                self.committed.loaded = False  # the state is read again, without it
            else:
                for each in (command,) if command.unit is None else command.unit.commands:
                    each.owned = False
        self.wake()
        return True

    def flush(self) -> None:
        """Make everything accepted so far durable.

        Raises the first failure of what no caller waits for: what is owned is told to its owner.
        """
        self.settle()
        self.queue.raise_failure()

    def settle(self) -> None:
        """Wait until everything accepted so far has its outcome; failures stay to be told.

        Raises why an append failed that is tried again later.
        """
        while (last := self._newest()) is not None:
            pending: Waited | None = None
            while (pending := self._guarded(self._next, last, pending, flushes=True)) is not None:
                pending.wait()
            if isinstance(last.outcome, Committed) or all(command.owned for command in self.queue.commands):
                break  # else it was refused, and others of its append are tried again
        if self.queue.sent is not None:
            self.catch_up()

    def _newest(self) -> Command | None:
        """Return the newest command whose outcome is not known; note that a lease was lost."""
        try:
            return self._guarded(self.queue.newest)
        except (FencedError, LeaseHeldError) as error:
            self.queue.failure = self.queue.failure or error
            return self._guarded(self.queue.newest)

    def hand_over(self) -> None:
        """Submit what is accepted unless an append is on its way.

        The caller sees to it that the log is waited for.
        """
        if self._guarded(self.queue.newest) is not None and not self.is_held_by_others:
            self._guarded(self._submit)

    def _submit(self) -> None:
        """Submit what is accepted unless an append is on its way; failures wait for a caller."""
        self.queue.resolve()
        if self.queue.sent is None and self.queue.commands:
            self.queue.refresh()
            if self.queue.commands:
                self.queue.hand_over()

    def end(self) -> None:
        """Commit everything accepted, and what comes in meanwhile; accept nothing from then on.

        The buffer is closed before.
        """
        while True:
            try:
                self.flush()
            except EventlogError as error:
                with self.lock:
                    self.buffer.end()
                    if isinstance(error, DataError) and not self.is_ahead:
                        return  # all of it is in; what others appended can be told to those who read it
                raise
            with self.lock:
                if not self.is_ahead:
                    self.buffer.end()
                    return

    def fork_off(self) -> None:
        """Give up what the parent accepted: this is a child process."""
        self.lock = RLock()  # another thread of the parent may have held the old one
        self.queue.lock = self.lock
        self.buffer.fork_off()
