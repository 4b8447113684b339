"""Who holds a lease: a store of a process, named so that others see when it is dead."""

from __future__ import annotations

import os
from functools import cache

import msgspec

from eventlog.log.contract import LeaseState

__all__ = ["LIVE", "Owner", "is_live", "owner_of"]

LIVE: set[str] = set()
"""The stores of this process that may hold leases: added when they are opened, taken away when they
are closed or gone.
"""


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


_DECODER = msgspec.msgpack.Decoder(Owner)


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


def owner_of(state: LeaseState) -> Owner | None:
    """The owner that a lease record names, if it can be read."""
    try:
        return _DECODER.decode(state.owner)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def is_live(state: LeaseState, now: int) -> bool:
    """Whether an owner runs the session at `now` (UTC milliseconds)."""
    if state.until <= now:
        return False
    owner = owner_of(state)
    return owner is None or not owner.is_dead()
