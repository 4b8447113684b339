"""Registry of open stores: closed at interpreter exit; a stopped log ends their leases."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable
from functools import partial
from threading import Lock

from eventlog.session.host import Host
from eventlog.session.owner import LIVE

__all__ = ["begin", "expire_stopped"]


_registering = Lock()
_HOSTS: weakref.WeakSet[Host] = weakref.WeakSet()


def begin(host: Host, close: Callable[[], None]) -> Callable[[], None]:
    """Register an open store, to be closed at interpreter exit; the result unregisters it.

    `close` is the method that closes the store.
    """
    expired = weakref.finalize(host, LIVE.discard, host.owner.store)
    at_exit = partial(_close_at_exit, weakref.WeakMethod(close))
    atexit.register(at_exit)
    with _registering:
        _HOSTS.add(host)

    def end() -> None:
        expired()
        atexit.unregister(at_exit)

    LIVE.add(host.owner.store)
    return end


def expire_stopped() -> None:
    """End the leases of stores whose log has stopped: nothing is written under them."""
    with _registering:
        hosts = list(_HOSTS)
    for host in hosts:
        if host.log.stopped:
            LIVE.discard(host.owner.store)


# A child process must not inherit the lock from a thread that it does not have.
os.register_at_fork(
    before=_registering.acquire, after_in_parent=_registering.release, after_in_child=_registering.release
)


def _close_at_exit(close: weakref.WeakMethod[Callable[[], None]]) -> None:
    method = close()
    if method is not None:
        method()
