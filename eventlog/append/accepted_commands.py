"""The commands a session has accepted and not committed, and those that fail.

The state is ahead of what is committed by them. Where an append fails, or another writer came
between, the state goes back to what is committed, and the commands are decided anew, in their
order. A caller who waits for a command hears why it is not committed, and then it will not be.
What no caller waits for is tried again; an error that ends it is raised to the session's next
caller.

`queue.py` adds how they are accepted, and how they come to the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.append.backoff import Backoff
from eventlog.append.command import Command, Terms
from eventlog.append.delta_buffer import DeltaBuffer
from eventlog.append.lease_claim import LeaseClaim, LeaseStatus, lease_lost, lease_over
from eventlog.append.metrics import Metrics
from eventlog.append.pending import PendingAppend
from eventlog.codec.batch import Item
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import (
    AlreadyExistsError,
    BusyError,
    CallError,
    ConflictError,
    ErasedError,
    EventlogError,
    FencedError,
    LeaseHeldError,
    LimitError,
    RefusedError,
    StopError,
)
from eventlog.logger import kind_of, logger
from eventlog.state.committed import CommittedState
from eventlog.state.decide import allowed_deltas, decide, needs_no_lease

MAX_ACCEPTED = 2_048
"""Commands without a waiting caller after which the next one waits for their commit."""
MAX_ACCEPTED_BYTES = 1 << 20
"""Bytes of their bodies after which it does."""


class AcceptedCommands:
    """The accepted commands of one session, in their order, up to the outcome of each."""

    def __init__(self, committed: CommittedState, metrics: Metrics) -> None:
        self.session: str = committed.session
        self.committed = committed
        self.buffer: DeltaBuffer = DeltaBuffer()
        """The deltas, which are commands once they are taken out."""
        self.commands: list[Command] = []
        """The commands that wait for the next append."""
        self.weight: int = 0
        """Their bytes of bodies and characters of deltas."""
        self.apart: int = 0
        """How many of them have an append of their own."""
        self.sent: PendingAppend | None = None
        """The append that is on its way."""
        self.claim: LeaseClaim | None = None
        """The lease that deltas are accepted under."""
        self.failure: EventlogError | None = None
        """Why something that no caller waits for is not committed; raised to the next caller."""
        self.is_behind: bool = False
        """Whether this handle itself has committed events that the state does not have."""
        self.backoff: Backoff = Backoff()
        self._metrics = metrics

    @property
    def epoch(self) -> int:
        """The lease epoch that deltas are accepted under, 0 without the lease."""
        return 0 if self.claim is None or self.claim.status is LeaseStatus.LOST else self.claim.state.epoch

    @property
    def is_crowded(self) -> bool:
        """Whether so much is accepted that a command no caller waits for has to wait."""
        return len(self.commands) >= MAX_ACCEPTED or self.weight > MAX_ACCEPTED_BYTES

    def enqueue(self, commands: list[Command]) -> None:
        """Have these commands wait for the next append, and no others."""
        self.commands = commands
        self.weight = sum([command.weight for command in commands])
        self.apart = sum([command.terms is not None for command in commands])

    def refuse(self, command: Command, error: Exception) -> None:
        """Settle a command, and all of its pipeline, with the reason why it is not committed.

        The caller who waits for it hears of that, or, if none does, the session's next caller.
        """
        for each in (command,) if command.unit is None else command.unit.commands:
            if each.outcome is None:
                each.outcome = error
                if each.returns_lease and self.claim is not None and self.claim.keep():
                    self.claim = None
                if not each.owned and isinstance(error, EventlogError):
                    self.failure = self.failure or error

    def lose(self, claim: LeaseClaim, commands: Sequence[Command]) -> bool:
        """Count the deltas of commands that will not be written, and of the buffer; drop these.

        Returns whether the buffer had any.
        """
        for command in commands:
            if command.outcome is None:
                claim.lose(*command.deltas())
        buffered = self.buffer.drop()
        claim.lose(*buffered)
        return buffered[0] > 0

    def asked(self, request: str) -> list[Command]:
        """Return the command of a request whose outcome is not known yet, if there is one."""
        ahead = [*(() if self.sent is None else self.sent.commands), *self.commands]
        return [each for each in ahead if each.terms is not None and each.terms.request == request]

    def leased(self, epoch: int) -> list[Command]:
        """Return the waiting commands that can only be written under a lease."""
        return [command for command in self.commands if command.epoch == epoch and not _is_free(command)]

    # -- going back, and deciding anew -----------------------------------------------------------

    def refresh(self) -> None:
        """Decide anew on what waits if other writers have appended since."""
        head = self.committed.log.head(self.session) if self.committed.loaded else None
        if head is None or head.version != self.committed.certain:
            self.recover()

    def recover(self) -> None:
        """Go back to what is committed, read on, and decide anew on what is accepted.

        If the log cannot be read now, or the caller is interrupted, nothing is lost or doubled: the
        next look begins here.
        """
        committed = self.committed
        loaded, committed.loaded = committed.loaded, False
        self._metrics.resyncs += 1
        self.enqueue([command for command in self.commands if command.outcome is None])
        self.is_behind = not self.commands  # nothing is to be decided anew: it is read when it is asked for
        try:
            if loaded:
                committed.state.retract(committed.certain)
                if self.commands:
                    committed.read_on()
            elif self.commands:
                committed.load()
                loaded = True
        except ErasedError as error:
            for command in self.commands:
                self.refuse(command, error)
            self.enqueue([])
            raise
        self._decide_anew()
        committed.loaded = loaded

    def _decide_anew(self) -> None:
        """Decide all waiting commands anew, each whole, and those of one pipeline together."""
        state = self.committed.state
        certain = state.version
        decided: list[Command] | None = None
        while decided is None or any(command.outcome is not None for command in decided):
            state.retract(certain)
            decided = []
            for command in self.commands:
                before = state.version
                try:
                    if command.outcome is None:
                        self._decide_again(command)
                        decided.append(command)
                except EventlogError as error:
                    state.retract(before)
                    self.refuse(command, error)
            self.enqueue(decided)

    def _decide_again(self, command: Command) -> None:
        state, terms, claim = self.committed.state, command.terms, self.claim
        if command.epoch and command.epoch != self.epoch:
            lost = claim is not None and claim.state.epoch == command.epoch
            raise lease_lost(self.session) if lost else lease_over(self.session)
        if terms is not None and terms.expected not in {None, state.version}:
            raise ConflictError(self.session, terms.expected or 0, state.version)
        items: list[Item] = []
        visible = 0 if command.begins else state.visible
        refusal: EventlogError | None = None
        for item in command.items:
            if not isinstance(item, DeltaRun):
                items += decide(state, [_as_decided(item, command.certain)])
                continue
            run, reason = allowed_deltas(state, item)
            refusal = refusal or reason
            if run is not None:
                state.skip(run.count)
                items.append(run)
        if refusal is not None and not items:
            raise refusal
        self.failure = self.failure or refusal
        command.items, command.messages = items, state.visible - visible

    # -- failed appends --------------------------------------------------------------------------

    def fail(self, sent: PendingAppend, error: Exception) -> None:
        """Settle the commands that the error of an append ends; others are tried again."""
        conflict = isinstance(error, ConflictError)
        if conflict and not sent.is_conditional and self.backoff.note():
            return
        self._metrics.failures += 1
        if not (isinstance(error, AlreadyExistsError) or (conflict and sent.is_conditional)):  # lost races are answers
            logger().warning("an append failed: %s", kind_of(error))
        if isinstance(error, FencedError):
            error = self._fenced(sent, error)
        if isinstance(error, LimitError):
            self._split(sent.commands, error)
            return
        fenced = isinstance(error, (FencedError, LeaseHeldError))
        self._metrics.leases_lost += fenced
        ends_all = fenced or isinstance(error, (StopError, CallError))
        if fenced or isinstance(error, StopError):
            self.buffer.hold()  # the next delta meets the error, and raises it to its caller
        for command in sent.commands:
            if command.outcome is not None:
                continue
            if fenced and _is_free(command):
                command.epoch = 0
            elif command.owned or ends_all:
                self.refuse(command, error)
        left = [command for command in sent.commands if command.outcome is None]
        if conflict:
            sent.is_retried_later = bool(left)
            self.backoff.end()
        elif not fenced and (left or isinstance(error, BusyError)):
            sent.is_retried_later = bool(left)
            for command in self.commands:  # they would only wait behind what cannot be written now
                if command.owned:
                    self.refuse(command, error)

    def _fenced(self, sent: PendingAppend, error: FencedError) -> EventlogError:
        """Note that the lease of an append is over; return the error of its commands."""
        claim, found = sent.claim, error
        if claim is not None and claim.status is LeaseStatus.CLAIMED:
            claim.status, claim.is_returning = LeaseStatus.LOST, False  # another owner has taken it meanwhile
            return lease_lost(self.session)
        if self.claim is not None and self.claim.state.epoch == error.epoch:
            waiting = self.leased(error.epoch)
            self.lose(self.claim, [*sent.commands, *waiting])
            found = self.claim.fenced(self.session, error.current)
            for command in waiting:
                self.refuse(command, found)
        if claim is not None and claim.is_over:
            claim.status, self.claim = LeaseStatus.LOST, None  # another owner has taken it: nothing is to be returned
        return found

    def _split(self, commands: Sequence[Command], error: LimitError) -> None:
        """Have commands that are too large together go in one by one, each with its pipeline.

        A command that is too large alone is refused.
        """
        first = commands[0]
        if first.terms is None and any(
            command.unit is None or command.unit is not first.unit for command in commands[1:]
        ):
            for command in commands:
                command.terms = command.terms or Terms()
        else:
            self.refuse(first, error)


def _as_decided(item: tuple[int, ev.Event], certain: int) -> tuple[int, ev.Event]:
    """Lower what a reply has seen to what was committed then: another's append came between."""
    time, event = item
    if isinstance(event, ev.AssistantMessageStarted) and event.seen is not None and event.seen > certain:
        return time, replace(event, seen=certain)
    return item


def _is_free(command: Command) -> bool:
    """Return whether no event of a command needs the lease."""
    items = [item for item in command.items if not isinstance(item, DeltaRun)]
    try:
        needs_no_lease(items, "")
    except RefusedError:
        return False
    return len(items) == len(command.items)
