"""The keeper of a handle's lease: takes, renews and returns it, settles behind the dead."""

from __future__ import annotations

import time
from threading import RLock
from typing import TYPE_CHECKING

from eventlog import events as ev
from eventlog.append.lease_claim import LeaseClaim, LeaseStatus
from eventlog.append.transaction import transact
from eventlog.errors import LeaseHeldError
from eventlog.log.commit import LeaseState
from eventlog.logger import logger
from eventlog.session.held_lease import HELD, POLL, TAKEN_OVER, Block, Lease
from eventlog.session.owner import (
    LIVE,
    RESTING,
    is_live,
    may_be_replaced,
    owner_of,
    release_lease,
    renew_lease,
    take_lease,
)
from eventlog.state.settling import closing
from eventlog.validation import require, require_wait

if TYPE_CHECKING:
    from eventlog.append.writer import SessionWriter
    from eventlog.session.host import Host


class LeaseKeeper:
    """A handle's lease: acquired, nested, renewed, released.  Safe across threads."""

    def __init__(self, host: Host, session: str, writer: SessionWriter) -> None:
        self.id = session
        self.lock: RLock = RLock()
        self.current: Lease | None = None
        self._ended: LeaseClaim | None = None
        """The lease before, which an append may still have to give back."""
        self._resting: LeaseClaim | None = None
        """The lease of a turn that ended, until it is given back or taken up again."""
        self._rests_since = 0.0
        self._host = host
        self._writer = writer

    @property
    def running(self) -> Lease | None:
        """The lease, unless it is over; one that an interrupt left behind is given back."""
        lease = self.current
        if lease is None or lease.is_returned:
            return None
        if lease.is_abandoned:
            with self.lock:
                if self.current is lease:
                    self._close(lease)
            return None
        return lease

    @property
    def held(self) -> Lease | None:
        """The lease, if the running task or thread may use it."""
        lease = self.running
        return lease if lease is not None and lease in HELD.get() else None

    @property
    def outlived(self) -> Lease | None:
        """A lease of this handle that the running task or thread inherited, and that is over."""
        owner = self._host.owner.encode()
        for lease in HELD.get():
            own = lease.session == self.id and lease.claim.state.owner == owner
            if own and not lease.live and not lease.is_abandoned:
                return lease
        return None

    def acquire(
        self,
        wait: float = 0.0,
        *,
        lazily: bool = False,
        settles: bool = True,
        block: Block | None = None,
        take_over: bool = False,
    ) -> Lease:
        """Take the lease, or nest into it.

        Where another owner or task holds it after `wait` seconds: `LeaseHeldError`, or with
        `take_over` it is taken from that one. Settles what a dead or former owner left open, unless
        the caller does. A lease taken for a block ends with the block.
        """
        require_wait(wait)
        require(bool, take_over, "take_over is True or False")
        if not take_over and (former := self.outlived) is not None and former.is_taken_over:
            former.require_live()
        deadline = time.monotonic() + wait
        while True:
            now_or_never = time.monotonic() >= deadline
            with self.lock:
                lease = self.running
                if lease is None:
                    if self.current is not None:
                        self._end(self.current)
                    try:
                        lease = self._take(
                            block,
                            lazily=lazily and not wait,
                            settles=settles,
                            take_over=take_over and now_or_never,
                        )
                    except LeaseHeldError:
                        if now_or_never:
                            raise
                        held = None
                    else:
                        lease.share()
                        self.current = lease  # last: an interrupt before it leaves the lease to be taken anew
                        return lease
                elif lease.live and lease in HELD.get():
                    lease.depth += 1
                    lease.share()
                    return lease
                else:
                    held = lease
            if held is not None and now_or_never:
                if take_over:
                    self._oust(held)
                    continue
                raise LeaseHeldError(self.id, "another task of this process", held.claim.state.until)
            time.sleep(POLL)  # without the lock: others take what they can have at once, or hear that they cannot

    def claim(self, block: Block) -> Lease | None:
        """Take the lease with the next append; the caller has to `share` it.

        None where it is held, or where what a former owner left open is to be settled first.
        """
        with self.lock:
            former = self.outlived
            if self.running is not None or (former is not None and former.is_taken_over):
                return None
            if self.current is not None:
                self._end(self.current)
            self._writer.catch_up()
            committed = self._writer.committed
            if is_live(self.id, committed.lease, self._host.clock()) or closing(committed.state, ""):
                return None
            try:
                self.current = self._take(block, lazily=True, settles=True, reads=False)
            except LeaseHeldError:
                return None
            return self.current

    def release(self, lease: Lease, *, rests: bool = False) -> None:
        """Undo one `acquire`; the lease itself ends with the last.

        What was accepted under it is durable then. A lease that `rests` is given back soon.
        """
        lease.unshare()
        with self.lock:
            if lease.depth > 1:
                lease.depth -= 1
                return
            if self.current is not lease:
                return
        try:  # without the lock: another task that asks for the lease waits no longer than it wants to
            lease.live = False
            if not lease.claim.is_returning:
                self._flush(lease.claim)
            self._writer.checkpoint()
        finally:
            with self.lock:
                if self.current is lease:
                    self._close(lease, rests=rests)
                lease.block = None  # it was not abandoned

    def _flush(self, claim: LeaseClaim) -> None:
        """Commit what was accepted; the lease goes back with it."""
        if not self._writer.is_ahead:
            return
        claim.is_returning = True
        try:
            self._writer.flush()
        finally:
            claim.is_returning = claim.status is LeaseStatus.RETURNED

    def _oust(self, lease: Lease) -> None:
        """End the lease of another task, which hears of it with its next call.

        What it has accepted is written first, or counted as lost.
        """
        lease.successor = lease.epoch + 1
        lease.live = False
        for stream in list(lease.streams):
            stream.close()
        self._writer.give_up(lease.claim)
        with self.lock:
            if self.current is lease:
                self._end(lease)
                lease.block = None

    def begin_turn(self, lease: Lease, message: str) -> bool:
        """Let one of the tasks that share a lease answer a user message; False for the others."""
        with self.lock:
            if message in lease.turns:
                return False
            with self._writer.lock:
                lease.turns[message] = self._writer.known_state().version
            return True

    def is_elsewhere(self) -> bool:
        """Whether a live owner in another process has the lease."""
        lease = self._writer.committed.lease
        owner = owner_of(lease)
        return owner is not None and owner.store not in LIVE and is_live(self.id, lease, self._host.clock())

    def ends_with(self, lease: Lease) -> bool:
        """Return whether the lease goes back with its last command: not while it is nested."""
        return lease.depth == 1 and self.current is lease

    def renew_if_due(self, now: int, ttl: int) -> bool:
        """Keep the lease for `ttl` milliseconds from `now` once a third of it is gone.

        One that has rested for a while is given back; True if it is to be looked at again soon.
        Called in the background. A handle that is just taking or giving back a lease is left for
        the next time: the caller must not wait for it.
        """
        if not self.lock.acquire(blocking=False):
            return self._resting is not None
        try:
            lease = self.running
            if self._resting is not None:
                if time.monotonic() - self._rests_since < self._host.flusher.interval / 4:
                    return True
                self._give_back()
            if lease is None or lease.claim.is_returning or lease.claim.status is not LeaseStatus.HELD:
                return False
            if lease.claim.state.until - now > ttl * 2 // 3:
                return False
            renewed = renew_lease(self._host.log, self.id, lease.claim.state, now + ttl)
            if renewed is None:
                self._host.flusher.forget(self.id)
            else:
                lease.claim.state = renewed
            return False
        finally:
            self.lock.release()

    def abandon(self) -> None:
        """Give the lease back, however often it was acquired: the store is closing."""
        with self.lock:
            if self.current is not None:
                self._close(self.current)
            if self._resting is not None:
                self._give_back()

    def fork_off(self) -> None:
        """Replace the lock in a child process: another thread of the parent may have held it."""
        self.lock = RLock()

    def _take(
        self, block: Block | None, *, lazily: bool, settles: bool, take_over: bool = False, reads: bool = True
    ) -> Lease:
        """Take the lease from the log, or lazily: its record goes in with the first append.

        Without `reads` the caller has caught up.
        """
        host, writer, ended = self._host, self._writer, self._ended
        if (
            ended is not None
            and not take_over
            and ended.is_returning
            and ended.status is not LeaseStatus.RETURNED
            and writer.retain(ended)
        ):  # two replies in one pipeline
            self._keep()
            return Lease(self.id, ended, block)
        if reads:
            writer.catch_up()
        if self._resting is not None and (claim := self._taken_up(settles=settles)) is not None:
            return self._held(Lease(self.id, claim, block))
        held, now = writer.committed.lease, host.clock()
        was_live = is_live(self.id, held, now)
        lazily = lazily and not (settles and closing(writer.committed.state, ""))
        rests = (self.id, held.owner, held.epoch) in RESTING  # a claim that is never written would leave it to no owner
        lazily = lazily and not rests and may_be_replaced(self.id, held, now)
        if lazily:
            state = LeaseState(held.epoch + 1, host.owner.encode(), now + host.lease_ttl)
            claim = LeaseClaim(state, held, LeaseStatus.CLAIMED)
        else:
            taken = take_lease(host.log, self.id, host.owner, ttl=host.lease_ttl, clock=host.clock, take_over=take_over)
            claim = LeaseClaim(taken)
        lease = self._held(Lease(self.id, claim, block))
        try:
            if settles and not lazily:
                self._settle(lease.epoch, TAKEN_OVER if take_over and was_live else "interrupted")
        except BaseException:
            self._close(lease)
            raise
        return lease

    def _held(self, lease: Lease) -> Lease:
        """Accept deltas under a lease, and renew it from now on."""
        try:
            self._writer.hold(lease.claim)
            self._keep(soon=lease.is_claimed)
        except BaseException:
            self._close(lease)
            raise
        self._host.counted.leases_taken += 1
        return lease

    def _keep(self, *, soon: bool = False) -> None:
        self._host.flusher.keep(self.id, self.renew_if_due, self.abandon, soon=soon)

    def _taken_up(self, *, settles: bool) -> LeaseClaim | None:
        """Return the lease that rests if it is still this handle's, and nothing is to be settled.

        Else it rests no more, and a new one is taken.
        """
        claim, committed = self._resting, self._writer.committed
        if (
            not self._wake()
            or claim is None
            or committed.lease != claim.state
            or claim.state.until <= self._host.clock()
        ):
            return None
        return None if settles and closing(committed.state, "") else claim

    def _give_back(self) -> None:
        """Give back the lease that rests; harmless if another owner has it by now."""
        claim = self._resting
        if claim is not None:
            try:
                release_lease(self._host.log, self.id, claim.state)
            finally:
                self._wake()
                if self.current is None:
                    self._host.flusher.forget(self.id)

    def _wake(self) -> bool:
        """End the rest of a lease; return whether no other store has taken it."""
        claim, self._resting = self._resting, None
        try:
            RESTING.remove(("", b"", 0) if claim is None else (self.id, claim.state.owner, claim.state.epoch))
        except KeyError:
            return False
        return True

    def _settle(self, epoch: int, reason: str) -> None:
        """Close what a dead or former owner left open, as the new owner's first append."""
        writer, host = self._writer, self._host
        writer.catch_up()
        events = closing(writer.committed.state, reason)
        if events:
            logger().info("settling what the former owner of a session left open: %d events, %s", len(events), reason)
            host.counted.settled += 1
            now = host.clock()
            transact(writer, [(now, event) for event in (*events, ev.Settled(epoch, reason))], epoch=epoch)

    def _close(self, lease: Lease, *, rests: bool = False) -> None:
        """End the lease, and give it back unless an append does, or the log never knew of it.

        One that rests is given back in the background.
        """
        self._end(lease)
        if lease.claim.is_returning:
            lease.claim.is_over = True
            return
        self._writer.leave()
        if lease.claim.status is not LeaseStatus.HELD:
            return
        if rests:
            self._resting, self._rests_since = lease.claim, time.monotonic()
            RESTING.add((self.id, lease.claim.state.owner, lease.epoch))
            self._keep(soon=True)
        else:
            release_lease(self._host.log, self.id, lease.claim.state)

    def _end(self, lease: Lease) -> None:
        lease.live = False
        self.current, self._ended = None, lease.claim
        self._host.flusher.forget(self.id)
