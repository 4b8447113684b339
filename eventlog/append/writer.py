"""One session's writer: decides commands against the state, and commits what they append.

A command is decided at once, and the state takes it in.  What is accepted goes to the log in one append: when a caller waits
for it, or with the store's next flush.  One append of a session is on its way at a time; what is accepted meanwhile goes with the next.
What becomes of them is `backlog.py`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import RLock
from typing import NoReturn, ParamSpec, TypeVar

from eventlog import events as ev
from eventlog.append.backlog import MAX_RUN, Backlog, is_conflict, lease_over
from eventlog.append.delta_buffer import DeltaBuffer
from eventlog.append.gate import Gate
from eventlog.append.metrics import Metrics
from eventlog.append.pending import (
    AcceptedCommand,
    LeaseWrite,
    PendingAppend,
    Terms,
    content_digest,
    limit_bodies,
)
from eventlog.codec.deltas import Key
from eventlog.errors import (
    BusyError,
    ConflictError,
    DataError,
    EventlogError,
    FencedError,
    LeaseHeldError,
    RefusedError,
    StopError,
)
from eventlog.history.lineage import StreamRange
from eventlog.history.streams import head_of
from eventlog.log.contract import Append, Committed, Log
from eventlog.state.committed import CommittedState
from eventlog.state.decide import allowed_deltas, decide, needs_no_lease
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
        self.backlog = Backlog(committed, metrics)
        self.buffer = DeltaBuffer()
        self.gate: weakref.ref[Gate] | None = None
        """That of the pipeline that is open: until it ends only its thread hands anything over."""
        self._wake = wake
        self._inside = False
        """Whether the state is being changed: a signal handler of the same thread may come between."""

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
        """Whether another thread's pipeline is open: only that hands anything over until it ends."""
        gate = None if self.gate is None else self.gate()
        return gate is not None and gate.is_others()

    def _guarded(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Work on the state, held still.

        What an interrupt leaves half changed is read again before it is used.
        An interrupt is what is no `Exception`: after one of those everything is put right on the spot.
        """
        with self.lock:
            if self._inside:
                raise _reentered(self.session)
            self._inside = True
            try:
                return work(*args, **kwargs)
            except Exception:
                raise
            except BaseException:
                self.backlog.torn = True
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
        unit: object = None,
        terms: Terms | None = None,
        then: Callable[[State], Sequence[ev.Event]] | None = None,
        lease_write: LeaseWrite | None = None,
    ) -> AcceptedCommand:
        """Decide on a command's events, with their times.

        They are committed with what comes next, or when a caller waits for them.
        Raises, and takes nothing in, unless the state allows all of them.  `then` is asked for more events, at the time of the
        last one, once the state has taken these in.  `lease_write` goes in with the append that this command goes in with.
        """
        with self.lock:
            if self._inside:
                raise _reentered(self.session)
            self._inside = True
            try:
                if terms is None or terms.creates_at is None:
                    self._ready(epoch)
                if self.buffer.flat:
                    self._collect()
                backlog, state = self.backlog, self.committed.state
                before = state.version
                if terms is not None and terms.expected not in {None, before}:
                    _raise(ConflictError(self.session, terms.expected or 0, before))
                weight = limit_bodies(bodies) if bodies else 0
                decided = decide(state, items)
                command = AcceptedCommand(decided, bodies, epoch, weight, owned, unit, terms)
                try:
                    if not epoch and (terms is None or not terms.is_conditional):
                        needs_no_lease(items, self.session)
                    if then is not None and (more := then(state)):
                        decided += decide(state, [(items[-1][0], event) for event in more])
                except BaseException:
                    state.retract(before)
                    raise
                if not decided:
                    _raise(RefusedError("an append of no events", expected="at least one event", session=self.session))
                backlog.add(command)
                if lease_write is not None:
                    backlog.lease_write = command.lease_write = lease_write
            except Exception:
                raise
            except BaseException:
                self.backlog.torn = True
                raise
            else:
                return command
            finally:
                self._inside = False

    def wake(self, delta: tuple[Key, str] | None = None) -> None:
        """Have what was accepted flushed in time.

        `delta` was put into the buffer, which may have been closed in that moment: `ClosedError` if it is still there.
        """
        if self.buffer.ask():
            self._wake(self)
        elif delta is not None:
            with self.lock:  # the thread that takes deltas out has it
                self.buffer.refuse(*delta)

    def pressure(self) -> None:
        """Make room before a delta goes into a full buffer; raises what keeps it full.

        Until that has worked every delta comes here first, so that what cannot be written does not pile up.
        """
        self.buffer.require_open()
        self.buffer.hold()
        self._guarded(self._ready, self.backlog.epoch)
        self._empty_buffer()
        self.buffer.admit()

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

        `FencedError` if the lease is over, `LeaseHeldError` if another owner was quicker to write it.
        """
        if self.buffer.sealed:
            self.buffer.require_open()
        backlog, committed = self.backlog, self.committed
        if backlog.sent is not None or not backlog.commands or backlog.torn:
            backlog.catch_up()
            if backlog.stopped:
                self.buffer.hold()
        if epoch and committed.lease.epoch > epoch:
            self._fence(epoch)
        if epoch and epoch == backlog.refused_epoch:  # the other owner's lease has the same number
            raise LeaseHeldError(self.session, "another owner", 0)
        if backlog.failure is not None:
            failure, backlog.failure = backlog.failure, None
            raise failure
        if backlog.sent is None and not backlog.commands and committed.state.version >= committed.keep_at:
            committed.keep_if_due()

    def _collect(self) -> None:
        """Accept the buffered deltas, behind what was accepted before them.

        Deltas of a part that takes none any more are left out, and the next caller is told.
        """
        streamed = self.buffer.take()
        if streamed is None:
            return
        state, backlog = self.committed.state, self.backlog
        run, reason = allowed_deltas(state, streamed)
        backlog.failure = backlog.failure or reason
        for piece in run.pieces(MAX_RUN) if run is not None else ():
            state.skip(piece.count)
            backlog.add(AcceptedCommand([piece], None, backlog.epoch, len(piece.text)))

    # -- the lease, and the gate of a pipeline ---------------------------------------------------

    def hold(self, epoch: int, claim: LeaseWrite | None) -> None:
        """Accept deltas under a lease; `claim` writes it with the next append."""
        with self.lock:
            self.backlog.epoch, self.backlog.lease_write = epoch, claim
            self.backlog.stopped = False
            self.buffer.admit()  # what an earlier lease could not write is gone with it

    def leave(self) -> None:
        """Drop what was accepted under the lease, which is over, and is not handed over."""
        backlog = self.backlog
        epoch, backlog.epoch, backlog.lease_write = backlog.epoch, 0, None
        if epoch:
            self._guarded(self._drop, epoch)

    def take_back(self, give: LeaseWrite) -> bool:
        """Keep a lease that an append is to give back; False if it is too late for that."""
        with self.lock:
            if self.backlog.lease_write is give and self.backlog.sent is None:
                self.backlog.lease_write = give.unwritten_claim
                return True
        self.flush()
        return False

    def shut(self, gate: Gate) -> None:
        """Keep other threads from handing anything over, once none of their gates is shut."""
        while True:
            with self.lock:
                if not self.is_held_by_others:
                    self.gate = weakref.ref(gate)
                    return
            self._wait_in_front()

    def _wait_in_front(self) -> None:
        """Let another thread go on with its pipeline, if one is open.

        Raises when that takes too long.
        """
        gate = None if self.gate is None else self.gate()
        if gate is not None and gate.is_others() and (error := gate.wait()) is not None:
            raise error

    def _drop(self, epoch: int) -> None:
        """Let go of what waits to be written under an epoch that is over; the next caller is told."""
        if self.buffer.drop():
            self.backlog.failure = self.backlog.failure or lease_over(self.session)
        self.backlog.drop(epoch)

    def _fence(self, epoch: int) -> None:
        """Let go of what was accepted under a lease that another owner has taken, and raise that."""
        self.buffer.hold()
        self._drop(epoch)
        self.backlog.failure = None  # it is about what is dropped
        raise FencedError(self.session, epoch, self.committed.lease.epoch)

    # -- committing --------------------------------------------------------------------------

    def wait(self, command: AcceptedCommand) -> None:
        """Block until a command is durable; raises why it is not, and then it will not be."""
        try:
            while (pending := self._next(command)) is not None:
                if pending.wait() is not None:
                    self._guarded(self._give_up_behind, pending, command)
        except BaseException as error:
            self._break_off(command, error)
            raise

    async def waited(self, command: AcceptedCommand) -> None:
        """Wait as `wait` does, without blocking the event loop."""
        try:
            while (pending := self._next(command)) is not None:
                if await pending.waited() is not None:
                    self._guarded(self._give_up_behind, pending, command)
        except BaseException as error:
            self._break_off(command, error)
            raise

    def _break_off(self, command: AcceptedCommand, error: BaseException) -> None:
        """End the wait for a command whose outcome is not known.

        After an interrupt it is flushed all the same, with those of its pipeline, and tried again if need be.  A caller who is told
        of an error, as that the log cannot be read now, finds nothing of it in the log later.
        """
        if command.settled or not command.owned:
            return
        with self.lock:
            for one in self.backlog.unsettled():
                if one is command or (one.unit is not None and one.unit is command.unit):
                    if isinstance(error, Exception):
                        self.backlog.refuse(one, error)
                        self.backlog.torn = True  # the state is read again, without it
                    else:
                        one.owned = False
        self.wake()

    def flush(self) -> None:
        """Make everything accepted so far durable; raises the first failure of any of it."""
        last = self._guarded(self._newest)
        if last is not None:
            self.wait(last)
        self._guarded(self._raise_failure)

    def hand_over(self) -> None:
        """Submit what is accepted unless an append is on its way.

        The caller sees to it that the log is waited for.
        """
        last = self._guarded(self._newest)
        if last is not None and not self.is_held_by_others:
            self._next(last)

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

        A request's content is its events without their times; one that was made before gives its first result.
        """
        digest = b"" if request is None else content_digest(items)
        if request is not None and (known := self._known(request, digest)) is not None:
            return known
        terms = Terms(request, digest, expected, creates_at)
        try:
            while True:
                with self.lock:  # an append of its own must not come between what another thread's pipeline appends
                    if not self.is_held_by_others:
                        command = self.accept(items, bodies, epoch=epoch, owned=True, terms=terms, then=then)
                        break
                self._wait_in_front()
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
        assert command.result is not None
        return command.result

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
        """What became of a request id that was used before.

        `RequestReusedError` if that was for something else.
        """
        if self.log.request(self.session, request) is None:
            return None
        with suppress(StopError):  # a caller who may not write any more still learns what became of the request
            self.flush()
        append = Append(session=self.session, payload=b"", count=1, time=0, request=request, digest=digest)
        return self.log.submit(append).wait()

    def _newest(self) -> AcceptedCommand | None:
        """The newest command that is accepted and not settled, the buffered deltas included."""
        backlog, buffer = self.backlog, self.buffer
        buffer.awake = False
        if backlog.torn or buffer.flat:
            self._catch_up()
            if backlog.epoch and self.committed.lease.epoch > backlog.epoch:
                self._fence(backlog.epoch)
            self._collect()
        if backlog.commands:
            return backlog.commands[-1]
        return backlog.sent.commands[-1] if backlog.sent is not None else None

    def _next(self, command: AcceptedCommand) -> PendingAppend | Gate | None:
        """What to wait for before `command` has its outcome.

        None if it is durable; raises why it is not.
        """
        with self.lock:
            if self._inside:
                raise _reentered(self.session)
            self._inside = True
            try:
                backlog = self.backlog
                if backlog.torn:
                    backlog.recover()
                sent = backlog.sent
                if sent is not None and (sent.result is not None or sent.is_done()):
                    backlog.take_in(sent)
                if not command.settled and backlog.sent is None:
                    if self.gate is not None and (gate := self.gate()) is not None and gate.is_others():
                        return gate
                    backlog.hand_over(command)
                if backlog.stopped:
                    self.buffer.hold()  # the next delta meets the error, and raises it to its caller
                if not command.settled:
                    return backlog.sent
                if command.error is not None:
                    if backlog.failure is command.error:
                        backlog.failure = None
                    _raise(command.error)
            except Exception:
                raise
            except BaseException:
                self.backlog.torn = True
                raise
            else:
                return None
            finally:
                self._inside = False

    def _give_up_behind(self, pending: PendingAppend | Gate, command: AcceptedCommand) -> None:
        """Refuse a command behind what could not be written and is tried again later.

        Raised at once, if no caller waits for the command.
        """
        self._catch_up()
        error = pending.error
        if error is None or command.settled or is_conflict(error) or all(other.settled for other in pending.commands):
            return
        if isinstance(error, FencedError) or self.backlog.sent is not None:
            return  # what is kept needs no lease; or another thread has handed it over again
        if not command.owned:
            raise error
        gate = None if self.gate is None else self.gate()
        unfinished: set[int] = set() if gate is None or command in gate.commands else set(map(id, gate.commands))
        for other in self.backlog.commands:  # all that wait, so that each of them need not begin anew
            if other.owned and id(other) not in unfinished:
                self.backlog.refuse(other, error)
        self.backlog.recover()

    def _raise_failure(self) -> None:
        """Raise what became of something without a caller."""
        if self.backlog.sent is not None:
            self._catch_up()
        failure, self.backlog.failure = self.backlog.failure, None
        if failure is not None:
            raise failure

    def _catch_up(self) -> None:
        self.backlog.catch_up()
        if self.backlog.stopped:
            self.buffer.hold()

    # -- reading -----------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Bring the state up to what is committed, and ahead by what is accepted."""
        self._guarded(self._catch_up)

    def known_state(self) -> State:
        """The facts as far as this handle has read them: what others append now may be missing."""
        if self.backlog.torn or self.backlog.behind or not self.committed.loaded:
            self.catch_up()
        return self.committed.state

    def ancestry(self) -> list[StreamRange]:
        """The streams of the session's history; nothing else is looked at."""
        with self.lock:
            return self.committed.ancestry()

    def newest(self) -> int:
        """The version up to which everything is committed now.

        Without a state only the head is read.
        """
        with self.lock:
            if not self.committed.loaded:
                return head_of(self.log, self.session).version
            self.catch_up()
            return self.committed.certain

    def checkpoint(self) -> None:
        """Keep the state as of now, if all is committed and it was kept long enough ago."""
        with self.lock:
            if self.committed.loaded and not self.backlog.torn and not self.backlog.sent and not self.backlog.commands:
                self.committed.keep_if_due()

    def fork_off(self) -> None:
        """This is a child process, in which nothing is accepted."""
        self.lock = RLock()  # another thread of the parent may have held the old one
        self.buffer.fork_off()


def _reentered(session: str) -> BusyError:
    return BusyError(
        f"session {session}: a command came from inside another of the same thread, as from a signal handler;"
        " nothing of it was accepted: let another thread give it"
    )


def _raise(error: Exception) -> NoReturn:
    raise error
