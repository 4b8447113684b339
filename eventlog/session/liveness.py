"""Open stores of the process: closed at interpreter exit; a stopped log ends their leases."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable
from functools import partial

from eventlog.session.host import Host
from eventlog.session.owner import LIVE


def begin(host: Host, close: Callable[[], None]) -> Callable[[], None]:
    """Register an open store, to be closed at interpreter exit; the result unregisters it.

    `close` is the method that closes the store.
    """
    at_exit = partial(_close_at_exit, weakref.WeakMethod(close))
    atexit.register(at_exit)
    LIVE[host.owner.store] = host

    def end() -> None:
        LIVE.pop(host.owner.store, None)
        atexit.unregister(at_exit)

    return end


def expire_stopped() -> None:
    """End the leases of stores whose log has stopped: nothing is written under them."""
    for reference in LIVE.valuerefs():
        host = reference()
        if isinstance(host, Host) and host.log.stopped:
            LIVE.pop(host.owner.store, None)


def _close_at_exit(close: weakref.WeakMethod[Callable[[], None]]) -> None:
    method = close()
    if method is not None:
        method()
