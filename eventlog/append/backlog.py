"""What a session has accepted and not committed, and what becomes of it.

That is the commands that wait, and the append that is on its way.
The state is ahead of what is committed by both.  When an append fails, or finds that another writer came between, the state
goes back to what is committed and everything that is left is decided anew, in its order.  The caller who waits for a
command hears why it is not committed, and then it will not be; what no caller waits for is tried again, and what cannot
be is told to the session's next caller.

Its user is the session's writer, which has the lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from eventlog.append.metrics import Metrics
from eventlog.append.pending import AcceptedCommand, LeaseWrite, PendingAppend, append_of, count_of
from eventlog.codec.batch import Item
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import (
    AlreadyExistsError,
    CallError,
    ConflictError,
    ErasedError,
    EventlogError,
    FencedError,
    LeaseHeldError,
    RefusedError,
    StopError,
)
from eventlog.log.contract import Append, Committed
from eventlog.logger import logger
from eventlog.state.committed import CommittedState
from eventlog.state.decide import allowed_deltas, decide, needs_no_lease

__all__ = ["KEPT", "MAX_RUN", "Backlog", "is_conflict"]

MAX_RUN = 16 * 1024 * 1024
"""Characters of deltas, and bytes of bodies, of one append; more of them go in several."""
TRIES = 40
"""How often a command is decided anew because other writers came between, before its caller hears of it."""
KEPT = 8
"""Appends that are kept decoded, so that a follower of the session through this handle need not read them back."""


class Backlog:
    """The accepted commands of one session, in their order, up to the outcome of each."""

    def __init__(self, committed: CommittedState, metrics: Metrics) -> None:
        self.committed = committed
        self.session = committed.session
        self.commands: list[AcceptedCommand] = []
        """What waits for the next append."""
        self.weight = 0
        """Of these."""
        self.apart = 0
        """How many of these have an append of their own."""
        self.sent: PendingAppend | None = None
        """The append that is on its way."""
        self.landed: deque[PendingAppend] = deque(maxlen=KEPT)
        """The newest appends that were committed, without a gap, if a follower has asked for them."""
        self.followed = False
        self.epoch = 0
        """The lease epoch that deltas are accepted under, 0 without the lease."""
        self.lease_write: LeaseWrite | None = None
        """The lease record that the next append writes."""
        self.failure: EventlogError | None = None
        """What became of something that no caller waits for; told to the next one."""
        self.stopped = False
        """Whether such a failure is final: the next delta has to hear of it."""
        self.torn = False
        """Whether an interrupt may have left the state half changed: it is read again before it is used."""
        self.behind = False
        """Whether more is committed than the state has, of this handle's own: it is read on before it is used."""
        self.refused_epoch = 0
        """That of the newest lease that another owner was quicker to take."""
        self._metrics = metrics

    def add(self, command: AcceptedCommand) -> None:
        """Let a command, which the state has taken in, wait for the next append."""
        self.commands.append(command)
        self.weight += command.weight
        if command.terms is not None:
            self.apart += 1

    def unsettled(self) -> list[AcceptedCommand]:
        """All commands whose outcome is not known."""
        return [*(self.sent.commands if self.sent is not None else ()), *self.commands]

    def hand_over(self, wanted: AcceptedCommand) -> None:
        """Submit what waits, or as much of it as goes into one append.

        `wanted` is waited for by a caller, who hears of a failure.
        """
        commands = self.commands
        rest: list[AcceptedCommand] = []
        if self.apart or self.weight > MAX_RUN:
            cut = _end_of_append(commands)
            commands, rest = commands[:cut], commands[cut:]
        committed = self.committed
        last = committed.state.version
        for command in rest:
            last -= count_of(command.items)
        try:
            pending = append_of(committed, commands, last, self._lease_of(rest))
            # Noted before the log has it, so that an interrupt loses nothing.
            self.sent = pending
            if rest:
                self._wait_with(rest)
            else:
                self.commands, self.weight, self.apart = [], 0, 0
            pending.ticket = committed.log.submit(pending.append)
        except Exception as error:
            self._give_outcome(commands, error)
            if wanted.owned and not wanted.settled:
                self.refuse(wanted, error)
            self.sent = None
            self._wait_with([*commands, *rest])
            self.recover()
            if wanted.settled:
                return
            raise
        append, metrics = pending.append, self._metrics
        metrics.appends += 1
        metrics.events += append.count
        metrics.payload_bytes += len(append.payload)
        if append.bodies:
            metrics.body_bytes += sum([len(packed) for _, packed in append.bodies])

    def _lease_of(self, rest: Sequence[AcceptedCommand]) -> LeaseWrite | None:
        """The lease record that goes in with the next append.

        The lease is not given back before `rest`, which was accepted under it.
        """
        write = self.lease_write
        if write is not None and not write.state.until and any(command.epoch == write.state.epoch for command in rest):
            return write.unwritten_claim
        return write

    def catch_up(self) -> None:
        """Bring the state up to what is committed, and ahead by what is accepted."""
        if self.torn:
            self.recover()
        sent = self.sent
        if sent is not None and (sent.result is not None or sent.is_done()):
            self.take_in(sent)
        if self.sent is None and not self.commands:
            committed = self.committed
            if not committed.loaded:
                committed.load()
            elif committed.read_on():
                self.landed.clear()
            self.behind = False

    def take_in(self, sent: PendingAppend) -> None:
        """Take in the outcome of the append that was on its way."""
        result = self._settle(sent)
        if result is None or result.first != sent.first or result.repeated:
            self.recover()
            return
        committed = self.committed
        committed.certain, committed.entry = sent.last, sent.entry
        committed.state.commit_to(sent.last)
        if self.followed:
            self.landed.append(sent)
        self.sent = None  # last: an interrupt before it only has all this done again

    def recover(self) -> None:
        """Go back to what is committed, read on, and decide anew on what is accepted.

        If the log cannot be read now, or the caller is interrupted, nothing is lost or doubled: the next look begins here.
        """
        torn, self.torn = self.torn, True
        self._metrics.resyncs += 1
        committed, sent = self.committed, self.sent
        if sent is not None:
            self._settle(sent)
            self._wait_with(list(dict.fromkeys([*sent.commands, *self.commands])))
            self.sent = None
        self.behind = all(command.settled for command in self.commands)
        try:
            if self.behind:  # nothing is to be decided anew: it is read when it is asked for
                committed.loaded = committed.loaded and not torn
            elif torn or not committed.loaded:
                committed.load()
            if committed.loaded:
                committed.state.retract(committed.certain)
                if not self.behind:
                    committed.read_on()
        except ErasedError as error:
            for command in self.commands:
                self.refuse(command, error)
            self._wait_with([])
            raise
        finally:
            self.landed.clear()
        self._decide_anew()
        self.torn = False

    def refuse(self, command: AcceptedCommand, error: Exception) -> None:
        """Say why a command is not committed, and will not be.

        Its caller hears of it, or, if none waits, the session's next one.
        """
        command.error, command.settled = error, True
        write = command.lease_write
        if write is not None:
            write.refused = True
            if self.lease_write is write:
                self.lease_write = write.unwritten_claim
                if write.final and self.lease_write is not None:  # it never was taken
                    self.lease_write, self.epoch = None, 0
                elif write.final:
                    self.lease_write = LeaseWrite(write.state, None, final=True)
        if not command.owned and isinstance(error, EventlogError):
            self.failure = self.failure or error

    def drop(self, epoch: int) -> None:
        """Let go of what waits to be written under a lease that is over."""
        leased = [command for command in self.commands if command.epoch == epoch and not _is_free(command)]
        for command in leased:
            self.refuse(command, lease_over(self.session))
        if leased:
            self.recover()

    def _wait_with(self, commands: list[AcceptedCommand]) -> None:
        """Let these commands wait for the next append."""
        self.commands = commands
        self.weight = sum(command.weight for command in commands)
        self.apart = sum(command.terms is not None for command in commands)

    def _settle(self, sent: PendingAppend) -> Committed | None:
        """Give the commands of an append their outcome; None if it is not committed.

        What is not settled then is tried again.
        """
        if sent.result is None:
            if sent.ticket is None:  # an interrupt came while it was handed over
                sent.result = self._found(sent.append)
            elif (error := sent.wait()) is not None:
                if not sent.told:
                    sent.told = True
                    self._give_outcome(sent.commands, error)
                return None
        result = sent.result
        if result is not None:
            for command in sent.commands:
                command.settled, command.result = True, result
            if sent.lease is not None:
                self._lease_is_written(sent.lease)
            sent.position = result.position
        return result

    def _lease_is_written(self, write: LeaseWrite) -> None:
        write.written = True
        if write.claim is not None:
            write.claim.written = True
        self.committed.lease = write.state
        if self.lease_write is write:
            self.lease_write = None
            if not write.state.until:
                self.epoch = 0

    def _found(self, append: Append) -> Committed | None:
        """What the log says of an append that may have been handed over."""
        log = self.committed.log
        log.sync()
        mine = append.payload, append.count, append.time, append.epoch
        for commit in log.read(append.session, self.committed.certain):
            if (commit.payload, commit.count, commit.time, commit.epoch) == mine:
                return Committed(append.session, commit.first, commit.last, commit.position)
        return None

    def _give_outcome(self, commands: Sequence[AcceptedCommand], error: Exception) -> None:
        """Settle those of some commands that an error ends; what is not settled is tried again."""
        self._metrics.failures += 1
        logger().warning("session %s: an append failed: %s", self.session, type(error).__name__)
        claim = None if self.lease_write is None else self.lease_write.unwritten_claim
        if isinstance(error, FencedError) and claim is not None:
            claim.refused = True  # another owner has taken the lease since it was looked at
            self.refused_epoch = claim.state.epoch
            self.lease_write, self.epoch = None, 0
            error = LeaseHeldError(self.session, "another owner", 0)
        over = isinstance(error, (FencedError, LeaseHeldError))
        self.stopped = self.stopped or over or isinstance(error, StopError)
        for command in commands:
            if (
                is_conflict(error)
                and command.tries < TRIES
                and (command.terms is None or not command.terms.is_conditional)
            ):
                command.tries += 1
            elif over and _is_free(command):
                command.epoch = 0
            elif command.owned or over or isinstance(error, (StopError, CallError)):
                self.refuse(command, error)

    def _decide_anew(self) -> None:
        """Accept each command once more, whole, or not at all; those of one pipeline together."""
        state = self.committed.state
        certain = state.version
        commands = [command for command in self.commands if not command.settled]
        units: dict[int, list[AcceptedCommand]] = {}
        for command in commands:
            if command.unit is not None:
                units.setdefault(id(command.unit), []).append(command)
        again = bool(commands)
        while again:
            again = False
            state.retract(certain)
            for command in commands:
                before = state.version
                try:
                    if not command.settled:
                        self._decide_again(command)
                except EventlogError as error:
                    state.retract(before)
                    self.refuse(command, error)
                    for other in units.get(id(command.unit), ()):
                        if not other.settled:
                            self.refuse(other, error)
                            again = True
                    if again:
                        break
        self._wait_with([command for command in commands if not command.settled])

    def _decide_again(self, command: AcceptedCommand) -> None:
        state, terms = self.committed.state, command.terms
        if command.epoch and command.epoch != self.epoch:
            if command.epoch == self.refused_epoch:
                raise LeaseHeldError(self.session, "another owner", 0)
            raise lease_over(self.session)
        if terms is not None and terms.expected not in {None, state.version}:
            raise ConflictError(self.session, terms.expected or 0, state.version)
        items: list[Item] = []
        for item in command.items:
            if not isinstance(item, DeltaRun):
                items += decide(state, [item])
                continue
            run, reason = allowed_deltas(state, item)
            self.failure = self.failure or reason
            if run is not None:
                state.skip(run.count)
                items.append(run)
        command.items = items
        command.settled = not items


def is_conflict(error: Exception) -> bool:
    """Whether another writer came between, so that what was decided is to be decided anew."""
    return isinstance(error, (ConflictError, AlreadyExistsError))


def lease_over(session: str) -> RefusedError:
    """What becomes of a command that was accepted under a lease and not written."""
    return RefusedError("the lease was over before this was written", expected="the lease", session=session)


def _is_free(command: AcceptedCommand) -> bool:
    """Whether nothing of a command needs the lease."""
    items = [item for item in command.items if not isinstance(item, DeltaRun)]
    try:
        needs_no_lease(items, "")
    except RefusedError:
        return False
    return len(items) == len(command.items)


def _end_of_append(commands: Sequence[AcceptedCommand]) -> int:
    """How many of the commands go into the next append.

    One with terms of its own goes alone; others together, while they are not much more than `MAX_RUN`.
    """
    ends = {id(command.unit): place for place, command in enumerate(commands) if command.unit is not None}
    weight = end = 0
    for place, command in enumerate(commands):
        weight += command.weight
        whole, end = place > end, max(end, ends.get(id(command.unit), place))
        if whole and (command.terms is not None or commands[0].terms is not None or weight > MAX_RUN):
            return place
    return len(commands)
