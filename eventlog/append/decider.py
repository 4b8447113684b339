"""Deciding: a session's commands and deltas, against its state, into the backlog.

A command is decided at once, and the state takes it in. One thread at a time decides; what an
interrupt leaves half changed is read again before it is used.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import ParamSpec, TypeVar

from eventlog import events as ev
from eventlog.append.backlog import MAX_RUN, Backlog, lease_lost, lease_over
from eventlog.append.delta_buffer import BufferStatus, DeltaBuffer
from eventlog.append.gate import Gate
from eventlog.append.lease_claim import LeaseStatus
from eventlog.append.metrics import Metrics
from eventlog.append.pending import AcceptedCommand, Terms, Unit, limit_bodies
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import BusyError, ConflictError, EventlogError, RefusedError
from eventlog.state.committed import CommittedState
from eventlog.state.decide import allowed_deltas, decide, needs_no_lease
from eventlog.state.state import State

__all__ = ["Decider"]

P = ParamSpec("P")
R = TypeVar("R")


class Decider:
    """Accepts the commands and deltas of one session.  Safe across threads."""

    def __init__(self, committed: CommittedState, metrics: Metrics) -> None:
        self.session = committed.session
        self.lock = RLock()
        self.committed = committed
        self.buffer = DeltaBuffer()
        self.backlog = Backlog(committed, self.buffer, metrics)
        self.gate: weakref.ref[Gate] | None = None
        """The gate of the pipeline that is open: until it ends only its thread hands anything
        over.
        """
        self._inside = False
        """Whether the state is being changed: a signal handler of the same thread may come
        between.
        """

    def guarded(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
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

    def accept(
        self,
        items: Sequence[tuple[int, ev.Event]],
        bodies: Mapping[bytes, bytes] | None = None,
        *,
        epoch: int = 0,
        owned: bool = False,
        unit: Unit | None = None,
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
        self.guarded(self._accept, command, items, then)
        return command

    def _accept(
        self,
        command: AcceptedCommand,
        items: Sequence[tuple[int, ev.Event]],
        then: Callable[[State], Sequence[ev.Event]] | None,
        *,
        reads: bool = False,
    ) -> None:
        epoch, terms = command.epoch, command.terms
        unread = not reads and self._may_wait_to_read(command, then)
        if terms is None or terms.creates_at is None:
            self.ready(epoch, reads=not unread)
        if self.buffer.flat:
            self._collect()
        backlog, state = self.backlog, self.committed.state
        before, visible = state.version, command.visible_before(state)
        if terms is not None and terms.expected not in {None, before}:
            raise ConflictError(self.session, terms.expected or 0, before)
        if command.bodies:
            command.weight = limit_bodies(command.bodies)
        try:
            decided = command.items = decide(state, items)
        except EventlogError:
            if unread and self.committed.read_on():
                self._accept(command, items, then, reads=True)
                return
            raise
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
        command.messages, command.certain = state.visible - visible, self.committed.certain
        backlog.commands.append(command)
        backlog.weight += command.weight
        backlog.apart += terms is not None
        if command.unit is not None:
            command.unit.commands.append(command)
            command.unit.parts.update([event.part for _, event in items if type(event) is ev.PartStarted])
        if command.returns_lease and backlog.claim is not None:
            backlog.claim.is_returning = True
        if command.owned and backlog.sent is None and not (self.gate is not None and self.gate_of_others() is not None):
            backlog.hand_over()  # its caller waits

    def gate_of_others(self) -> Gate | None:
        """Return the gate of another thread's pipeline, if one is open."""
        gate = None if self.gate is None else self.gate()
        return gate if gate is not None and gate.is_others() else None

    def _may_wait_to_read(self, command: AcceptedCommand, then: object) -> bool:
        """Whether a command may be decided on what was read last, where a read is a round trip.

        Its append is refused if the session is elsewhere: then it is read, and the command is
        decided anew before its caller, who waits, hears of it. So is a command that is refused.
        """
        committed, backlog, terms = self.committed, self.backlog, command.terms
        return (
            committed.log.engine.is_remote
            and command.owned
            and then is None
            and (terms is None or not terms.is_conditional)
            and committed.loaded
            and not (backlog.sent or backlog.commands or backlog.is_behind or self.buffer.flat)
        )

    def ready(self, epoch: int, *, reads: bool = True) -> None:
        """Catch up; raise what became of accepted things without a caller.

        `FencedError` if the lease is over, `LeaseHeldError` if another owner was quicker.
        """
        backlog, committed = self.backlog, self.committed
        if self.buffer.status >= BufferStatus.DRAINED:
            self.buffer.require_open()
        if backlog.sent is not None or not committed.loaded:
            backlog.catch_up()
        elif reads and not backlog.commands:
            committed.read_on()
            backlog.is_behind = False
        if epoch:
            if committed.lease.epoch > epoch:
                raise backlog.fence(epoch)
            claim = backlog.claim
            if claim is not None and claim.status is LeaseStatus.LOST and claim.state.epoch == epoch:
                raise lease_lost(self.session)  # the other owner's lease has the same number
        if backlog.failure is not None:
            self.raise_failure()
        if backlog.sent is None and not backlog.commands and committed.is_due():
            committed.keep_if_due()

    def raise_failure(self) -> None:
        """Raise why something that no caller waits for is not committed."""
        failure, self.backlog.failure = self.backlog.failure, None
        if failure is not None:
            raise failure

    def _collect(self) -> None:
        """Accept the buffered deltas, behind what was accepted before them.

        Those of a part that the open pipeline starts go in with the pipeline. Deltas of a part that
        takes none any more are left out, and the next caller hears of it.
        """
        streamed = self.buffer.drain()
        if streamed is None:
            return
        state, backlog = self.committed.state, self.backlog
        if not backlog.epoch:  # a stream that outlives its lease
            backlog.failure = backlog.failure or lease_over(self.session)
            return
        run, reason = allowed_deltas(state, streamed)
        backlog.failure = backlog.failure or reason
        gate = None if self.gate is None else self.gate()
        started = () if gate is None or run is None else [key for key in run.keys if key[0] in gate.unit.parts]
        if run is not None and gate is not None and len(started) == len(run.keys):
            self._accept_deltas(run, gate.unit)  # all of them are the pipeline's: nothing to part
        elif run is not None and gate is not None and started:
            others = [key for key in run.keys if key not in started]
            self._accept_deltas(run.without(started), None)
            self._accept_deltas(run.without(others), gate.unit)
        else:
            self._accept_deltas(run, None)

    def _accept_deltas(self, run: DeltaRun | None, unit: Unit | None) -> None:
        state, backlog = self.committed.state, self.backlog
        for piece in run.pieces(MAX_RUN) if run is not None else ():
            state.skip(piece.count)
            command = AcceptedCommand([piece], None, backlog.epoch, len(piece.text), unit=unit)
            backlog.commands.append(command)
            backlog.weight += len(piece.text)
            if unit is not None:
                unit.commands.append(command)

    def newest(self) -> AcceptedCommand | None:
        """Accept the buffered deltas; return the newest command whose outcome is not known."""
        backlog, buffer = self.backlog, self.buffer
        buffer.awake = False
        if buffer.flat or not self.committed.loaded:
            backlog.catch_up()
            if backlog.epoch and self.committed.lease.epoch > backlog.epoch:
                raise backlog.fence(backlog.epoch)
            self._collect()
        if backlog.commands:
            return backlog.commands[-1]
        return backlog.sent.commands[-1] if backlog.sent is not None else None
