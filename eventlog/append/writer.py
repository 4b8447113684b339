"""One session's writer: decides commands against the session's state, and hands what they append to the log.

A command is decided at once, and the state takes it in.  What is accepted goes to the log in one append: when a caller waits
for it, or with the store's next flush.  One append of a session is on its way at a time; what is accepted meanwhile goes with the next.
So the state is ahead of what is committed by one append and what is accepted behind it.

When an append fails, or finds that another writer came between, the state goes back to what is committed and everything that
is left is decided anew, in its order (`_recover`).  The caller who waits for a command hears why it is not committed, and then it will
not be; what no caller waits for is tried again, and what cannot be is told to the session's next caller.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import RLock

from eventlog import events as ev
from eventlog.append.delta_buffer import Buffer
from eventlog.append.gate import Gate
from eventlog.append.metrics import Metrics
from eventlog.append.pending import (
    AcceptedCommand,
    LeaseWrite,
    PendingAppend,
    Terms,
    append_of,
    content_digest,
    count_of,
    first_time,
    limit_bodies,
)
from eventlog.codec.batch import Item
from eventlog.codec.decoded import Span, Stretch
from eventlog.codec.deltas import DeltaRun, Key
from eventlog.errors import (
    AlreadyExistsError,
    BusyError,
    CallError,
    ConflictError,
    DataError,
    ErasedError,
    EventlogError,
    FencedError,
    LeaseHeldError,
    RefusedError,
    StopError,
)
from eventlog.history.lineage import Stream
from eventlog.history.streams import head_of
from eventlog.log.contract import Append, Committed, Log
from eventlog.logger import logger
from eventlog.state.committed import CommittedState
from eventlog.state.decide import decide, needs_no_lease, still_admitted
from eventlog.state.state import State

__all__ = ["KEPT", "SessionWriter"]

MAX_ACCEPTED = 2_048
"""Commands that no caller waits for, after which the next one waits until they are committed."""
MAX_ACCEPTED_BYTES = 1 << 20
"""Bytes of their bodies after which it does."""
MAX_RUN = 16 * 1024 * 1024
"""Characters of deltas, and bytes of bodies, of one append; more of them go in several."""
TRIES = 40
"""How often a command is decided anew because other writers came between, before its caller hears of it."""
KEPT = 8
"""Appends that are kept decoded, so that a follower of the session through this handle need not read them back."""
KEPT_BYTES = 1 << 14
"""Encoded bytes of the largest append that is kept so."""


class SessionWriter:
    """Decides, accepts and commits for one session.  Safe across threads."""

    def __init__(self, committed: CommittedState, wake: Callable[[SessionWriter], None], metrics: Metrics) -> None:
        self.log: Log = committed.log
        self.session = committed.session
        self.lock = RLock()
        self.committed = committed
        self.buffer = Buffer()
        self.epoch = 0
        """The lease epoch that deltas are accepted under, 0 without the lease."""
        self.lease_write: LeaseWrite | None = None
        """The lease record that the next append writes."""
        self.gate: weakref.ref[Gate] | None = None
        """That of the pipeline that is open: until it ends only its thread hands anything over."""
        self._wake = wake
        self._metrics = metrics
        self._commands: list[AcceptedCommand] = []
        self._weight = 0
        self._apart = 0
        """How many of the commands have an append of their own."""
        self._sent: PendingAppend | None = None
        self._landed: deque[PendingAppend] = deque(maxlen=KEPT)
        """The newest appends that were taken in, without a gap; for `recent`."""
        self._followed = False
        self._failure: EventlogError | None = None
        """What became of something that no caller waits for; told to the next one."""
        self._inside = False
        """Whether the state is being changed: a signal handler of the same thread may come between."""
        self._torn = False
        """Whether an interrupt may have left the state half changed: it is read again before it is used."""
        self._behind = False
        """Whether more is committed than the state has, of this writer's own: it is read on before it is used."""
        self._refused_epoch = 0
        """That of the newest lease that another owner was quicker to take."""

    @property
    def is_ahead(self) -> bool:
        """Whether something is accepted whose outcome is not known."""
        return bool(self.buffer.flat or self._commands or self._sent)

    @property
    def is_crowded(self) -> bool:
        """Whether so much is accepted that a command no caller waits for has to wait."""
        return (len(self._commands) >= MAX_ACCEPTED or self._weight > MAX_ACCEPTED_BYTES) and self.gate is None

    def is_held_by_others(self) -> bool:
        """Whether a pipeline of another thread is open, which alone hands anything over until it ends."""
        gate = None if self.gate is None else self.gate()
        return gate is not None and gate.is_others()

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
        """Decide on a command's events, with their times; they are committed with what comes next, or when waited for.

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
                if terms is not None and terms.expected not in {None, self.committed.state.version}:
                    raise ConflictError(self.session, terms.expected or 0, self.committed.state.version)
                weight = limit_bodies(bodies) if bodies else 0
                state = self.committed.state
                before = state.version
                decided = decide(state, items)
                if not decided:
                    raise RefusedError("an append of no events", expected="at least one event", session=self.session)
                try:
                    if not epoch and (terms is None or (terms.expected is None and terms.creates_at is None)):
                        needs_no_lease(items, self.session)
                    if then is not None and (more := then(state)):
                        decided += decide(state, [(items[-1][0], event) for event in more])
                except BaseException:
                    state.retract(before)
                    raise
                command = AcceptedCommand(decided, bodies, epoch, weight, owned, unit, terms)
                self._weight += weight
                if terms is not None:
                    self._apart += 1
                self._commands.append(command)
                if lease_write is not None:
                    self.lease_write = command.lease_write = lease_write
                return command
            except Exception:
                raise
            except BaseException:
                self._torn = True
                raise
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
        with self.lock:
            self._ready(self.epoch)
        self.flush()
        self.buffer.admit()

    def weigh(self, characters: int) -> None:
        """Commit what is in the buffer before a long delta makes it too much; raises what keeps it there."""
        if self.buffer.weigh(characters) > MAX_RUN:
            self.flush()
            self.buffer.weigh(characters)

    def _ready(self, epoch: int) -> None:
        """Catch up; raise what became of accepted things without a caller, and `FencedError` if the lease is over."""
        if self.buffer.sealed:
            self.buffer.require_open()
        if self._sent is not None or not self._commands or self._torn:
            self.catch_up()
        committed = self.committed
        if epoch and committed.lease.epoch > epoch:
            self._fence(epoch)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._sent is None and not self._commands and committed.state.version >= committed.keep_at:
            committed.keep_if_due()

    def _collect(self) -> None:
        """Accept the buffered deltas, behind what was accepted before them.

        Deltas of a part that takes none any more are left out, and the next caller is told.
        """
        streamed = self.buffer.take()
        if streamed is None:
            return
        run, reason = still_admitted(self.committed.state, streamed)
        self._failure = self._failure or reason
        for piece in run.pieces(MAX_RUN) if run is not None else ():
            self.committed.state.skip(piece.count)
            weight = len(piece.text)
            self._commands.append(AcceptedCommand([piece], None, self.epoch, weight))
            self._weight += weight

    def _fence(self, epoch: int) -> None:
        """Let go of what was accepted under a lease that another owner has taken, and raise that."""
        self.buffer.hold()
        self._drop(epoch)
        self._failure = None  # it is about what is dropped
        raise FencedError(self.session, epoch, self.committed.lease.epoch)

    def hold(self, epoch: int, claim: LeaseWrite | None) -> None:
        """Accept deltas under a lease; `claim` writes it with the next append."""
        with self.lock:
            self.epoch, self.lease_write = epoch, claim
            self.buffer.admit()  # what an earlier lease could not write is gone with it

    def take_back(self, give: LeaseWrite) -> bool:
        """Keep a lease that an append was to give back, and does not yet; False if it is too late for that."""
        with self.lock:
            if self.lease_write is give and self._sent is None:
                self.lease_write = give.unwritten_claim
                return True
        self.flush()
        return False

    def shut(self, gate: Gate) -> None:
        """Keep other threads from handing anything over while a gate is shut, once none of theirs is."""
        while True:
            with self.lock:
                if not self.is_held_by_others():
                    self.gate = weakref.ref(gate)
                    return
            self._wait_in_front()

    def _wait_in_front(self) -> None:
        """Let another thread go on with its pipeline, if one is open; raises when that takes too long."""
        gate = None if self.gate is None else self.gate()
        if gate is not None and gate.is_others() and (error := gate.wait()) is not None:
            raise error

    def leave(self) -> None:
        """The lease is over: what was accepted under it and is not handed over will not be written."""
        with self.lock:
            epoch, self.epoch, self.lease_write = self.epoch, 0, None
            if epoch:
                self._drop(epoch)

    def _drop(self, epoch: int) -> None:
        """Let go of what waits to be written under an epoch that is over; the next caller is told."""
        if self.buffer.drop():
            self._failure = self._failure or _lease_over(self.session)
        if any(command.epoch == epoch for command in self._commands):
            for command in self._commands:
                if command.epoch == epoch and not _is_free(command):
                    self._refuse(command, _lease_over(self.session))
            self._recover()

    # -- committing --------------------------------------------------------------------------

    def wait(self, command: AcceptedCommand) -> None:
        """Block until a command is durable; raises why it is not, and then it will not be."""
        try:
            while (pending := self._next(command)) is not None:
                if pending.wait() is not None:
                    self._give_up_behind(pending, command)
        except BaseException:
            self._disown(command)
            raise

    async def waited(self, command: AcceptedCommand) -> None:
        """Wait as `wait` does, without blocking the event loop."""
        try:
            while (pending := self._next(command)) is not None:
                if await pending.waited() is not None:
                    self._give_up_behind(pending, command)
        except BaseException:
            self._disown(command)
            raise

    def _disown(self, command: AcceptedCommand) -> None:
        """The wait for a command was broken off: it is flushed all the same, with those of its pipeline, and tried again if need be."""
        if command.settled:
            return
        with self.lock:
            sent = self._sent.commands if self._sent is not None else []
            for one in (*sent, *self._commands):
                if one is command or (one.unit is not None and one.unit is command.unit):
                    one.owned = False
        self.wake()

    def flush(self) -> None:
        """Make everything accepted so far durable; raises the first failure of any of it."""
        last = self._newest()
        while last is not None and (pending := self._next(last)) is not None:
            if pending.wait() is not None:
                self._give_up_behind(pending, last)
        self._raise_failure()

    async def flushed(self) -> None:
        """Flush as `flush` does, without blocking the event loop."""
        last = self._newest()
        while last is not None and (pending := self._next(last)) is not None:
            if await pending.waited() is not None:
                self._give_up_behind(pending, last)
        self._raise_failure()

    def hand_over(self) -> None:
        """Submit what is accepted unless an append is on its way; the caller sees to it that somebody waits for the log."""
        last = self._newest()
        if last is not None and not self.is_held_by_others():
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
                    if not self.is_held_by_others():
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
        """Commit everything accepted, the buffer being closed, and what comes in meanwhile; accept nothing from then on."""
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
        """What became of a request id that was used before; `RequestReusedError` if that was for something else."""
        if self.log.request(self.session, request) is None:
            return None
        with suppress(StopError):  # a caller who may not write any more still learns what became of the request
            self.flush()
        append = Append(session=self.session, payload=b"", count=1, time=0, request=request, digest=digest)
        return self.log.submit(append).wait()

    def _newest(self) -> AcceptedCommand | None:
        """The newest command that is accepted and not settled, the buffered deltas included."""
        with self.lock:
            self.buffer.awake = False
            if self._torn or self.buffer.flat:
                self.catch_up()
                if self.epoch and self.committed.lease.epoch > self.epoch:
                    self._fence(self.epoch)
                self._collect()
            if self._commands:
                return self._commands[-1]
            return self._sent.commands[-1] if self._sent is not None else None

    def _next(self, command: AcceptedCommand) -> PendingAppend | Gate | None:
        """What to wait for before `command` has its outcome; None if it is durable; raises why it is not."""
        with self.lock:
            if self._inside:
                raise _reentered(self.session)
            self._inside = True
            try:
                if self._torn:
                    self._recover()
                sent = self._sent
                if sent is not None and (sent.result is not None or sent.is_done()):
                    self._take_in(sent)
                if not command.settled and self._sent is None:
                    if self.gate is not None and (gate := self.gate()) is not None and gate.is_others():
                        return gate
                    self._hand_over(command)
                if not command.settled:
                    return self._sent
                if command.error is not None:
                    if self._failure is command.error:
                        self._failure = None
                    raise command.error
                return None
            except Exception:
                raise
            except BaseException:
                self._torn = True
                raise
            finally:
                self._inside = False

    def _give_up_behind(self, pending: PendingAppend | Gate, command: AcceptedCommand) -> None:
        """Refuse a command behind what could not be written and will be tried again later; told at once, if nobody waits for it."""
        with self.lock:
            self.catch_up()
            error = pending.error
            if error is None or command.settled or _is_conflict(error) or not any(map(_is_kept, pending.commands)):
                return
            if isinstance(error, (FencedError, LeaseHeldError)):  # what is kept does not need the lease
                return
            if self._sent is not None:  # another thread has handed it over again, or what is before it
                return
            if not command.owned:
                raise error
            gate = None if self.gate is None else self.gate()
            unfinished = set() if gate is None or command in gate.commands else set(map(id, gate.commands))
            for other in self._commands:  # all that wait, so that each of them need not begin anew
                if other.owned and id(other) not in unfinished:
                    self._refuse(other, error)
            self._recover()

    def _raise_failure(self) -> None:
        with self.lock:
            if self._sent is not None:
                self.catch_up()
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _hand_over(self, wanted: AcceptedCommand) -> None:
        """Submit what is accepted, or as much of it as goes into one append; `wanted` by a caller who hears of a failure."""
        commands = self._commands
        rest: list[AcceptedCommand] = []
        if self._apart or self._weight > MAX_RUN:
            cut = _end_of_append(commands)
            commands, rest = commands[:cut], commands[cut:]
        committed = self.committed
        last = committed.state.version
        for command in rest:
            last -= count_of(command.items)
        try:
            lease = self._lease_of(commands, rest)
            pending = append_of(self.session, commands, last, committed.certain, committed.card, lease)
            # Noted before the log has it, so that an interrupt loses nothing.
            self._sent = pending
            if rest:
                self._wait_with(rest)
            else:
                self._commands, self._weight, self._apart = [], 0, 0
            pending.ticket = self.log.submit(pending.append)
        except Exception as error:
            self._sent = None
            self._give_outcome(commands, error)
            if wanted.owned and not wanted.settled:
                self._refuse(wanted, error)
            self._wait_with([*commands, *rest])
            self._recover()
            if wanted.settled:
                return
            raise
        metrics = self._metrics
        metrics.appends += 1
        metrics.events += pending.append.count
        metrics.payload_bytes += len(pending.append.payload)
        if pending.append.bodies:
            metrics.body_bytes += sum(len(packed) for _, packed in pending.append.bodies)

    def _lease_of(self, commands: list[AcceptedCommand], rest: list[AcceptedCommand]) -> LeaseWrite | None:
        """The lease record that goes in with some commands: it is not given back before what is accepted under it."""
        lease = self.lease_write
        if lease is None or lease.state.until:
            return lease
        if any(command.epoch == lease.state.epoch for command in rest):
            return lease.unwritten_claim
        if self.buffer.flat and not any(command.lease_write is lease for command in commands):
            return lease.unwritten_claim
        return lease

    def _wait_with(self, commands: list[AcceptedCommand]) -> None:
        """Let these commands wait for the next append."""
        self._commands = commands
        self._weight = sum(command.weight for command in commands)
        self._apart = sum(command.terms is not None for command in commands)

    # -- outcomes ----------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Bring the state up to what is committed, and ahead by what is accepted."""
        with self.lock:
            if self._torn:
                self._recover()
            if self._sent is not None and self._sent.is_done():
                self._take_in(self._sent)
            if self._sent is None and not self._commands:
                if not self.committed.loaded:
                    self.committed.load()
                elif self.committed.read_on():
                    self._landed.clear()
                self._behind = False

    def _take_in(self, sent: PendingAppend) -> None:
        """Take in the outcome of the append that was on its way."""
        result = sent.result
        if result is None:
            if sent.ticket is None:
                self._torn = True
                self._recover()
                return
            if (error := sent.wait()) is not None:
                self._give_outcome(sent.commands, error)
                self._wait_with([*sent.commands, *self._commands])
                self._sent = None
                self._recover()
                return
            result = sent.result
            assert result is not None
        for command in sent.commands:
            command.settled, command.result = True, result
        committed = self.committed
        if sent.lease is not None:
            self._lease_is_written(sent.lease)
        if result.first != sent.first or result.repeated:
            self._sent = None
            self._recover()
            return
        committed.certain, committed.card = sent.last, sent.card
        committed.state.settle(sent.last)
        if self._followed:
            sent.position = result.position
            self._landed.append(sent)
        self._sent = None  # last: an interrupt before it only has all this done again

    def _give_outcome(self, commands: Sequence[AcceptedCommand], error: Exception) -> None:
        """Settle those of some commands that an error ends; what is not settled is tried again."""
        self._metrics.failures += 1
        claim = None if self.lease_write is None else self.lease_write.unwritten_claim
        if isinstance(error, FencedError) and claim is not None:
            claim.refused = True  # another owner has taken the lease since it was looked at
            self._refused_epoch = claim.state.epoch
            self.lease_write, self.epoch = None, 0
            error = LeaseHeldError(self.session, "another owner", 0)
        if isinstance(error, (StopError, LeaseHeldError)):
            self.buffer.hold()  # the next delta meets the error, and raises it to its caller
        logger().warning("session %s: an append failed: %s", self.session, type(error).__name__)
        conflict = _is_conflict(error)
        for command in commands:
            if conflict and command.tries < TRIES and (command.terms is None or command.terms.may_be_decided_anew):
                command.tries += 1
            elif isinstance(error, (FencedError, LeaseHeldError)) and _is_free(command):
                command.epoch = 0
            elif command.owned or isinstance(error, (StopError, LeaseHeldError, CallError)):
                self._refuse(command, error)

    def _recover(self) -> None:
        """Go back to what is committed, read on, and decide anew on what is accepted, in its order.

        If the log cannot be read now, or the caller is interrupted, nothing is lost or doubled: the next look begins here.
        """
        torn, self._torn = self._torn, True
        self._metrics.resyncs += 1
        committed = self.committed
        if self._sent is not None:  # an interrupt came between
            sent = self._sent
            self._settle_interrupted(sent)
            self._wait_with(list(dict.fromkeys([*sent.commands, *self._commands])))
            self._sent = None
        if all(command.settled for command in self._commands):
            self._wait_with([])
            if torn:
                committed.loaded = False  # it is read when it is asked for
            else:
                committed.state.retract(committed.certain)
                self._behind = True
            self._torn = False
            return
        try:
            if torn or not committed.loaded:
                self._landed.clear()
                committed.load()
            else:
                committed.state.retract(committed.certain)
                if committed.read_on():
                    self._landed.clear()
        except ErasedError as error:
            for command in self._commands:
                self._refuse(command, error)
            self._wait_with([])
            raise
        self._decide_anew()
        self._torn = False

    def _settle_interrupted(self, sent: PendingAppend) -> None:
        """Learn the outcome of an append that an interrupt came into; one that the log never had is left to be tried again."""
        if sent.ticket is None:
            result = self._found(sent.append)
        elif (error := sent.wait()) is not None:
            self._give_outcome(sent.commands, error)
            return
        else:
            result = sent.result
        if result is not None:
            for command in sent.commands:
                command.settled, command.result = True, result
            if sent.lease is not None:
                self._lease_is_written(sent.lease)

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
        self.log.sync()
        mine = append.payload, append.count, append.time, append.epoch
        for commit in self.log.read(append.session, self.committed.certain):
            if (commit.payload, commit.count, commit.time, commit.epoch) == mine:
                return Committed(append.session, commit.first, commit.last, commit.position)
        return None

    def _decide_anew(self) -> None:
        """Accept each command once more, whole, or not at all; those of one pipeline together."""
        state = self.committed.state
        certain = state.version
        parts: dict[int, list[AcceptedCommand]] = {}
        for command in self._commands:
            if command.unit is not None:
                parts.setdefault(id(command.unit), []).append(command)
        whole = False
        while not whole:
            whole = True
            state.retract(certain)
            commands = [command for command in self._commands if not command.settled]
            for command in commands:
                before = state.version
                try:
                    self._decide_again(command)
                except EventlogError as error:
                    state.retract(before)
                    self._refuse(command, error)
                    for other in parts.get(id(command.unit), ()):
                        if not other.settled:
                            self._refuse(other, error)
                            whole = False
                    if not whole:
                        break
        self._wait_with([command for command in self._commands if not command.settled])

    def _decide_again(self, command: AcceptedCommand) -> None:
        state, terms = self.committed.state, command.terms
        if command.epoch and command.epoch != self.epoch:
            if command.epoch == self._refused_epoch:
                raise LeaseHeldError(self.session, "another owner", 0)
            raise _lease_over(self.session)
        if terms is not None and terms.expected not in {None, state.version}:
            raise ConflictError(self.session, terms.expected or 0, state.version)
        items: list[Item] = []
        for item in command.items:
            if not isinstance(item, DeltaRun):
                items += decide(state, [item])
                continue
            run, reason = still_admitted(state, item)
            self._failure = self._failure or reason
            if run is not None:
                state.skip(run.count)
                items.append(run)
        command.items = items
        command.settled = not items

    def _refuse(self, command: AcceptedCommand, error: Exception) -> None:
        """Say why a command is not committed, and will not be: to its caller, or to the session's next one."""
        command.error = error
        command.settled = True
        write = command.lease_write
        if write is not None:
            write.refused = True
            if self.lease_write is write:
                self.lease_write = write.unwritten_claim
        if not command.owned and isinstance(error, EventlogError):
            self._failure = self._failure or error

    # -- reading -----------------------------------------------------------------------------

    def known_state(self) -> State:
        """The facts as far as this handle has read them: what others append now may be missing."""
        with self.lock:
            if self._torn or self._behind or not self.committed.loaded:
                self.catch_up()
            return self.committed.state

    def ancestry(self) -> list[Stream]:
        """The streams of the session's history; nothing else is looked at."""
        with self.lock:
            return self.committed.ancestry()

    def newest(self) -> int:
        """The version up to which everything is committed now; without a state only the head is read."""
        with self.lock:
            if not self.committed.loaded:
                return head_of(self.log, self.session).version
            self.catch_up()
            return self.committed.certain

    def checkpoint(self) -> None:
        """Keep the state as of now if all is committed and enough events have come since it was kept last."""
        with self.lock:
            if self.committed.loaded and not self._torn and not self._sent and not self._commands:
                self.committed.keep_if_due()

    def uncommitted(self, after: int) -> list[Span]:
        """What is accepted and not handed over, beyond version `after`, as it will be if nothing comes between; positions are 0.

        Waits for a thread that is deciding right now, and takes nothing away.
        """
        with self.lock:
            if not self.committed.loaded or self._torn:
                return []
            version = self.committed.state.version
            items = [item for command in self._commands for item in command.items]
            first = version - count_of(items) + 1
            found: list[Span] = []
            for item in items:
                event = item if isinstance(item, DeltaRun) else item[1]
                span = Span(self.session, first, 0, first_time(item), self.epoch, event)
                found.append(span)
                first = span.last + 1
            seen = max(after - version, 0)
            if streamed := self.buffer.peek(seen):
                found.append(Span(self.session, version + seen + 1, 0, streamed.start, self.epoch, streamed))
            beyond = (span.cut(after, None) for span in found)
            return [span._replace(position=0) for span in beyond if span is not None]

    def recent(self, after: int) -> list[Stretch] | None:
        """The appends beyond version `after`, if this writer made all of them and not long ago; None: they are to be read.

        Hands nothing over, so it is quick; it says None if anything waits to be.
        """
        with self.lock:
            self._followed = True
            if self._torn or self.buffer.flat or self._commands or self._failure is not None:
                return None
            if self._sent is not None:
                if not self._sent.is_done():
                    return None
                self.catch_up()
            found: list[Stretch] = []
            version = self.committed.certain
            for sent in reversed(self._landed):
                if sent.last != version or version <= after or len(sent.append.payload) > KEPT_BYTES:
                    break
                version = sent.first - 1
                found.append(Stretch(self.session, sent.first, sent.last, sent.position, sent.append.epoch, sent.batch))
            if not found or version != after:
                return None
            if (
                self.log.last_position() != found[0].position + found[0].last - found[0].first
            ):  # another append, somewhere
                head = self.log.head(self.session)
                if head is None or head.version != self.committed.certain:
                    return None
            found.reverse()
            return found

    def fork_off(self) -> None:
        """This is a child process, in which nothing is accepted."""
        self.lock = RLock()  # another thread of the parent may have held the old one
        self.buffer.fork_off()


