"""The lease record of a session in the log: acquired, renewed and released.

An append with the epoch of a lease that is over is refused inside the commit.
"""

from __future__ import annotations

from collections.abc import Callable

from eventlog.errors import LeaseHeldError, NotFoundError, RetryError
from eventlog.log.commit import LeaseState
from eventlog.log.contract import Log
from eventlog.logger import logger
from eventlog.session.owner import Owner, may_be_replaced, owner_of

__all__ = ["release_lease", "renew_lease", "take_lease"]


def take_lease(
    log: Log, session: str, owner: Owner, *, ttl: int, clock: Callable[[], int], take_over: bool = False
) -> LeaseState:
    """Take the session's lease for `ttl` milliseconds, with a new epoch.

    `LeaseHeldError` if another owner holds it, unless it is taken over.
    """
    while True:
        head = log.head(session)
        if head is None:
            raise NotFoundError("session", session)
        held = head.lease
        now = clock()
        if not take_over and held.owner != owner.encode() and not may_be_replaced(session, held, now):
            other = owner_of(held)
            raise LeaseHeldError(session, other.describe() if other else "another owner", held.until)
        taken = LeaseState(held.epoch + 1, owner.encode(), now + ttl)
        if log.set_lease(session, taken, replaces=held):
            return taken


def renew_lease(log: Log, session: str, state: LeaseState, until: int) -> LeaseState | None:
    """Return the same lease until `until`, or None if it is another owner's by now."""
    renewed = LeaseState(state.epoch, state.owner, until)
    return renewed if log.set_lease(session, renewed, replaces=state) else None


def release_lease(log: Log, session: str, state: LeaseState) -> None:
    """Give the lease back; harmless if it is another owner's by now.

    If the log has no room for that, it runs out by itself.
    """
    try:
        log.set_lease(session, LeaseState(state.epoch, b"", 0), replaces=state)
    except RetryError as error:
        logger().warning("session %s: the lease was not given back: %s", session, type(error).__name__)
