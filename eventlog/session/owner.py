"""The lease record of a session in the log: whose it is, taken, renewed and released.

Its owner is a store of a process, named so that others see when it is dead. An append with the
epoch of a lease that is over is refused inside the commit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from weakref import WeakValueDictionary

import msgspec

from eventlog.errors import LeaseHeldError, NotFoundError, RetryError
from eventlog.log.commit import LeaseState
from eventlog.log.contract import Log
from eventlog.logger import kind_of, logger

LIVE: WeakValueDictionary[str, object] = WeakValueDictionary()
"""The hosts of the open stores of this process, which may hold leases, by the store's id."""
RESTING: set[tuple[str, bytes, int]] = set()
"""Session, owner and epoch of unused leases that this process is to give back."""
os.register_at_fork(after_in_child=RESTING.clear)  # the parent goes on with them


class Owner(msgspec.Struct, frozen=True):
    """The holder of a lease, named precisely enough to see that it is dead."""

    host: str
    boot: str
    namespace: str
    process: int
    started: str
    store: str

    @classmethod
    def here(cls, store: str) -> Owner:
        """Return this process as an owner; `store` names the handle within it."""
        process = os.getpid()
        host, boot, namespace = _machine()
        return cls(host, boot, namespace, process, _started(process), store)

    def encode(self) -> bytes:
        """Return the bytes that the log stores."""
        return msgspec.msgpack.encode(self)

    def describe(self) -> str:
        """Return a description for a person."""
        return f"process {self.process} on {self.host}"

    def is_dead(self) -> bool:
        """Return whether this owner certainly runs no more; a process elsewhere never does so."""
        if (self.host, self.boot, self.namespace) != _machine():
            return False
        if self.process == os.getpid() and self.started == _started(self.process):
            return self.store not in LIVE
        return bool(self.boot) and _started(self.process) != self.started


_DECODER = msgspec.msgpack.Decoder(Owner)


@cache
def _machine() -> tuple[str, str, str]:
    from pathlib import Path  # slow to import, and not needed by those who never open a store

    boot, namespace = "", ""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:  # not Linux: owners are then only told apart by expiry
        pass
    return os.uname().nodename, boot, namespace


def _started(process: int) -> str:
    """Return a process's start time in clock ticks since boot, "" if there is no such process."""
    from pathlib import Path

    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in {"Z", "X"} else fields[19]


def owner_of(state: LeaseState) -> Owner | None:
    """Return the owner that a lease record names, if it can be read."""
    try:
        return _DECODER.decode(state.owner)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def is_live(session: str, state: LeaseState, now: int) -> bool:
    """Return whether an owner runs the session at `now` (UTC milliseconds)."""
    if state.until <= now or (RESTING and (session, state.owner, state.epoch) in RESTING):
        return False
    owner = owner_of(state)
    return owner is None or not owner.is_dead()


def may_be_replaced(session: str, state: LeaseState, now: int) -> bool:
    """Return whether another owner may take a lease; one that rests goes to one caller alone."""
    try:
        RESTING.remove((session, state.owner, state.epoch))
    except KeyError:
        return not is_live(session, state, now)
    return True


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
        logger().warning("a lease was not given back: %s", kind_of(error))
