"""The commands a session has accepted and not committed, and the append on its way.

The state is ahead of what is committed by both. When an append fails, or finds that another writer
came between, the state goes back to what is committed, and the remaining commands are decided anew,
in their order. A caller who waits for a command hears why it is not committed, and then it will not
be. What no caller waits for is tried again; an error that ends it is raised to the session's next
caller.

The session's writer uses it, under its lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.append.backoff import Backoff
from eventlog.append.delta_buffer import DeltaBuffer
from eventlog.append.lease_claim import LeaseClaim, LeaseStatus
from eventlog.append.metrics import Metrics
from eventlog.append.pending import AcceptedCommand, PendingAppend, Terms, count_of
from eventlog.codec.batch import Item
from eventlog.codec.decoded import DecodedCommit
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import (
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
from eventlog.history.value_index import ValueIndex
from eventlog.history.value_tree import changes_in
from eventlog.log.commit import Append, Committed, LeaseState
from eventlog.logger import logger
from eventlog.state.committed import CommittedState
from eventlog.state.decide import allowed_deltas, decide, needs_no_lease

__all__ = ["MAX_RUN", "RECENT", "Backlog", "lease_lost", "lease_over"]

MAX_RUN = 16 * 1024 * 1024
"""Characters of deltas, and bytes of bodies, of one append; more of them go in several."""
RECENT = 8
"""Appends retained decoded, so that a follower of the session need not read them back."""

RECENT_BYTES = 1 << 14
"""Encoded bytes of the largest append that is retained so."""


class Backlog:
    """The accepted commands of one session, in their order, up to the outcome of each."""

    def __init__(self, committed: CommittedState, buffer: DeltaBuffer, metrics: Metrics) -> None:
        self.committed = committed
        self.session = committed.session
        self.commands: list[AcceptedCommand] = []
        """The commands that wait for the next append."""
        self.weight = 0
        """Their bytes of bodies and characters of deltas."""
        self.apart = 0
        """How many of them have an append of their own."""
        self.sent: PendingAppend | None = None
        """The append that is on its way."""
        self.recent: deque[DecodedCommit] = deque(maxlen=RECENT)
        """The newest own appends, once a follower has asked for them (`own_appends.py`)."""
        self.is_followed = False
        self.claim: LeaseClaim | None = None
        """The lease that deltas are accepted under."""
        self.failure: EventlogError | None = None
        """Why something that no caller waits for is not committed; raised to the next caller."""
        self.is_behind = False
        """Whether this handle itself has committed events that the state does not have."""
        self.backoff = Backoff()
        self._buffer = buffer
        self._metrics = metrics
        self._values = ValueIndex(committed.log, committed.session)

    @property
    def epoch(self) -> int:
        """The lease epoch that deltas are accepted under, 0 without the lease."""
        return 0 if self.claim is None or self.claim.status is LeaseStatus.LOST else self.claim.state.epoch

    def hand_over(self) -> None:
        """Submit the waiting commands, or as many as go into one append.

        An error is the outcome of that append, as if the log had refused it.
        """
        commands, rest = self.commands, []
        if self.apart or self.weight > MAX_RUN:
            cut = _end_of_append(commands)
            commands, rest = commands[:cut], commands[cut:]
        sent = self.sent = PendingAppend(commands)  # noted first, so that an interrupt loses nothing
        if rest:
            self._queue(rest)
        else:
            self.commands, self.weight, self.apart = [], 0, 0
        committed, metrics = self.committed, self._metrics
        claim = self.claim
        if claim is None or (claim.status is LeaseStatus.HELD and not claim.is_returning):
            record = None
        else:
            record = self._lease_record(claim, rest)
        try:
            last = committed.state.version - (sum([count_of(each.items) for each in rest]) if rest else 0)
            append = sent.prepare(committed, last, claim, record)
            sent.ticket = committed.log.submit(append)
        except Exception as error:  # noqa: BLE001 - any error is the outcome of these commands
            sent.outcome = error
            return
        metrics.appends += 1
        metrics.events += append.count
        metrics.payload_bytes += len(append.payload)
        if append.bodies:
            metrics.body_bytes += sum([len(packed) for _, packed in append.bodies])

    def _lease_record(self, claim: LeaseClaim, rest: Sequence[AcceptedCommand]) -> LeaseState | None:
        """Return the lease record that goes in with the next append.

        The lease is not given back before `rest`, which was accepted under it.
        """
        if claim.is_returning and not any(command.epoch == claim.state.epoch for command in rest):
            return None if claim.status is LeaseStatus.LOST else LeaseState(claim.state.epoch, b"", 0)
        return claim.state if claim.status is LeaseStatus.CLAIMED else None

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
            self.is_behind = False

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
                sent.outcome = self._committed_as(sent.append)
            else:
                sent.wait()
        outcome = sent.outcome
        if isinstance(outcome, Committed):
            for command in sent.commands:
                command.outcome = outcome
            assert sent.append is not None
            if self.backoff.conflicts:
                self.backoff.end()
            if sent.append.lease is not None and not outcome.repeated:
                self._note_lease(sent.append.lease, sent.claim)
            if outcome.first == sent.first and not outcome.repeated and committed.loaded:
                valued, committed.certain, committed.entry = committed.entry.valued, sent.last, sent.entry
                committed.uncounted = 0
                committed.state.commit_to(sent.last)
                if sent.entry.valued != valued:
                    self._note_values(sent)
                if self.is_followed and len(sent.append.payload) <= RECENT_BYTES:
                    self.recent.append(
                        DecodedCommit(
                            self.session, sent.first, sent.last, outcome.position, sent.append.epoch, sent.batch
                        )
                    )
                self.sent = None  # last: an interrupt before it only has all this done again
                return
        elif outcome is not None:
            self._fail(sent, outcome)
        self._queue(list(dict.fromkeys([*sent.commands, *self.commands])))
        self.sent = None
        self.recover()

    def _note_values(self, sent: PendingAppend) -> None:
        """Bring the index of values up to date with an append that changed some."""
        with suppress(EventlogError):  # derived: the next reader does it
            self._values.note(changes_in(sent.events()), sent.entry.valued)

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
        self._queue([command for command in self.commands if command.outcome is None])
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
            self._queue([])
            raise
        self._decide_anew()
        committed.loaded = loaded

    def refuse(self, command: AcceptedCommand, error: Exception) -> None:
        """Settle a command, and all of its pipeline, with the reason why it is not committed.

        The caller who waits for it hears of that, or, if none does, the session's next caller.
        """
        for each in (command,) if command.unit is None else command.unit.commands:
            if each.outcome is None:
                each.outcome = error
                if each.returns_lease:
                    self._keep_lease()
                if not each.owned and isinstance(error, EventlogError):
                    self.failure = self.failure or error

    def drop(self, claim: LeaseClaim) -> None:
        """Refuse what waits to be written under a lease that is over."""
        epoch = claim.state.epoch
        leased = [command for command in self.commands if command.epoch == epoch and not _is_free(command)]
        if self._lose(claim, leased):
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
        self._buffer.hold()
        claim = self.claim
        if self.sent is not None:
            self.committed.loaded = False
            self.resolve()
        if claim is None or claim.state.epoch != epoch:
            return FencedError(self.session, epoch, self.committed.lease.epoch)
        unused = not self._buffer.flat and all(command.epoch != epoch for command in self.commands)
        if unused and claim.status is LeaseStatus.CLAIMED:
            claim.status, claim.is_returning = LeaseStatus.LOST, False
            return lease_lost(self.session)
        self.drop(claim)
        self.failure = None  # it is about what is dropped
        return claim.fenced(self.session, self.committed.lease.epoch)

    def _lose(self, claim: LeaseClaim, commands: Sequence[AcceptedCommand]) -> bool:
        """Count the deltas of commands that will not be written, and of the buffer; drop these.

        Returns whether the buffer had any.
        """
        for command in commands:
            if command.outcome is None:
                claim.lose(*command.deltas())
        buffered = self._buffer.drop()
        claim.lose(*buffered)
        return buffered[0] > 0

    def _queue(self, commands: list[AcceptedCommand]) -> None:
        """Have these commands wait for the next append, and no others."""
        self.commands = commands
        self.weight = sum([command.weight for command in commands])
        self.apart = sum([command.terms is not None for command in commands])

    def _note_lease(self, record: LeaseState, claim: LeaseClaim | None) -> None:
        """Note that a lease record is in the log."""
        self.committed.lease = record
        if claim is not None:
            claim.status = LeaseStatus.HELD if record.until else LeaseStatus.RETURNED
        if claim is self.claim and not record.until:
            self.claim = None

    def _keep_lease(self) -> None:
        """Give the lease back later: the command that was to return it is refused."""
        claim = self.claim
        if claim is not None and claim.is_over and claim.status is LeaseStatus.CLAIMED:
            claim.status, self.claim = LeaseStatus.RETURNED, None  # the log never knew of it
        elif claim is not None and not claim.is_over:
            claim.is_returning = False

    def _committed_as(self, append: Append | None) -> Committed | None:
        """Return what the log has of an append that may have been handed over."""
        if append is None:
            return None
        log = self.committed.log
        log.sync()
        mine = append.payload, append.count, append.epoch  # the payload has the times
        for commit in log.read(append.session, self.committed.certain):
            if (commit.payload, commit.count, commit.epoch) == mine:
                return Committed(append.session, commit.first, commit.last, commit.position)
        return None

    def _fail(self, sent: PendingAppend, error: Exception) -> None:
        """Settle the commands that the error of an append ends; others are tried again."""
        conflict = isinstance(error, ConflictError)
        if conflict and not sent.is_conditional and self.backoff.note():
            return
        self._metrics.failures += 1
        if not (conflict and sent.is_conditional):  # a lost compare-and-set is an answer, no fault
            logger().warning("session %s: an append failed: %s", self.session, type(error).__name__)
        claim = sent.claim
        if isinstance(error, FencedError) and claim is not None and claim.status is LeaseStatus.CLAIMED:
            claim.status, claim.is_returning = LeaseStatus.LOST, False  # another owner has taken it meanwhile
            error = lease_lost(self.session)
        fenced = isinstance(error, (FencedError, LeaseHeldError))
        if isinstance(error, FencedError) and self.claim is not None and self.claim.state.epoch == error.epoch:
            waiting = [command for command in self.commands if command.epoch == error.epoch and not _is_free(command)]
            self._lose(self.claim, [*sent.commands, *waiting])
            error = self.claim.fenced(self.session, error.current)
            for command in waiting:
                self.refuse(command, error)
        if isinstance(error, FencedError) and claim is not None and claim.is_over:
            claim.status, self.claim = LeaseStatus.LOST, None  # another owner has taken it: nothing is to be returned
        if isinstance(error, LimitError):
            self._split(sent.commands, error)
            return
        ends_all = fenced or isinstance(error, (StopError, CallError))
        if fenced or isinstance(error, StopError):
            self._buffer.hold()  # the next delta meets the error, and raises it to its caller
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
        elif left and not fenced:
            sent.is_retried_later = True
            for command in self.commands:  # they would only wait behind what cannot be written now
                if command.owned:
                    self.refuse(command, error)

    def _split(self, commands: Sequence[AcceptedCommand], error: LimitError) -> None:
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

    def _decide_anew(self) -> None:
        """Decide all waiting commands anew, each whole, and those of one pipeline together."""
        state = self.committed.state
        certain = state.version
        decided: list[AcceptedCommand] | None = None
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
            self._queue(decided)

    def _decide_again(self, command: AcceptedCommand) -> None:
        state, terms, claim = self.committed.state, command.terms, self.claim
        if command.epoch and command.epoch != self.epoch:
            lost = claim is not None and claim.state.epoch == command.epoch
            raise lease_lost(self.session) if lost else lease_over(self.session)
        if terms is not None and terms.expected not in {None, state.version}:
            raise ConflictError(self.session, terms.expected or 0, state.version)
        items: list[Item] = []
        visible = command.visible_before(state)
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


def _as_decided(item: tuple[int, ev.Event], certain: int) -> tuple[int, ev.Event]:
    """Lower what a reply has seen to what was committed then: another's append came between."""
    time, event = item
    if isinstance(event, ev.AssistantMessageStarted) and event.seen is not None and event.seen > certain:
        return time, replace(event, seen=certain)
    return item


