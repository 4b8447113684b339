"""One session's writer: decides commands against the state, and commits what they append.

A command is decided at once, and the state takes it in. The accepted commands go to the log in one
append: when a caller waits for one of them, or with the store's next flush. One append of a session
is on its way at a time; commands accepted meanwhile go with the next. `backlog.py` has what becomes
of them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import RLock
from typing import NoReturn, ParamSpec, TypeVar

from eventlog import events as ev
from eventlog.append.backlog import MAX_RUN, Backlog, lease_lost, lease_over
from eventlog.append.delta_buffer import BufferStatus, DeltaBuffer
from eventlog.append.gate import Gate
from eventlog.append.lease_claim import LeaseClaim, LeaseStatus
from eventlog.append.metrics import Metrics
from eventlog.append.pending import AcceptedCommand, PendingAppend, Terms, content_digest, limit_bodies
from eventlog.codec.deltas import Key
from eventlog.errors import (
    BusyError,
    ConflictError,
    DataError,
    EventlogError,
    FencedError,
    RefusedError,
    StopError,
)
from eventlog.history.lineage import Stream
from eventlog.history.streams import head_of
from eventlog.log.contract import Append, Committed, Log
from eventlog.state.committed import CommittedState
from eventlog.state.decide import decide, needs_no_lease, still_admitted
from eventlog.state.state import State

__all__ = ["SessionWriter"]

MAX_ACCEPTED = 2_048
"""Commands that no caller waits for, after which the next one waits until they are committed."""
MAX_ACCEPTED_BYTES = 1 << 20
"""Bytes of their bodies after which it does."""

P = ParamSpec("P")
R = TypeVar("R")


class SessionWriter:
    """Decides, accepts and commits for one session.  Safe across threads."""

    def __init__(self, committed: CommittedState, wake: Callable[[SessionWriter], None], metrics: Metrics) -> None:
        self.log: Log = committed.log
        self.session = committed.session
        self.lock = RLock()
        self.committed = committed
        self.buffer = DeltaBuffer()
        self.backlog = Backlog(committed, self.buffer, metrics)
        self.gate: weakref.ref[Gate] | None = None
        """The gate of the pipeline that is open: until it ends only its thread hands anything
        over.
        """
        self._wake = wake
        self._inside = False
        """Whether the state is being changed: a signal handler of the same thread may come
        between.
        """

    @property
    def is_ahead(self) -> bool:
        """Whether something is accepted whose outcome is not known."""
        backlog = self.backlog
        return bool(self.buffer.flat or backlog.commands or backlog.sent)

    @property
    def is_crowded(self) -> bool:
        """Whether so much is accepted that a command no caller waits for has to wait."""
        backlog = self.backlog
        return self.gate is None and (len(backlog.commands) >= MAX_ACCEPTED or backlog.weight > MAX_ACCEPTED_BYTES)

    @property
    def is_held_by_others(self) -> bool:
        """Whether another thread's pipeline is open: then only that thread hands anything over."""
        return self._gate_of_others() is not None

    def _guarded(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Work on the state, held still; what an interrupt leaves half changed is read again.

        A refusal leaves nothing half changed: its `EventlogError` comes after all was put right.
        """
        with self.lock:
            if self._inside:
                raise BusyError(
                    f"session {self.session}: a command came from inside another of the same thread, as from a signal"
                    " handler; nothing of it was accepted: give it from another thread"
                )
            self._inside = True
            try:
                return work(*args, **kwargs)
            except EventlogError:
                raise
            except BaseException:
                self.committed.loaded = False
                raise
            finally:
                self._inside = False

    # -- accepting ---------------------------------------------------------------------------

    def accept(
        self,
        items: Sequence[tuple[int, ev.Event]],
        bodies: Mapping[bytes, bytes] | None = None,
        *,
        epoch: int = 0,
        owned: bool = False,
        unit: list[AcceptedCommand] | None = None,
        terms: Terms | None = None,
        then: Callable[[State], Sequence[ev.Event]] | None = None,
        returns_lease: bool = False,
    ) -> AcceptedCommand:
        """Decide on a command's events, with their times.

        They are committed with what comes next, or when a caller waits for them; the commands in
        `unit`, which this one is added to, go in together or not at all. Raises, and takes nothing
        in, unless the state allows all of them. `then` is asked for more events, at the time of the
        last one, once the state has taken these in. With `returns_lease` the lease goes back in the
        append that this command goes in with.
        """
        command = AcceptedCommand([], bodies, epoch, 0, owned, unit, terms, returns_lease)
        self._guarded(self._accept, command, items, then)
        return command

    def _accept(
        self,
        command: AcceptedCommand,
        items: Sequence[tuple[int, ev.Event]],
        then: Callable[[State], Sequence[ev.Event]] | None,
    ) -> None:
        epoch, terms = command.epoch, command.terms
        if terms is None or terms.creates_at is None:
            self._ready(epoch)
        if self.buffer.flat:
            self._collect()
        backlog, state = self.backlog, self.committed.state
        before = state.version
        if terms is not None and terms.expected not in {None, before}:
            raise ConflictError(self.session, terms.expected or 0, before)
        if command.bodies:
            command.weight = limit_bodies(command.bodies)
        decided = command.items = decide(state, items)
        try:
            if not epoch and (terms is None or not terms.is_conditional):
                needs_no_lease(items, self.session)
            if then is not None and (more := then(state)):
                decided += decide(state, [(items[-1][0], event) for event in more])
        except BaseException:
            state.retract(before)
            raise
        if not decided:
            raise RefusedError("an append of no events", expected="at least one event", session=self.session)
        backlog.commands.append(command)
        backlog.weight += command.weight
        backlog.apart += terms is not None
        if command.unit is not None:
            command.unit.append(command)
        if command.returns_lease and backlog.claim is not None:
            backlog.claim.is_returning = True
        if command.owned and backlog.sent is None and not (self.gate is not None and self.is_held_by_others):
            backlog.hand_over()  # its caller waits

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
        self._guarded(self._ready, self.backlog.epoch)
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
        if self.gate is None or self.gate() is None or self.is_held_by_others:
            self.flush()
        else:
            self._guarded(self._newest)

    def _ready(self, epoch: int) -> None:
        """Catch up; raise what became of accepted things without a caller.

        `FencedError` if the lease is over, `LeaseHeldError` if another owner was quicker to write
        it.
        """
        backlog, committed = self.backlog, self.committed
        if self.buffer.status >= BufferStatus.SEALED:
            self.buffer.require_open()
        if backlog.sent is not None or not committed.loaded:
            backlog.catch_up()
        elif not backlog.commands:
            committed.read_on()
            backlog.is_behind = False
        if epoch:
            if committed.lease.epoch > epoch:
                self._fence(epoch)
            claim = backlog.claim
            if claim is not None and claim.status is LeaseStatus.LOST and claim.state.epoch == epoch:
                raise lease_lost(self.session)  # the other owner's lease has the same number
        if backlog.failure is not None:
            self._raise_failure()
        if backlog.sent is None and not backlog.commands and committed.state.version >= committed.keep_at:
            committed.keep_if_due()

    def _raise_failure(self) -> None:
        """Raise why something that no caller waits for is not committed."""
        failure, self.backlog.failure = self.backlog.failure, None
        if failure is not None:
            raise failure

    def _collect(self) -> None:
        """Accept the buffered deltas, behind what was accepted before them.

        Deltas of a part that takes none any more are left out, and the next caller hears of it.
        """
        streamed = self.buffer.drain()
        if streamed is None:
            return
        state, backlog = self.committed.state, self.backlog
        run, reason = still_admitted(state, streamed)
        backlog.failure = backlog.failure or reason
        for piece in run.pieces(MAX_RUN) if run is not None else ():
            state.skip(piece.count)
            backlog.commands.append(AcceptedCommand([piece], None, backlog.epoch, len(piece.text)))
            backlog.weight += len(piece.text)

    # -- the lease, and the gate of a pipeline ---------------------------------------------------

    def hold(self, claim: LeaseClaim) -> None:
        """Accept deltas under a lease, whose record the appends write that it still needs."""
        with self.lock:
            self.backlog.claim = claim
            self.buffer.open()  # what an earlier lease could not write is gone with it

    def leave(self) -> None:
        """Drop what was accepted under the lease, which is over, and is not handed over."""
        claim, self.backlog.claim = self.backlog.claim, None
        if claim is not None:
            self._guarded(self._drop, claim.state.epoch)

    def retain(self, claim: LeaseClaim) -> bool:
        """Keep a lease that the next append is to give back; False if it is too late for that."""
        with self.lock:
            if self.backlog.claim is claim and self.backlog.sent is None:
                for command in self.backlog.commands:
                    command.returns_lease = False
                claim.is_returning = claim.is_over = False
                return True
        self.flush()
        return False

    def shut(self, gate: Gate) -> None:
        """Keep other threads from handing anything over, once none of their gates is shut."""
        self._undisturbed(partial(setattr, self, "gate", weakref.ref(gate)))

    def _undisturbed(self, work: Callable[[], R]) -> R:
        """Do some work, under the lock, once no other thread's pipeline is open."""
        while True:
            with self.lock:
                gate = self._gate_of_others()
                if gate is None:
                    return work()
            gate.wait()

    def _gate_of_others(self) -> Gate | None:
        """Return the gate of another thread's pipeline, if one is open."""
        gate = None if self.gate is None else self.gate()
        return gate if gate is not None and gate.is_others() else None

    def _drop(self, epoch: int) -> None:
        """Refuse what waits to be written under a lease that is over; the next caller hears of
        it.
        """
        if self.buffer.drop():
            self.backlog.failure = self.backlog.failure or lease_over(self.session)
        self.backlog.drop(epoch)

    def _fence(self, epoch: int) -> NoReturn:
        """Refuse what was accepted under a lease that another owner has taken, and raise that."""
        self.buffer.hold()
        self._drop(epoch)
        self.backlog.failure = None  # it is about what is dropped
        raise FencedError(self.session, epoch, self.committed.lease.epoch)

    # -- committing --------------------------------------------------------------------------

    def wait(self, command: AcceptedCommand) -> None:
        """Block until a command is durable; raises why it is not, and then it will not be."""
        pending: PendingAppend | Gate | None = None if command.outcome is not None else self.backlog.sent
        try:
            if pending is not None:
                pending.wait()
            while (pending := self._guarded(self._next, command, pending)) is not None:
                pending.wait()
        except BaseException as error:
            self._break_off(command, error)
            raise

    async def waited(self, command: AcceptedCommand) -> None:
        """Wait as `wait` does, without blocking the event loop."""
        pending: PendingAppend | Gate | None = None
        try:
            while (pending := self._guarded(self._next, command, pending)) is not None:
                await pending.waited()
        except BaseException as error:
            self._break_off(command, error)
            raise

    def _next(self, command: AcceptedCommand, ended: PendingAppend | Gate | None) -> PendingAppend | Gate | None:
        """Return what to wait for before `command` has its outcome; None if it is durable.

        Raises why the command is not durable. `ended` is what was waited for before: if that append
        failed, and is tried again later, a caller who only flushes is told so.
        """
        backlog = self.backlog
        if backlog.sent is not None or not self.committed.loaded:
            backlog.resolve()
        if command.outcome is None and backlog.sent is None:
            if self.gate is not None and (gate := self._gate_of_others()) is not None:
                return gate
            if isinstance(ended, PendingAppend) and ended.is_retried_later and not command.owned:
                assert isinstance(ended.outcome, Exception)
                raise ended.outcome
            backlog.hand_over()
        outcome = command.outcome
        if outcome is None:
            return backlog.sent
        if isinstance(outcome, Exception):
            if backlog.failure is outcome:
                backlog.failure = None
            raise outcome
        return None

    def _break_off(self, command: AcceptedCommand, error: BaseException) -> None:
        """End the wait for a command whose outcome is not known.

        After an interrupt it is flushed all the same, with those of its pipeline, and tried again
        if need be. A caller who hears of an error, as that the log cannot be read now, finds
        nothing of the command in the log later.
        """
        if command.outcome is not None or not command.owned:
            return
        with self.lock:
            if isinstance(error, Exception):
                self.backlog.refuse(command, error)
                self.committed.loaded = False  # the state is read again, without it
            else:
                for each in command.unit or (command,):
                    each.owned = False
        self.wake()

    def flush(self) -> None:
        """Make everything accepted so far durable; raises the first failure of any of it."""
        last = self._guarded(self._newest)
        if last is not None:
            self.wait(last)
        if self.backlog.sent is not None:
            self.catch_up()
        self._raise_failure()

    def hand_over(self) -> None:
        """Submit what is accepted unless an append is on its way.

        The caller sees to it that the log is waited for.
        """
        last = self._guarded(self._newest)
        if last is not None and not self.is_held_by_others:
            self._guarded(self._next, last, None)

    def commit(
        self,
        items: Sequence[tuple[int, ev.Event]],
        bodies: Mapping[bytes, bytes] | None = None,
        *,
        epoch: int = 0,
        expected: int | None = None,
        request: str | None = None,
        creates_at: int | None = None,
        then: Callable[[State], Sequence[ev.Event]] | None = None,
    ) -> Committed:
        """Commit a command in an append of its own; durable when it returns.

        A request's content is its events without their times; one that was made before gives its
        first result.
        """
        digest = b"" if request is None else content_digest(items)
        if request is not None and (known := self._known(request, digest)) is not None:
            return known
        if expected is not None and self.is_ahead:
            self.flush()  # another writer may be between what is committed and what is accepted
        terms = Terms(request, digest, expected, creates_at)
        accept = partial(self.accept, items, bodies, epoch=epoch, owned=True, terms=terms, then=then)
        try:
            command = self._undisturbed(accept)  # its append must not part what another thread's pipeline appends
            self.wait(command)
        except EventlogError:
            if request is None:
                raise
            if self.is_ahead:
                with suppress(EventlogError):  # another thread's append of the same request may be on its way
                    self.flush()
            known = self._known(request, digest)
            if known is None:
                raise
            return known
        assert isinstance(command.outcome, Committed)
        return command.outcome

    def end(self) -> None:
        """Commit everything accepted, and what comes in meanwhile; accept nothing from then on.

        The buffer is closed before.
        """
        while True:
            try:
                self.flush()
            except EventlogError as error:
                with self.lock:
                    self.buffer.seal()
                    if isinstance(error, DataError) and not self.is_ahead:
                        return  # all of it is in; what others appended can be told to those who read it
                raise
            with self.lock:
                if not self.is_ahead:
                    self.buffer.seal()
                    return

    def _known(self, request: str, digest: bytes) -> Committed | None:
        """Return the result of a request id that was used before, if it was.

        `RequestReusedError` if that was for something else.
        """
        if self.log.request(self.session, request) is None:
            return None
        with suppress(StopError):  # a caller who may not write any more still learns what became of the request
            self.flush()
        append = Append(session=self.session, payload=b"", count=1, time=0, request=request, digest=digest)
        return self.log.submit(append).wait()

    def _newest(self) -> AcceptedCommand | None:
        """Accept the buffered deltas; return the newest command whose outcome is not known."""
        backlog, buffer = self.backlog, self.buffer
        buffer.awake = False
        if buffer.flat or not self.committed.loaded:
            backlog.catch_up()
            if backlog.epoch and self.committed.lease.epoch > backlog.epoch:
                self._fence(backlog.epoch)
            self._collect()
        if backlog.commands:
            return backlog.commands[-1]
        return backlog.sent.commands[-1] if backlog.sent is not None else None

    # -- reading -----------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Bring the state up to what is committed, and ahead by what is accepted."""
        self._guarded(self.backlog.catch_up)

    def known_state(self) -> State:
        """Return the facts as far as this handle has read them; others' newest may be missing."""
        if self.backlog.is_behind or not self.committed.loaded:
            self.catch_up()
        return self.committed.state

    def ancestry(self) -> list[Stream]:
        """Return the streams of the session's history; nothing else is looked at."""
        with self.lock:
            return self.committed.ancestry()

    def newest(self) -> int:
        """Return the version up to which everything is committed now.

        Without a state only the head is read.
        """
        with self.lock:
            if not self.committed.loaded:
                return head_of(self.log, self.session).version
            self.catch_up()
            return self.committed.certain

    def checkpoint(self) -> None:
        """Store the state as of now, if all is committed and it was stored long enough ago."""
        with self.lock:
            if self.committed.loaded and not self.backlog.sent and not self.backlog.commands:
                self.committed.keep_if_due()

    def fork_off(self) -> None:
        """Give up what the parent accepted: this is a child process."""
        self.lock = RLock()  # another thread of the parent may have held the old one
        self.buffer.fork_off()
