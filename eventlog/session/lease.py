"""Who may run a session: one owner at a time, by a side record with an epoch, never by an event.

Taking a lease raises the epoch, which is written with every append of the owner; an append with an epoch that is over is
refused inside the commit.  A lease ends by release, by expiry, or when its owner is seen to be dead: a process of this
same machine, boot and process namespace that is gone.  The holder renews it in the background.

Settling what a dead owner left is the session's business.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache

import msgspec

from eventlog.errors import LeaseHeldError, NotFoundError, RetryError
from eventlog.log.contract import LeaseState, Log
from eventlog.logger import logger
from eventlog.validation import require_wait

__all__ = ["LIVE", "Owner", "is_live", "release_lease", "renew_lease", "take_lease"]

LIVE: set[str] = set()
"""The stores of this process that may hold leases: added when they are opened, taken away when they are closed or gone."""
POLL = 0.02
"""Seconds between two looks at a lease that somebody else holds."""


class Owner(msgspec.Struct, frozen=True):
    """Who holds a lease, precisely enough to see that it is dead."""

    host: str
    boot: str
    namespace: str
    process: int
    started: str
    store: str

    @classmethod
    def here(cls, store: str) -> Owner:
        """This process; `store` names the handle within it."""
        process = os.getpid()
        host, boot, namespace = _machine()
        return cls(host, boot, namespace, process, _started(process), store)

    def encode(self) -> bytes:
        """As the log keeps it."""
        return msgspec.msgpack.encode(self)

    def describe(self) -> str:
        """For a person."""
        return f"process {self.process} on {self.host}"

    def is_dead(self) -> bool:
        """True only if this owner certainly runs no more; a process elsewhere is never certain."""
        if (self.host, self.boot, self.namespace) != _machine():
            return False
        if self.process == os.getpid() and self.started == _started(self.process):
            return self.store not in LIVE
        return bool(self.boot) and _started(self.process) != self.started


@cache
def _machine() -> tuple[str, str, str]:
    from pathlib import Path  # with all that it imports, dear to those who never open a store

    boot, namespace = "", ""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:  # not Linux: owners are then only told apart by expiry
        pass
    return os.uname().nodename, boot, namespace


def _started(process: int) -> str:
    """Start time of a process in clock ticks since boot, "" if there is no such process."""
    from pathlib import Path

    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in {"Z", "X"} else fields[19]


def _owner(state: LeaseState) -> Owner | None:
    try:
        return msgspec.msgpack.decode(state.owner, type=Owner)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def is_live(state: LeaseState, now: int) -> bool:
    """Whether somebody runs the session at `now` (UTC milliseconds)."""
    if state.until <= now:
        return False
    owner = _owner(state)
    return owner is None or not owner.is_dead()


def take_lease(log: Log, session: str, owner: Owner, *, ttl: int, wait: float, clock: Callable[[], int]) -> LeaseState:
    """Take the session's lease for `ttl` milliseconds, with a new epoch.

    `LeaseHeldError` if somebody else still holds it after `wait` seconds.
    """
    require_wait(wait)
    deadline = time.monotonic() + wait
    while True:
        head = log.head(session)
        if head is None:
            raise NotFoundError("session", session)
        held = head.lease
        now = clock()
        if is_live(held, now) and held.owner != owner.encode():
            if time.monotonic() >= deadline:
                other = _owner(held)
                raise LeaseHeldError(session, other.describe() if other else "somebody", held.until)
            time.sleep(POLL)
            continue
        taken = LeaseState(held.epoch + 1, owner.encode(), now + ttl)
        if log.set_lease(session, taken, replaces=held):
            return taken


def renew_lease(log: Log, session: str, state: LeaseState, until: int) -> LeaseState | None:
    """Return the same lease until `until`, or None if it is somebody else's by now."""
    renewed = LeaseState(state.epoch, state.owner, until)
    return renewed if log.set_lease(session, renewed, replaces=state) else None


def release_lease(log: Log, session: str, state: LeaseState) -> None:
    """Give the lease back; harmless if it is somebody else's by now.  If the log has no room for that, it runs out by itself."""
    try:
        log.set_lease(session, LeaseState(state.epoch, b"", 0), replaces=state)
    except RetryError as error:
        logger().warning("session %s: the lease was not given back: %s", session, type(error).__name__)
