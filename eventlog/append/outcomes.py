"""What a session has accepted and what is on its way to the log, and what becomes of it.

The state is ahead of what is committed by both.  Outcomes are taken in when they are known.  When one differs from what was
assumed (another writer came between, or an append failed), the state is taken back to what is certain, read again from the
log, and what was accepted is decided anew: it is not lost.  Whoever waits for an append hears of its failure there, and then it
is not committed later; of what nobody waits for the session's next caller is told.

The ground of `appender.py`, which alone hands things over.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain

from eventlog.append.delta_buffer import Buffer
from eventlog.append.metrics import Metrics
from eventlog.append.pending import Accepted, Flight
from eventlog.codec.batch import Item
from eventlog.codec.decoded import Stretch
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import (
    ConflictError,
    ErasedError,
    EventlogError,
    PartlyCommittedError,
    RefusedError,
    StopError,
    UnknownOutcomeError,
)
from eventlog.history.streams import head_of
from eventlog.log.contract import Head, Log
from eventlog.logger import logger
from eventlog.state.committed import CommittedState, undivided
from eventlog.state.decide import decide, still_admitted

__all__ = ["ATTEMPTS", "KEPT", "Settling"]

KEPT = 8
"""Appends that are kept decoded, so that whoever follows the session through this handle need not read them back."""
ATTEMPTS = 40
"""How often something accepted is decided anew because other writers came between, before the caller hears of it."""


class Settling(CommittedState, ABC):
    """The accepted commands, the appends on their way, and the newest that arrived."""

    def __init__(self, log: Log, session: str, metrics: Metrics) -> None:
        super().__init__(log, session)
        self.epoch = 0
        self._metrics = metrics
        self._accepted: list[Accepted] = []
        self._again: list[Accepted] = []
        """What is to be decided anew, and could not be yet."""
        self._flights: deque[Flight] = deque()
        self._landed: deque[Flight] = deque(maxlen=KEPT)
        """The newest flights whose outcome was taken in, without a gap; for `recent`."""
        self._followed = False
        """Whether somebody asks for them: else they are let go where they are still at hand, and take no room."""
        self._failure: EventlogError | None = None
        self.buffer = Buffer()

    @property
    def is_ahead(self) -> bool:
        """Whether something is accepted or handed over whose outcome was not taken in."""
        return bool(self.buffer.flat or self._accepted or self._flights or self._again)

    @abstractmethod
    def flush(self) -> list[Flight]:
        """Hand over what was accepted; returns everything whose outcome is not known yet."""

    # -- waiting ---------------------------------------------------------------------------------

    def settle(self, mine: Sequence[Accepted] | None = None) -> None:
        """Commit everything accepted, wait for it, and take the outcomes in; raises the first failure of `mine` (None: of all).

        What failed only because another writer came between is decided anew.  Who waits for an append hears of its failure there.
        What of `mine` is not committed when this raises will not be; `PartlyCommittedError` if some of it is.
        """
        for attempt in range(ATTEMPTS):
            flights, failure = self._handed_over(mine)
            for flight in flights:
                try:
                    flight.ticket.wait()
                except Exception as error:  # noqa: BLE001 - raised below, if it is this caller's
                    failure = failure or (error if _concerns(flight, mine) else None)
            if not self._taken_in(failure, mine, last=attempt == ATTEMPTS - 1):
                return
            time.sleep(_pause(attempt))

    async def settled(self, mine: Sequence[Accepted] | None = None) -> None:
        """The same for asyncio, where many wait at once: what they accept meanwhile goes together, in one append."""
        with self.lock:
            before = self._flights[-1].ticket if self._flights else None
        if before is not None:
            with suppress(Exception):  # who waits for it is told
                await before
        for attempt in range(ATTEMPTS):
            flights, failure = self._handed_over(mine)
            for flight in flights:
                try:
                    await flight.ticket
                except Exception as error:  # noqa: BLE001 - raised below, if it is this caller's
                    failure = failure or (error if _concerns(flight, mine) else None)
            if not self._taken_in(failure, mine, last=attempt == ATTEMPTS - 1):
                return
            import asyncio

            await asyncio.sleep(_pause(attempt))

    def _handed_over(self, mine: Sequence[Accepted] | None) -> tuple[list[Flight], Exception | None]:
        """What to wait for, and what kept the rest from being handed over, which need not be this caller's."""
        try:
            return self.flush(), None
        except Exception as error:
            if mine is None:
                raise
            with self.lock:
                return list(self._flights), error

    @undivided
    def _taken_in(self, failure: Exception | None, mine: Sequence[Accepted] | None, *, last: bool) -> bool:
        """Take the outcomes of a flush in; True if what was accepted should be tried again."""
        if not self._loaded:
            return False
        if mine is not None:
            return self._mine_taken_in(failure, mine, last=last)
        self.catch_up()
        if failure is not None and self._flights and not last:
            return True  # somebody handed it over again meanwhile: wait for that
        if failure is not None and self._accepted:
            if isinstance(failure, ConflictError) and not last:
                return True
            raise failure
        error, self._failure = self._failure, None
        if error is not None:
            raise error
        return False

    def _mine_taken_in(self, failure: Exception | None, mine: Sequence[Accepted], *, last: bool) -> bool:
        self._take_in()
        if failure is not None and (left := [group for group in mine if not group.settled]):
            flying = any(group in flight.accepted for flight in self._flights for group in left)
            if not last and (flying or isinstance(failure, ConflictError)):
                return True
            self._withdraw(left, failure)
            if any(group.error is failure for group in left):
                written = sum(group.error is None for group in mine)
                if written and not isinstance(failure, (StopError, UnknownOutcomeError)):
                    raise PartlyCommittedError(self.session, written, len(mine)) from failure
                raise failure
        for group in mine:
            if group.error is not None:
                raise group.error
        return False

    def _withdraw(self, groups: Sequence[Accepted], reason: Exception) -> None:
        """What of these is not committed by now will not be: their caller is told so."""
        for group in groups:
            group.error = reason
        with suppress(EventlogError):  # it is for the next caller to hear why the log could not be read just now
            self._resync()

    # -- keeping the state true ------------------------------------------------------------------

    def newest(self) -> int:
        """The version up to which everything is committed now; of a session that nothing was decided in yet only the head is read."""
        with self.lock:
            if not self._loaded:
                return head_of(self.log, self.session).version
            self.catch_up()
            return self._certain

    @undivided
    def catch_up(self) -> None:
        """Bring the state up to what is committed, and ahead by what is accepted and handed over."""
        if not self._loaded:
            self._load()
        if self._take_in() and not self._flights and not self._accepted:
            head = self.log.head(self.session)
            if head is not None:
                self._newest_epoch = head.lease.epoch
                if head.version != self.state.version:
                    self._read_on(head)

    def checkpoint(self) -> None:
        """Keep the state as of now if all is committed and enough events have come since it was kept last."""
        with self.lock:
            if self._loaded and not self.torn and not self._flights and not self._accepted:
                self._keep()

    def recent(self, after: int) -> list[Stretch] | None:
        """The appends beyond version `after`, if this appender made all of them and not long ago; None: they are to be read.

        Takes no outcome in and hands nothing over, so it is quick; it says None whenever one of these is to be done first.
        """
        with self.lock:
            self._followed = True
            if self.buffer.flat or self._accepted or self._again or self._failure is not None:
                return None
            first, version, position = 0, 0, 0
            found: list[Stretch] = []
            for flight in chain(reversed(self._flights), reversed(self._landed)):
                if not (flight.position or flight.landed()):
                    return None
                last = flight.last
                if not first:
                    first, version = last + 1, last
                    position = flight.position + last - flight.first
                if first <= after + 1 or last + 1 != first or flight.batch is None:
                    break
                first = flight.first
                found.append(Stretch(self.session, first, last, flight.position, flight.epoch, flight.batch))
                if first == after + 1:
                    break
            if first != after + 1:
                return None
            if self.log.last_position() != position:  # somebody appended something, somewhere
                head = self.log.head(self.session)
                if head is None or head.version != version:
                    return None
            found.reverse()
            return found

    def _take_in(self) -> bool:
        """Take in the outcomes that are known; False if one was not as assumed, and everything was put right."""
        if self._again or self.torn:
            self._resync()
            return False
        flights = self._flights
        while flights and flights[0].ticket.done():
            flight = flights[0]
            try:
                flight.wait()
            except Exception:  # noqa: BLE001 - whatever it was, `_resync` deals with it
                self._resync()
                return False
            if not flight.position:
                self._resync()
                return False
            for group in flight.accepted:
                group.settled = True
            flight.accepted = []
            self._certain = flight.last
            self.state.settle(flight.last)
            if self._followed:
                self._landed.append(flight)
            flights.popleft()  # last, so that an interrupt before it only has all this done again
        return True

    def _read_on(self, head: Head) -> None:
        self._landed.clear()
        super()._read_on(head)

    def _resync(self) -> None:
        """Something did not go as assumed: go back to what is certain, read on, and decide the rest anew.

        If the log cannot be read now, or the caller is interrupted, nothing is lost or doubled: whoever looks next begins here.
        """
        self._metrics.resyncs += 1
        again = self._again
        while self._flights:
            flight = self._flights[0]
            try:
                flight.ticket.wait()
            except StopError as error:
                self._count(error)
                for group in flight.accepted:
                    self._fail(group, error)
            except Exception as error:  # noqa: BLE001 - who waits for it is told; what nobody waits for is tried again
                self._count(error)
                for group in flight.accepted:
                    group.error = group.error and error
                again += flight.accepted  # the last thing but one, so that no interrupt comes between
            else:
                for group in flight.accepted:
                    group.settled, group.error = True, None
            self._flights.popleft()
        again += self._accepted
        self._accepted = []
        if self.torn:
            self._landed.clear()
            self._load()
        else:
            self.state.retract(self._certain)
        try:
            head = self.log.head(self.session)
            if head is not None:
                self._read_on(head)
        except ErasedError as error:
            for group in again:
                self._fail(group, error)
            self._again = []
            raise
        accepted: list[Accepted] = []
        for group in dict.fromkeys(again):  # an interrupt may have had some gathered twice
            if not group.settled:
                self._decide_anew(group, accepted)
        self._accepted, self._again, self.torn = accepted, [], False

    def _decide_anew(self, group: Accepted, accepted: list[Accepted]) -> None:
        """Accept a command once more, whole, or not at all."""
        if group.error is not None:  # it was withdrawn
            group.settled = True
            return
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
            accepted.append(group)
        else:
            group.settled = True

    def _left(self) -> EventlogError:
        return RefusedError("the lease was over before this was written", expected="the lease", session=self.session)

    def _fail(self, group: Accepted, error: EventlogError) -> None:
        """The command did not come to be, and will not: whoever waits for it is told, or the next caller."""
        group.error = error
        group.settled = True
        if not group.owned:
            self._failure = self._failure or error

    def _count(self, error: Exception) -> None:
        self._metrics.failures += 1
        logger().warning("session %s: an append failed: %s", self.session, type(error).__name__)


def _concerns(flight: Flight, mine: Sequence[Accepted] | None) -> bool:
    """Whether a failed append is one that this caller waits for, and nobody else is told of."""
    if mine is None:
        return bool(flight.accepted)
    return any(group in mine for group in flight.accepted)


def _pause(attempt: int) -> float:
    """Seconds to leave to the others before the next try."""
    return 0.0 if attempt < 4 else 0.001 * attempt
