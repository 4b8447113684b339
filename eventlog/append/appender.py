"""The one place where a session's events are decided and handed to the log.

An appender holds the session's state, ahead of what is committed by what it has accepted and handed over.  Accepted are
deltas (one list operation each, no lock: `delta_buffer.py`) and events nobody waits for; they go to the log with the next command that
waits, or with the store's next flush, in the order of calls and in one append.  What becomes of them is `outcomes.py`.

Knows nothing of leases but the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import RLock

from eventlog import events as ev
from eventlog.append.conflicts import Meanwhile
from eventlog.append.metrics import Metrics
from eventlog.append.outcomes import ATTEMPTS, Settling
from eventlog.append.pending import (
    MAX_APPEND_BYTES,
    Accepted,
    Flight,
    Load,
    Unsure,
    content_digest,
    count_of,
    first_time,
    limit_bodies,
)
from eventlog.codec.batch import Item, batch_of, encode_batch, pack
from eventlog.codec.decoded import Span
from eventlog.codec.deltas import DeltaRun, Key
from eventlog.errors import (
    BusyError,
    ConflictError,
    DataError,
    EventlogError,
    FencedError,
    LimitError,
    RequestReusedError,
    StopError,
)
from eventlog.log.contract import Append, Log
from eventlog.state.committed import undivided
from eventlog.state.decide import decide, needs_no_lease, still_admitted
from eventlog.state.state import State

__all__ = ["Appender"]

MAX_ACCEPTED = 2_048
"""Accepted events after which they are handed over without waiting for the flush."""
MAX_ACCEPTED_BYTES = 1 << 20
"""The same in bytes of bodies."""
MAX_RUN = 16 * 1024 * 1024
"""Characters of deltas that are handed over in one append; more of them go in several."""
KEPT_BYTES = 1 << 14
"""Encoded bytes of the largest append that is kept decoded (`outcomes.KEPT`)."""


class Appender(Settling):
    """Decides, accepts and commits for one session.  Safe across threads."""

    def __init__(
        self, log: Log, session: str, clock: Callable[[], int], wake: Callable[[Appender], None], metrics: Metrics
    ) -> None:
        super().__init__(log, session, metrics)
        self.clock = clock
        self._wake = wake
        self._carried = 0
        """Bytes of the bodies of what is accepted."""

    # -- accepting ---------------------------------------------------------------------------

    def uncommitted(self, after: int) -> list[Span]:
        """What is accepted and not handed over, beyond version `after`, as it will be if nothing comes between; positions are 0.

        Waits for whoever is deciding right now, and takes nothing away.
        """
        with self.lock:
            if not self._loaded or self.torn:
                return []
            version = self.state.version
            items = [item for group in self._accepted for item in group.items]
            first = version - count_of(items) + 1
            found: list[Span] = []
            for item in items:
                event = item if isinstance(item, DeltaRun) else item[1]
                span = Span(self.session, first, 0, first_time(item), self.epoch, event)
                found.append(span)
                first = span.last + 1
            told = max(after - version, 0)
            if streamed := self.buffer.peek(told):
                found.append(Span(self.session, version + told + 1, 0, streamed.start, self.epoch, streamed))
            beyond = (span.cut(after, None) for span in found)
            return [span._replace(position=0) for span in beyond if span is not None]

    def wake(self, delta: tuple[Key, str] | None = None) -> None:
        """Something was accepted: have it flushed in time.

        `delta` was put into the buffer, which may have been closed in that moment: `ClosedError` if it is still there.
        """
        if self.buffer.ask():
            self._wake(self)
        elif delta is not None:
            with self.lock:  # whoever takes deltas out has it
                self.buffer.refuse(*delta)

    def pressure(self) -> None:
        """Make room before a delta goes into a full buffer; raises what keeps it full.

        Until that has worked every delta comes here first, so that what cannot be written does not pile up.
        """
        self.buffer.require_open()
        self.buffer.hold()
        with self.lock:
            self._ready()
        self.settle()
        self.buffer.admit()

    def weigh(self, characters: int) -> None:
        """A long delta is about to go into the buffer: commit what is there if they are many; raises what keeps them there."""
        if self.buffer.weigh(characters) > MAX_RUN:
            self.settle()
            self.buffer.weigh(characters)

    def end(self) -> None:
        """The buffer is closed: commit everything accepted, and what comes in meanwhile; accept nothing from then on."""
        for _ in range(ATTEMPTS):
            try:
                self.settle()
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
        raise BusyError(f"session {self.session}: the store closes, and more is accepted all the time")

    def fork_off(self) -> None:
        """This is a child process, in which nothing is accepted."""
        self.lock = RLock()  # another thread of the parent may have held the old one
        self.buffer.fork_off()

    @undivided
    def accept(
        self,
        items: Sequence[tuple[int, ev.Event]],
        bodies: Mapping[bytes, bytes] | None = None,
        *,
        owned: bool = False,
        wake: bool = True,
    ) -> Accepted:
        """Decide on events that nobody waits for now; they are committed with what comes next, or with the flush.

        `owned`: the caller will wait with `settle`; without, a failure is told to the session's next command.  Without `wake`
        the caller has to see to the flush.
        """
        buffer = self.buffer
        self._ready()
        if buffer.flat:
            self._collect()
        weight = limit_bodies(bodies) if bodies else 0
        epoch, before, carried = self.epoch, self.state.version, self._carried
        if not epoch:
            needs_no_lease([event for _, event in items], self.session)
        accepted = Accepted(decide(self.state, items), bodies or {}, epoch, owned=owned)
        self._accepted.append(accepted)
        self._carried += weight
        if len(self._accepted) >= MAX_ACCEPTED or self._carried > MAX_ACCEPTED_BYTES:
            try:
                self._submit([])
            except Exception:  # the caller is told, so it never was accepted
                self._accepted.pop()
                self._carried = carried
                self.state.retract(before)
                raise
        if wake and not buffer.awake:
            self.wake()
        return accepted

    @undivided
    def leave(self) -> None:
        """The lease is given back: what was accepted under it and is not handed over will not be written."""
        self.epoch = 0
        self._drop_leased()

    def _drop_leased(self) -> None:
        if self.buffer.drop():
            self._failure = self._failure or self._left()
        if any(group.epoch for group in self._accepted):
            self._resync()

    @undivided
    def flush(self) -> list[Flight]:
        """Hand over what was accepted; returns everything whose outcome is not known yet."""
        self.buffer.awake = False
        if self.is_ahead:
            self._look()
            self._fence()
            self._collect()
            if self._accepted:
                self._submit([])
        return list(self._flights)

    def _collect(self) -> None:
        """Turn the buffered deltas into a run behind what was accepted before them.

        Deltas of a part that takes none any more are left out, and the next caller is told.
        """
        streamed = self.buffer.take()
        if streamed is None:
            return
        run, reason = still_admitted(self.state, streamed)
        self._failure = self._failure or reason
        pieces = run.pieces(MAX_RUN) if run is not None else []
        for number, piece in enumerate(pieces):
            if number:
                try:
                    self._submit([])
                except BaseException:
                    self.buffer.put_back(pieces[number:])
                    raise
            self.state.skip(piece.count)
            self._accepted.append(Accepted([piece], {}, self.epoch, owned=False))

    # -- deciding ------------------------------------------------------------------------------

    @undivided
    def commit(
        self,
        items: Sequence[tuple[int, ev.Event]],
        bodies: Mapping[bytes, bytes] | None = None,
        *,
        expected: int | None = None,
        request: str | None = None,
        creates_at: int | None = None,
        alone: bool = False,
        unchanged: bool = False,
        then: Callable[[State], Sequence[ev.Event]] | None = None,
    ) -> Flight:
        """Decide on events (with their times) and hand them over, in one append with what was accepted before.

        Raises before anything is handed over if the state does not allow one of them.  `then` is asked for more events,
        at the time of the last one, once the state has taken these in.  A request's content is its events without
        their times.  With `alone`, and with a condition, the append holds these events only.
        With `unchanged` it goes in only if nobody appends anything between the decision and the commit.
        """
        digest = b"" if request is None else content_digest(items)
        known = self._known(request, digest)
        if known is not None:
            with suppress(StopError):  # whoever may not write any more still learns what became of the request
                self.flush()
            return known
        try:
            return self._commit(
                items,
                bodies,
                expected=expected,
                request=request,
                digest=digest,
                creates_at=creates_at,
                alone=alone,
                unchanged=unchanged,
                then=then,
            )
        except EventlogError:
            known = self._known(request, digest)  # another handle or process may have been faster with it
            if known is None:
                raise
            return known

    def _commit(
        self,
        items: Sequence[tuple[int, ev.Event]],
        bodies: Mapping[bytes, bytes] | None,
        *,
        expected: int | None,
        request: str | None,
        digest: bytes,
        creates_at: int | None,
        alone: bool,
        unchanged: bool,
        then: Callable[[State], Sequence[ev.Event]] | None,
    ) -> Flight:
        """Decide and hand over, whatever became of the request id before."""
        if creates_at is None:
            self._ready()
        self._collect()
        if expected is not None or unchanged:
            self.settle()
        elif self._accepted and (alone or request is not None):
            self._submit([])
        if unchanged:
            expected = self.state.version
        if expected is not None and expected != self.state.version:
            raise ConflictError(self.session, expected, self.state.version)
        if bodies:
            limit_bodies(bodies)
        before = self.state.version
        decided = decide(self.state, items)
        try:
            more: Sequence[ev.Event] = () if then is None else then(self.state)
            if more:
                decided += decide(self.state, [(items[-1][0], event) for event in more])
            if not self.epoch and expected is None and creates_at is None:
                needs_no_lease([*(event for _, event in items), *more], self.session)
        except BaseException:
            self.state.retract(before)
            raise
        return self._submit(decided, bodies, expected=expected, request=request, digest=digest, creates_at=creates_at)

    # -- handing over ----------------------------------------------------------------------------

    def _known(self, request: str | None, digest: bytes) -> Flight | None:
        """What became, or is becoming, of a request id that was used before."""
        if request is None:
            return None
        for flight in self._flights:
            if flight.request == request and not flight.ticket.done():
                if flight.digest != digest:
                    raise RequestReusedError(self.session, request)
                return flight
        if self.log.request(self.session, request) is None:
            return None
        append = Append(session=self.session, payload=b"", count=1, time=0, request=request, digest=digest)
        return Flight(0, 0, self.log.submit(append), [], request, digest)

    def _submit(
        self,
        decided: list[Item],
        more_bodies: Mapping[bytes, bytes] | None = None,
        *,
        expected: int | None = None,
        request: str | None = None,
        digest: bytes = b"",
        creates_at: int | None = None,
    ) -> Flight:
        """Encode and submit what was accepted and then `decided`, all of which the state has taken in.

        The flight is there before the log has it, and what was accepted goes when it is, so that an interrupt loses neither.
        """
        accepted = self._accepted
        last = self.state.version
        seen = None if expected is not None or creates_at is not None else self._certain
        flight: Flight | None = None
        try:
            load = Load(accepted, decided, self.card)
            if more_bodies:
                load.bodies.update(more_bodies)
            batch = batch_of(load.entries, load.start)
            payload = encode_batch(batch)
            size = len(payload) + (sum(map(len, load.bodies.values())) if load.bodies else 0)
            if size > MAX_APPEND_BYTES:
                raise LimitError("bytes of an append", size, MAX_APPEND_BYTES)  # noqa: TRY301 - retracted below
            card, count = load.card, load.count
            new_card = card is not self.card
            append = Append(
                session=self.session,
                payload=payload,
                count=count,
                time=load.last_time,
                messages=load.messages,
                card=pack(card) if new_card or creates_at is not None else None,
                bodies=tuple(load.bodies.items()),
                creates_at=creates_at,
                expected=expected,
                seen=seen,
                check=None
                if seen is None
                else Meanwhile(
                    self.session, seen, load.events, free=not self.epoch, card=new_card and card != self.card
                ),
                epoch=self.epoch,
                request=request,
                digest=digest,
                follows=self._flights[-1].ticket if self._flights else None,
            )
            flight = Flight(last - count + 1, last, Unsure(self.log, append, self._certain), accepted, request, digest)
            if len(payload) <= KEPT_BYTES:
                flight.batch, flight.epoch = batch, append.epoch
            self._flights.append(flight)
            flight.ticket = self.log.submit(append)
        except Exception:
            # Nothing was handed over: what was accepted waits for the next try, what was just decided never happened.
            if flight is not None:
                self._flights.pop()
            self.state.retract(last - count_of(decided))
            raise
        self._accepted, self._carried, self.card = [], 0, card
        metrics = self._metrics
        metrics.appends += 1
        metrics.events += count
        metrics.payload_bytes += len(payload)
        metrics.body_bytes += size - len(payload)
        return flight

    # -- keeping the state true ------------------------------------------------------------------

    def _ready(self) -> None:
        """Catch up, and tell the caller of what failed meanwhile without a witness, and of a lease that is over."""
        self.buffer.require_unsealed()
        self._look()
        self._fence()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if not self._flights and not self._accepted:
            self._keep()

    def _look(self) -> None:
        """Catch up, unless the state is ahead of anything there is to be taken in."""
        if self._flights or not self._accepted or self.torn:
            self.catch_up()

    def _fence(self) -> None:
        """Raise if the lease is over as far as is known; what was accepted under it is dropped."""
        if self.epoch and self._newest_epoch > self.epoch:
            self.buffer.hold()
            self._drop_leased()
            self._failure = None  # whatever it was, it was about what is dropped
            raise FencedError(self.session, self.epoch, self._newest_epoch)
