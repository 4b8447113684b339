"""The stores of this process: what becomes of them at the end of the interpreter, and when their log has failed."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Protocol

from eventlog import os_fork
from eventlog.log.contract import Log
from eventlog.session.owner import LIVE, Owner

__all__ = ["begin", "end", "let_go_of_stopped"]


class LiveStore(os_fork.Forkable, Protocol):
    """An open store: what its leases are held by."""

    log: Log
    owner: Owner

    def close(self) -> None:
        """Make everything durable, and close."""
        ...


_registering = Lock()
_STORES: weakref.WeakSet[LiveStore] = weakref.WeakSet()


def begin(store: LiveStore) -> Callable[[], None]:
    """A store is open, and may hold leases: it is closed when the interpreter exits.  Returns what `end` takes."""
    LIVE.add(store.owner.store)
    weakref.finalize(store, LIVE.discard, store.owner.store)
    at_exit = partial(_close_at_exit, weakref.WeakMethod(store.close))
    atexit.register(at_exit)
    with _registering:
        _STORES.add(store)
    os_fork.follow(store)
    return at_exit


def end(store: LiveStore, at_exit: Callable[[], None]) -> None:
    """It closes."""
    LIVE.discard(store.owner.store)
    atexit.unregister(at_exit)


def let_go_of_stopped() -> None:
    """Whatever leases are held by stores whose log has failed, nothing is written under them any more."""
    with _registering:
        stores = list(_STORES)
    for store in stores:
        if store.log.stopped:
            LIVE.discard(store.owner.store)


# A child must not find it held by a thread that it has not.
os.register_at_fork(
    before=_registering.acquire, after_in_parent=_registering.release, after_in_child=_registering.release
)


def _close_at_exit(close: weakref.WeakMethod[Callable[[], None]]) -> None:
    method = close()
    if method is not None:
        method()
