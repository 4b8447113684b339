"""The commands of one session on their way to the log.

    accept      decides a command: the state takes it in at once, or refuses it
    hand_over   makes one append of the accepted commands, and submits it
    resolve     takes in what became of the append: its commands have their outcome

One append of a session is on its way at a time; commands accepted meanwhile go with the next. One
thread at a time decides; what an interrupt leaves half changed is read again before it is used.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import RLock
from typing import ParamSpec, TypeVar

from eventlog import events as ev
from eventlog.append.accepted_commands import AcceptedCommands
from eventlog.append.backoff import Gate
from eventlog.append.command import Command, Terms, Unit, count_of, limit_bodies
from eventlog.append.delta_buffer import BufferStatus
from eventlog.append.lease_claim import LeaseClaim, LeaseStatus, lease_lost, lease_over
from eventlog.append.metrics import Metrics
from eventlog.append.pending import PendingAppend, end_of_append, record_of
from eventlog.codec.decoded import DecodedCommit
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import BusyError, ConflictError, EventlogError, FencedError, LeaseHeldError, RefusedError
from eventlog.history.value_index import ValueIndex
from eventlog.history.value_tree import changes_in
from eventlog.log.commit import Committed
from eventlog.state.committed import CommittedState
from eventlog.state.decide import allowed_deltas, decide, kinds_of, needs_no_lease
from eventlog.state.evolve import COUNTED
from eventlog.state.state import State

MAX_RUN = 16 * 1024 * 1024
"""Characters of deltas, and bytes of bodies, of one append; more of them go in several."""
RECENT = 8
"""Appends retained decoded, so that a follower of the session need not read them back."""
RECENT_BYTES = 1 << 14
"""Encoded bytes of the largest append that is retained so."""

P = ParamSpec("P")
R = TypeVar("R")


class CommandQueue(AcceptedCommands):
    """Accepts the commands and deltas of one session, and commits them.  Safe across threads."""

    weight: int
    apart: int

    def __init__(self, committed: CommittedState, metrics: Metrics) -> None:
        super().__init__(committed, metrics)
        self.lock: RLock = RLock()
        self.gate: weakref.ref[Gate] | None = None
        """The gate of the open pipeline: until it ends only its thread hands anything over."""
        self.recent: deque[DecodedCommit] = deque(maxlen=RECENT)
        """The newest own appends, once a follower has asked for them (`own_appends.py`)."""
        self.is_followed = False
        self.is_remote: bool = committed.log.engine.is_remote
        self.values: ValueIndex = ValueIndex(committed.log, committed.session)
        """The index of the session's values, which its readers share."""
        self._inside = False
        """Whether the state is being changed: a signal handler of this thread may come between."""

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
                self._metrics.refusals += 1
                raise
            except BaseException:
                self.committed.loaded = False
                raise
            finally:
                self._inside = False

    def gate_of_others(self) -> Gate | None:
        """Return the gate of another thread's pipeline, if one is open."""
        gate = None if self.gate is None else self.gate()
        return gate if gate is not None and gate.is_others() else None

    # -- accepting -----------------------------------------------------------------------------

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
    ) -> Command:
        """Decide on a command's events, with their times.

        They are committed with what comes next, or when a caller waits for them; the commands in
        `unit`, which this one is added to, go in together or not at all. Raises, and takes nothing
        in, unless the state allows all of them. `then` is asked for more events, at the time of the
        last one, once the state has taken these in. With `returns_lease` the lease goes back in the
        append that this command goes in with.
        """
        command = Command([], bodies, epoch, 0, owned, unit, terms, returns_lease)
        self.guarded(self._accept, command, items, then)
        return command

    def _accept(
        self,
        command: Command,
        items: Sequence[tuple[int, ev.Event]],
        then: Callable[[State], Sequence[ev.Event]] | None,
        *,
        reads: bool = True,
    ) -> None:
        terms, epoch = command.terms, command.epoch
        if self.is_remote and reads:
            reads = not self._may_wait_to_read(command, then)
        if not command.begins:
            self.ready(epoch, reads=reads)
        if self.buffer.flat:
            self._collect()
        committed = self.committed
        state = committed.state
        before = state.version
        kinds = kinds_of(items)
        is_counted = command.begins or then is not None or not COUNTED.isdisjoint(kinds)
        visible = state.visible if is_counted and not command.begins else 0
        if terms is not None and terms.expected not in {None, before}:
            raise ConflictError(self.session, terms.expected or 0, before)
        if command.bodies:
            command.weight = limit_bodies(command.bodies)
        try:
            decided = command.items = decide(state, items)
        except EventlogError:
            if not reads and committed.read_on():
                self._accept(command, items, then)
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
        command.certain = committed.certain
        if is_counted:
            command.messages = state.visible - visible
        self.commands.append(command)
        self.weight += command.weight
        self.apart += terms is not None
        if command.unit is not None:
            command.unit.commands.append(command)
            if ev.PartStarted in kinds:
                command.unit.parts.update([event.part for _, event in items if type(event) is ev.PartStarted])
        if command.returns_lease and self.claim is not None:
            self.claim.is_returning = True
        if command.owned and self.sent is None and (self.gate is None or self.gate_of_others() is None):
            self.hand_over()  # its caller waits

    def _may_wait_to_read(self, command: Command, then: object) -> bool:
        """Whether a command may be decided on what was read last, where a read is a round trip.

        Its append is refused if the session is elsewhere: then it is read, and the command is
        decided anew before its caller, who waits, hears of it. So is a command that is refused.
        Under a lease the others append nothing that forbids what its holder does.
        """
        return (
            (command.owned or command.epoch > 0)
            and then is None
            and (command.terms is None or not command.terms.is_conditional)
            and self.committed.loaded
            and not (self.sent or self.commands or self.is_behind or self.buffer.flat)
        )

    def ready(self, epoch: int, *, reads: bool = True) -> None:
        """Catch up; raise what became of accepted things without a caller.

        `FencedError` if the lease is over, `LeaseHeldError` if another owner was quicker.
        """
        committed = self.committed
        if self.buffer.status >= BufferStatus.DRAINED:
            self.buffer.require_open()
        if self.sent is not None or not committed.loaded:
            self.catch_up()
        elif reads and not self.commands:
            committed.read_on()
            self.is_behind = False
        if epoch:
            if committed.lease.epoch > epoch:
                raise self.fence(epoch)
            claim = self.claim
            if claim is not None and claim.status is LeaseStatus.LOST and claim.state.epoch == epoch:
                raise lease_lost(self.session)  # the other owner's lease has the same number
        if self.failure is not None:
            self.raise_failure()
        if self.sent is None and not self.commands:
            committed.keep_if_due()

    def raise_failure(self) -> None:
        """Raise why something that no caller waits for is not committed."""
        failure, self.failure = self.failure, None
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
        if not self.epoch:  # a stream that outlives its lease
            self.failure = self.failure or lease_over(self.session)
            return
        run, reason = allowed_deltas(self.committed.state, streamed)
        self.failure = self.failure or reason
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
        for piece in run.pieces(MAX_RUN) if run is not None else ():
            self.committed.state.skip(piece.count)
            command = Command([piece], epoch=self.epoch, weight=len(piece.text), unit=unit)
            self.commands.append(command)
            self.weight += command.weight
            if unit is not None:
                unit.commands.append(command)

    def newest(self) -> Command | None:
        """Accept the buffered deltas; return the newest command whose outcome is not known."""
        self.buffer.awake = False
        if self.buffer.flat or not self.committed.loaded:
            self.catch_up()
            if self.epoch and self.committed.lease.epoch > self.epoch:
                raise self.fence(self.epoch)
            self._collect()
        if self.commands:
            return self.commands[-1]
        return self.sent.commands[-1] if self.sent is not None else None

    # -- the append on its way -------------------------------------------------------------------

    def hand_over(self) -> None:
        """Submit the waiting commands, or as many as go into one append.

        An error is the outcome of that append, as if the log had refused it.
        """
        commands, rest = self.commands, []
        if self.apart or self.weight > MAX_RUN:
            cut = end_of_append(commands, MAX_RUN)
            commands, rest = commands[:cut], commands[cut:]
        sent = self.sent = PendingAppend(commands)  # noted first, so that an interrupt loses nothing
        self.enqueue(rest)
        committed, metrics, claim = self.committed, self._metrics, self.claim
        try:
            last = committed.state.version - (sum([count_of(each.items) for each in rest]) if rest else 0)
            append = sent.prepare(committed, last, claim, None if claim is None else record_of(claim, rest))
            sent.ticket = committed.log.submit(append)
        except Exception as error:  # noqa: BLE001 - any error is the outcome of these commands
            sent.outcome = error
            return
        metrics.appends += 1
        metrics.events += append.count
        metrics.payload_bytes += len(append.payload)
        if append.bodies:
            metrics.body_bytes += sum([len(packed) for _, packed in append.bodies])

    def catch_up(self) -> None:
        """Bring the state up to what is committed, and ahead by what is accepted."""
        committed = self.committed
        if self.sent is not None or not committed.loaded:
            self.resolve()
        if self.sent is None and not self.commands:
            if committed.loaded:
                committed.read_on()
            else:
                committed.load()
            self.is_behind: bool = False

    def resolve(self) -> None:
        """Take in the outcome of the append on its way, if it is known; repair after interrupts."""
        committed, sent = self.committed, self.sent
        if sent is None:
            if self.commands and not committed.loaded:
                self.recover()
            return
        if sent.outcome is None:
            if committed.loaded and not sent.is_done():
                return
            if sent.ticket is None:  # an interrupt came while it was handed over
                sent.outcome = sent.found(committed)
            else:
                sent.wait()
        outcome = sent.outcome
        if isinstance(outcome, Committed):
            for command in sent.commands:
                command.outcome = outcome
            if self.backoff.conflicts:
                self.backoff.end()
            if self._took_in(sent, outcome):
                self.sent = None  # last: an interrupt before it only has all this done again
                return
        elif outcome is not None:
            self.fail(sent, outcome)
        self.enqueue(list(dict.fromkeys([*sent.commands, *self.commands])))
        self.sent = None
        self.recover()

    def _took_in(self, sent: PendingAppend, outcome: Committed) -> bool:
        """Note that an append is committed; False if it is not where it was decided to be."""
        committed, append = self.committed, sent.append
        assert append is not None
        if append.lease is not None and not outcome.repeated:
            committed.lease = append.lease
            if sent.claim is not None:
                sent.claim.status = LeaseStatus.HELD if append.lease.until else LeaseStatus.RETURNED
            if sent.claim is self.claim and not append.lease.until:
                self.claim: LeaseClaim | None = None
        if outcome.first != sent.first or outcome.repeated or not committed.loaded:
            return False
        valued, committed.certain, committed.entry = committed.entry.valued, sent.last, sent.entry
        committed.uncounted = 0
        committed.state.commit_to(sent.last)
        if sent.entry.valued != valued:
            with suppress(EventlogError):  # derived: the next reader does it
                self.values.note(changes_in(sent.events()), sent.entry.valued)
        if self.is_followed and len(append.payload) <= RECENT_BYTES:
            self.recent.append(
                DecodedCommit(self.session, sent.first, sent.last, outcome.position, append.epoch, sent.batch)
            )
        return True

    # -- the end of a lease ----------------------------------------------------------------------

    def drop(self, claim: LeaseClaim) -> None:
        """Refuse what waits to be written under a lease that is over."""
        leased = self.leased(claim.state.epoch)
        if self.lose(claim, leased):
            self.failure = self.failure or lease_over(self.session)
        for command in leased:
            self.refuse(command, lease_over(self.session))
        if leased:
            self.committed.loaded = False
            self.resolve()

    def fence(self, epoch: int) -> FencedError | LeaseHeldError:
        """Refuse what was accepted under a lease that another owner has taken; return why.

        What is on its way is committed or refused by then. `LeaseHeldError` for a claim that is in
        memory only and under which nothing was accepted: its owner has never run the session.
        """
        self.buffer.hold()
        claim = self.claim
        if self.sent is not None:
            self.committed.loaded = False
            self.resolve()
        if claim is None or claim.state.epoch != epoch:
            return FencedError(self.session, epoch, self.committed.lease.epoch)
        unused = not self.buffer.flat and all(command.epoch != epoch for command in self.commands)
        if unused and claim.status is LeaseStatus.CLAIMED:
            claim.status, claim.is_returning = LeaseStatus.LOST, False
            return lease_lost(self.session)
        self.drop(claim)
        self.failure: EventlogError | RefusedError | None = None  # it is about what is dropped
        return claim.fenced(self.session, self.committed.lease.epoch)
