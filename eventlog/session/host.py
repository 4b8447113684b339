"""The store as a session sees it: a small protocol, so that sessions know no store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from eventlog.append.flusher import Leased
from eventlog.append.metrics import Metrics
from eventlog.history.catalog import SessionInfo
from eventlog.log.contract import Log
from eventlog.session.owner import Owner
from eventlog.values import Content

__all__ = ["Host"]


class Host(Protocol):
    """Services of a store for its sessions."""

    log: Log
    clock: Callable[[], int]
    """UTC milliseconds."""
    nanoseconds: Callable[[], int]
    """The same clock for deltas."""
    new_id: Callable[[str], str]
    """A new id for a prefix."""
    lease_ttl: int
    """Milliseconds a lease lasts without renewal."""
    owner: Owner
    writable: bool
    """Whether `usable(writing=True)` lets a command pass."""
    counted: Metrics

    def usable(self, *, writing: bool = False) -> None:
        """Raise the error that says why the store cannot be used."""
        ...

    def keep(self, session: Leased, *, soon: bool = False) -> None:
        """Renew this session's lease from now on; see `Flusher.keep`."""
        ...

    def forget(self, session: Leased) -> None:
        """Renew this session's lease no more."""
        ...

    def info(self, session: str) -> SessionInfo:
        """The catalog entry of a session."""
        ...

    def text(self, content: Content, session: str | None = None) -> str:
        """The text of a content, found among the bodies of `session`."""
        ...
