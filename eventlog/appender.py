"""The one place where a session's events are decided and handed to the log.

An appender holds the session's state, ahead of what is committed by what it has accepted and handed over.  Accepted are
deltas (one list operation each, no lock) and events nobody waits for; they go to the log with the next command that waits, or
with the store's next flush, in the order of calls and in one append.  When an outcome differs from what was assumed (another
writer came between, or an append failed), the state is taken back to what is certain, read again from the log, and what was
accepted is decided anew: it is not lost.

Used by the handles (`handle.py`, `reply.py`); it knows nothing of leases but the epoch.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import RLock

from eventlog import events as ev
from eventlog.card import Card, card_of, evolve_card
from eventlog.codec import Item, Span, encode, pack
from eventlog.deciding import decide, needs_no_lease, still_admitted
from eventlog.deltas import DeltaRun
from eventlog.errors import (
    ClosedError,
    ConflictError,
    ErasedError,
    EventlogError,
    FencedError,
    ForkedProcessError,
    LimitError,
    RefusedError,
    RequestReusedError,
    StopError,
)
from eventlog.flight import (
    MAX_APPEND_BYTES,
    Accepted,
    Flight,
    content_digest,
    count_of,
    first_time,
    last_time,
    limit_bodies,
    rebase,
)
from eventlog.lineage import Stream
from eventlog.log.base import Append, Head, Log
from eventlog.meanwhile import Meanwhile
from eventlog.metrics import Metrics
from eventlog.reader import ancestry
from eventlog.restoring import fold_spans, restore, save_state
from eventlog.state import State

logger = logging.getLogger("eventlog")

__all__ = ["Appender"]

NANOSECONDS = 1_000_000
"""Buffered times, in nanoseconds, for each millisecond of an event's."""
MAX_BUFFERED = 3 * 65_536
"""Accepted deltas (three slots each) after which a producer commits them itself: the bound of the buffer."""
MAX_ACCEPTED = 2_048
"""Accepted events after which they are handed over without waiting for the flush."""
MAX_ACCEPTED_BYTES = 1 << 20
"""The same in bytes of bodies."""
MAX_RUN = 16 * 1024 * 1024
"""Characters of deltas that are handed over in one append; more of them go in several."""
CHECKPOINT_EVENTS = 2_000
"""Events after which the state of a session that is being run is kept, so that opening it stays short."""
ATTEMPTS = 40
"""How often something accepted is decided anew because other writers came between, before the caller hears of it."""