def lease_over(session: str) -> RefusedError:
    """Return the error of a command that was accepted under a lease and not written."""
    return RefusedError("the lease was over before this was written", expected="the lease", session=session)


def lease_lost(session: str) -> LeaseHeldError:
    """Return the error of a command under a claim that another owner's record has beaten."""
    return LeaseHeldError(session, "another owner", 0)


def _is_free(command: AcceptedCommand) -> bool:
    """Return whether no event of a command needs the lease."""
    items = [item for item in command.items if not isinstance(item, DeltaRun)]
    try:
        needs_no_lease(items, "")
    except RefusedError:
        return False
    return len(items) == len(command.items)


def _end_of_append(commands: Sequence[AcceptedCommand]) -> int:
    """Return how many of the commands go into the next append: one, or while they are light.

    A command with terms of its own goes alone. A pipeline, with what lies between its commands, is
    never parted, so that one alone may weigh more than `MAX_RUN`.
    """
    ends = {id(command.unit): place for place, command in enumerate(commands) if command.unit is not None}
    weight = start = end = 0
    while start < len(commands):
        alone = commands[0].terms is not None or commands[start].terms is not None
        for place, command in enumerate(islice(commands, start, None), start):
            if place > end:
                break
            end = max(end, ends.get(id(command.unit), place))
            weight += command.weight
        if start and (alone or weight > MAX_RUN):
            return start
        start = end = end + 1
    return len(commands)