def _is_kept(command: AcceptedCommand) -> bool:
    return not command.settled


def _is_conflict(error: Exception) -> bool:
    """Whether another writer came between, so that what was decided is to be decided anew."""
    return isinstance(error, (ConflictError, AlreadyExistsError))


def _is_free(command: AcceptedCommand) -> bool:
    """Whether nothing of a command needs the lease."""
    try:
        needs_no_lease([item for item in command.items if not isinstance(item, DeltaRun)], "")
    except RefusedError:
        return False
    return not any(isinstance(item, DeltaRun) for item in command.items)


def _end_of_append(commands: Sequence[AcceptedCommand]) -> int:
    """How many of the commands go into the next append: one with terms of its own alone, and not much more than `MAX_RUN`."""
    weight = 0
    for place, command in enumerate(commands):
        weight += command.weight
        same = place > 0 and command.unit is not None and command.unit is commands[place - 1].unit
        if place and not same and (command.terms is not None or commands[0].terms is not None or weight > MAX_RUN):
            return place
    return len(commands)


def _lease_over(session: str) -> RefusedError:
    return RefusedError("the lease was over before this was written", expected="the lease", session=session)


def _reentered(session: str) -> BusyError:
    return BusyError(
        f"session {session}: a command came from inside another of the same thread, as from a signal handler;"
        " nothing of it was accepted: let another thread give it"
    )