class Appender:
    """Decides, accepts and commits for one session.  Safe across threads."""

    def __init__(
        self, log: Log, session: str, clock: Callable[[], int], wake: Callable[[Appender], None], metrics: Metrics
    ) -> None:
        self.log = log
        self.session = session
        self.clock = clock
        self.epoch = 0
        self.checkpoint_events = CHECKPOINT_EVENTS
        self.capacity = MAX_BUFFERED
        self.limit = self.capacity
        """Slots of the buffer from which on a delta has to wait: `capacity`, or 0 when no more may come."""
        self.buffer: list[object] = []
        """`[key, text, ns, …]`: one `extend` per delta, which is atomic."""
        self.awake = False
        """Whether a flush is certain to come that takes everything now in the buffer.

        Cleared before the buffer is emptied and looked at after a delta went in, so that no delta is left behind.
        """
        self.card = Card()
        self.streams: list[Stream] = []
        self.state = State()
        self._wake = wake
        self._metrics = metrics
        self.lock = RLock()
        self._accepted: list[Accepted] = []
        self._weight = 0
        """Characters of the long deltas in the buffer."""
        self._carried = 0
        """Bytes of the bodies of what is accepted."""
        self._flights: deque[Flight] = deque()
        self._closed = False
        self._forked = False
        self._newest_epoch = 0
        self._certain = 0
        self._saved = 0
        self._loaded = False
        self._failure: EventlogError | None = None

    # -- accepting ---------------------------------------------------------------------------

    @property
    def is_ahead(self) -> bool:
        """Whether something is accepted or handed over whose outcome was not taken in."""
        return bool(self.buffer or self._accepted or self._flights)

    @property
    def certain(self) -> int:
        """The version up to which everything is known to be committed."""
        return self._certain

    def uncommitted(self, after: int) -> list[Span]:
        """What is accepted and not handed over, beyond version `after`, as it will be if nothing comes between; positions are 0.

        Waits for whoever is deciding right now, and takes nothing away.
        """
        with self.lock:
            if not self._loaded:
                return []
            version = self.state.version
            items = [item for group in self._accepted for item in group.items]
            first = version - count_of(items) + 1
            found: list[Span] = []
            for item in items:
                run = isinstance(item, DeltaRun)
                span = Span(self.session, first, 0, first_time(item), self.epoch, item if run else item[1])
                found.append(span)
                first = span.last + 1
            told = max(after - version, 0)
            if flat := self.buffer[3 * told :]:
                streamed = DeltaRun.from_flat(flat, unit=NANOSECONDS)
                found.append(Span(self.session, version + told + 1, 0, streamed.start, self.epoch, streamed))
            beyond = (span.cut(after, None) for span in found)
            return [span._replace(position=0) for span in beyond if span is not None]

    def wake(self) -> None:
        """Something was accepted: have it flushed in time."""
        self.awake = True
        self._wake(self)

    def pressure(self) -> None:
        """Make room before a delta goes into a full buffer; raises what keeps it full.

        Until that has worked every delta comes here first, so that what cannot be written does not pile up.
        """
        if self._closed:
            raise (
                ForkedProcessError("the store was opened before os.fork()")
                if self._forked
                else ClosedError("the store is closed")
            )
        self.limit = 0
        with self.lock:
            self._ready()
        self.settle()
        self.limit = 0 if self._closed else self.capacity

    def weigh(self, characters: int) -> None:
        """A long delta went into the buffer, which is bounded in characters too: commit when they are many."""
        self._weight += characters
        if self._weight > MAX_RUN:
            self.settle()

    def close(self, *, forked: bool = False) -> None:
        """Take no more deltas: what is accepted from here on would have nobody to commit it.

        `forked`: because this is a child process, in which nothing of what was accepted may be written.
        """
        self._closed, self._forked = True, forked
        self.limit = 0

    def accept(
        self, items: Sequence[tuple[int, ev.Event]], bodies: Mapping[bytes, bytes] | None = None, *, owned: bool = False
    ) -> Accepted:
        """Decide on events that nobody waits for now; they are committed with what comes next, or with the flush.

        `owned`: the caller will wait with `settle`; without, a failure is told to the session's next command.
        """
        with self.lock:
            self._ready()
            self._collect()
            limit_bodies(bodies)
            if not self.epoch:
                needs_no_lease([event for _, event in items], self.session)
            accepted = Accepted(decide(self.state, items), bodies, self.epoch, owned=owned)
            self._accepted.append(accepted)
            self._carried += sum(map(len, bodies.values())) if bodies else 0
            if len(self._accepted) >= MAX_ACCEPTED or self._carried > MAX_ACCEPTED_BYTES:
                self._submit([], [])
        if not self.awake:
            self.wake()
        return accepted

    def leave(self) -> None:
        """The lease is given back: what was accepted under it and is not handed over will not be written."""
        with self.lock:
            self.epoch = 0
            self._drop_leased()

    def _drop_leased(self) -> None:
        if self.buffer:
            del self.buffer[:]
            self._failure = self._failure or self._left()
        if any(group.epoch for group in self._accepted):
            self._resync()

    def _left(self) -> EventlogError:
        return RefusedError("the lease was over before this was written", expected="the lease", session=self.session)

    def flush(self) -> list[Flight]:
        """Hand over what was accepted; returns everything whose outcome is not known yet."""
        with self.lock:
            self.awake = False
            if self.is_ahead:
                self.catch_up()
                self._fence()
                self._collect()
                if self._accepted:
                    self._submit([], [])
            return list(self._flights)

    def _collect(self) -> None:
        """Turn the buffered deltas into a run behind what was accepted before them.

        Deltas of a part that takes none any more are left out, and the next caller is told.
        """
        count = len(self.buffer)
        if not count:
            return
        flat = self.buffer[:count]
        del self.buffer[:count]
        self._weight = 0
        run, reason = still_admitted(self.state, DeltaRun.from_flat(flat, unit=NANOSECONDS))
        self._failure = self._failure or reason
        pieces = run.pieces(MAX_RUN) if run is not None else []
        for number, piece in enumerate(pieces):
            if number:
                self._submit([], [])
            self.state.skip(piece.count)
            self._accepted.append(Accepted([piece], None, self.epoch, owned=False))

    # -- deciding ------------------------------------------------------------------------------

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
        with self.lock:
            digest = b""
            if request is not None:
                digest = content_digest(items)
                known = self._known(request, digest)
                if known is not None:
                    with suppress(StopError):  # whoever may not write any more still learns what became of the request
                        self.flush()
                    return known
            if creates_at is None:
                self._ready()
            self._collect()
            if expected is not None or unchanged:
                self.settle()
            elif self._accepted and (alone or request is not None):
                self._submit([], [])
            if unchanged:
                expected = self.state.version
            if expected is not None and expected != self.state.version:
                raise ConflictError(self.session, expected, self.state.version)
            limit_bodies(bodies)
            before = self.state.version
            decided = decide(self.state, items)
            events = [event for _, event in items]
            if then is not None:
                try:
                    more = then(self.state)
                    decided += decide(self.state, [(items[-1][0], event) for event in more])
                except BaseException:
                    self.state.retract(before)
                    raise
                events += more
            if not self.epoch and expected is None and creates_at is None:
                try:
                    needs_no_lease(events, self.session)
                except EventlogError:
                    self.state.retract(before)
                    raise
            flight = self._submit(
                decided, events, bodies, expected=expected, request=request, digest=digest, creates_at=creates_at
            )
            flight.waited = True
            return flight

    # -- handing over ----------------------------------------------------------------------------

    def _known(self, request: str, digest: bytes) -> Flight | None:
        """What became, or is becoming, of a request id that was used before."""
        for flight in self._flights:
            if flight.request == request and not flight.ticket.done():
                if flight.digest != digest:
                    raise RequestReusedError(self.session, request)
                return flight
        if self.log.request(self.session, request) is None:
            return None
        append = Append(session=self.session, payload=b"", count=1, time=0, request=request, digest=digest)
        return Flight(0, 0, self.log.submit(append), [])

    def _submit(
        self,
        decided: list[Item],
        events: Sequence[ev.Event],
        more_bodies: Mapping[bytes, bytes] | None = None,
        *,
        expected: int | None = None,
        request: str | None = None,
        digest: bytes = b"",
        creates_at: int | None = None,
    ) -> Flight:
        """Encode and submit what was accepted and then `decided`, all of which the state has taken in."""
        accepted, self._accepted = self._accepted, []
        self._carried = 0
        entries = [item for group in accepted for item in group.items] + decided
        if not entries:
            raise RefusedError("an append of no events", expected="at least one event")
        last = self.state.version
        seen = None if expected is not None or creates_at is not None else self._certain
        try:
            own = [item[1] for group in accepted for item in group.items if not isinstance(item, DeltaRun)]
            own.extend(events)
            bodies = dict(more_bodies or {})
            for group in accepted:
                bodies.update(group.bodies)
            count = count_of(entries)
            first = last - count + 1
            start = first_time(entries[0])
            card = self.card
            for event in own:
                card = evolve_card(card, event)
            payload = encode([rebase(item, start) for item in entries], start)
            size = len(payload) + sum(map(len, bodies.values()))
            if size > MAX_APPEND_BYTES:
                raise LimitError("bytes of an append", size, MAX_APPEND_BYTES)  # noqa: TRY301 - retracted below
            append = Append(
                session=self.session,
                payload=payload,
                count=count,
                time=max(map(last_time, entries)),
                messages=sum(isinstance(event, (ev.UserMessageAdded, ev.AssistantMessageStarted)) for event in own),
                card=pack(card) if card is not self.card or creates_at is not None else None,
                bodies=tuple(bodies.items()),
                creates_at=creates_at,
                expected=expected,
                seen=seen,
                check=None
                if seen is None
                else Meanwhile(self.session, seen, own, free=not self.epoch, card=card != self.card),
                epoch=self.epoch,
                request=request,
                digest=digest,
                follows=self._flights[-1].ticket if self._flights else None,
            )
            ticket = self.log.submit(append)
        except BaseException:
            # Nothing was handed over: what was accepted waits for the next try, what was just decided never happened.
            self.state.retract(last - count_of(decided))
            self._accepted = accepted
            raise
        self.card = card
        metrics = self._metrics
        metrics.appends += 1
        metrics.events += count
        metrics.payload_bytes += len(payload)
        metrics.body_bytes += size - len(payload)
        flight = Flight(first, last, ticket, accepted)
        flight.request, flight.digest = request, digest
        self._flights.append(flight)
        return flight

    # -- keeping the state true ------------------------------------------------------------------

    def _ready(self) -> None:
        """Catch up, and tell the caller of what failed meanwhile without a witness, and of a lease that is over."""
        self.catch_up()
        self._fence()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _fence(self) -> None:
        """Raise if the lease is over as far as is known; what was accepted under it is dropped."""
        if self.epoch and self._newest_epoch > self.epoch:
            self.limit = 0
            self._drop_leased()
            self._failure = None  # whatever it was, it was about what is dropped
            raise FencedError(self.session, self.epoch, self._newest_epoch)

    def catch_up(self) -> None:
        """Bring the state up to what is committed, and ahead by what is accepted and handed over."""
        with self.lock:
            if not self._loaded:
                self._load()
            while self._flights and self._flights[0].ticket.done():
                flight = self._flights[0]
                try:
                    committed = flight.ticket.wait()
                except Exception:  # noqa: BLE001 - whatever it was, `_resync` deals with it
                    self._resync()
                    return
                if committed.first != flight.first:
                    self._resync()
                    return
                self._flights.popleft()
                _settled(flight)
                self._certain = flight.last
                self.state.settle(flight.last)
            if not self._flights and not self._accepted:
                head = self.log.head(self.session)
                if head is not None:
                    self._newest_epoch = head.lease.epoch
                    if head.version != self.state.version:
                        self._read_on(head)
                if self.epoch:
                    self.checkpoint()

    def settle(self, mine: Sequence[Accepted] | None = None) -> None:
        """Commit everything accepted, wait for it, and take the outcomes in; raises the first failure of `mine` (None: of all).

        What failed only because another writer came between is decided anew.  Who waits for an append hears of its failure there.
        """
        for attempt in range(ATTEMPTS):
            failure: Exception | None = None
            for flight in self.flush():
                try:
                    flight.ticket.wait()
                except Exception as error:  # noqa: BLE001 - raised below, if it is this caller's
                    failure = failure or (error if _concerns(flight, mine) else None)
            if not self._taken_in(failure, mine, last=attempt == ATTEMPTS - 1):
                return
            time.sleep(_pause(attempt))

    async def settled(self, mine: Sequence[Accepted] | None = None) -> None:
        """The same for asyncio."""
        for attempt in range(ATTEMPTS):
            failure: Exception | None = None
            for flight in self.flush():
                try:
                    await flight.ticket
                except Exception as error:  # noqa: BLE001 - raised below, if it is this caller's
                    failure = failure or (error if _concerns(flight, mine) else None)
            if not self._taken_in(failure, mine, last=attempt == ATTEMPTS - 1):
                return
            import asyncio

            await asyncio.sleep(_pause(attempt))

    def _taken_in(self, failure: Exception | None, mine: Sequence[Accepted] | None, *, last: bool) -> bool:
        """Take the outcomes of a flush in; True if what was accepted should be tried again."""
        with self.lock:
            if not self._loaded:
                return False
            self.catch_up()
            if mine is None:
                waiting = bool(self._accepted)
                error, self._failure = self._failure, None
            else:
                waiting = not all(group.settled for group in mine)
                error = next((group.error for group in mine if group.error is not None), None)
        if failure is not None and waiting:
            if isinstance(failure, ConflictError) and not last:
                return True
            raise failure
        if error is not None:
            raise error
        return False

    def checkpoint(self) -> None:
        """Keep the state as of now if all is committed and enough events have come since it was kept last.

        Enough is `checkpoint_events`, or a quarter of the history when that is more, so that keeping stays cheap.
        """
        with self.lock:
            due = self._saved + max(self.checkpoint_events, self._saved // 4)
            if self._loaded and not self._flights and not self._accepted and self.state.version >= due:
                save_state(self.log, self.session, self.state)
                self._saved = self.state.version

    def begin(self, streams: list[Stream], state: State) -> None:
        """Take over what a session that does not exist yet begins with: its ancestry and inherited facts."""
        self.streams = streams
        self.state = state
        self._certain = state.version
        self._loaded = True

    def ancestry(self) -> list[Stream]:
        """The streams of the session's history, which never change; read if they were not yet, and nothing else is looked at."""
        with self.lock:
            if not self._loaded:
                self._load()
            return self.streams

    def _load(self) -> None:
        self.streams = ancestry(self.log, self.session)
        head = self.log.head(self.session)
        assert head is not None
        self.card = card_of(head)
        self.state, self._saved = restore(self.log, self.streams, head.version)
        self._certain = self.state.version
        self.state.settle(self._certain)
        self._loaded = True

    def _resync(self) -> None:
        """Something did not go as assumed: go back to what is certain, read on, and decide the rest anew."""
        self._metrics.resyncs += 1
        again: list[Accepted] = []
        while self._flights:
            flight = self._flights.popleft()
            try:
                flight.ticket.wait()
            except StopError as error:
                self._count(error)
                for group in flight.accepted:
                    self._fail(group, error)
            except Exception as error:  # noqa: BLE001 - who waits for it is told; what nobody waits for is tried again
                self._count(error)
                again += flight.accepted
            else:
                _settled(flight)
        again += self._accepted
        self._accepted = []
        self.state.retract(self._certain)
        head = self.log.head(self.session)
        if head is not None:
            self._read_on(head)
        for group in again:
            self._decide_anew(group)

    def _decide_anew(self, group: Accepted) -> None:
        """Accept a command once more, whole, or not at all."""
        if group.epoch not in {0, self.epoch}:
            self._fail(group, self._left())
            return
        before = self.state.version
        items: list[Item] = []
        try:
            for item in group.items:
                if not isinstance(item, DeltaRun):
                    items += decide(self.state, [item])
                    continue
                run, reason = still_admitted(self.state, item)
                self._failure = self._failure or reason
                if run is not None:
                    self.state.skip(run.count)
                    items.append(run)
        except EventlogError as error:
            self.state.retract(before)
            self._fail(group, error)
            return
        group.items = items
        if items:
            self._accepted.append(group)
        else:
            group.settled = True

    def _fail(self, group: Accepted, error: EventlogError) -> None:
        """The command did not come to be, and will not: whoever waits for it is told, or the next caller."""
        group.error = error
        group.settled = True
        if not group.owned:
            self._failure = self._failure or error

    def _count(self, error: Exception) -> None:
        self._metrics.failures += 1
        logger.warning("session %s: an append failed: %s", self.session, type(error).__name__)

    def _read_on(self, head: Head) -> None:
        self.card = card_of(head)
        if self.card.erased:
            raise ErasedError(self.session)
        self._newest_epoch = head.lease.epoch
        fold_spans(self.log, self.streams, self.state, head.version)
        self._certain = self.state.version
        self.state.settle(self._certain)


def _settled(flight: Flight) -> None:
    for group in flight.accepted:
        group.settled = True


def _concerns(flight: Flight, mine: Sequence[Accepted] | None) -> bool:
    """Whether a failed append is one that this caller waits for, and nobody else is told of."""
    if mine is None:
        return bool(flight.accepted)
    return any(group in mine for group in flight.accepted)


def _pause(attempt: int) -> float:
    """Seconds to leave to the others before the next try."""
    return 0.0 if attempt < 4 else 0.001 * attempt
