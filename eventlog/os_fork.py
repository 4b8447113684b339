"""Objects to reset in a child after `os.fork()`.

A lock that another thread of the parent held is never released in the child, which does not have
that thread. The log's own files are not among them: no child may touch those
(`log/embedded/engine.py`).
"""

from __future__ import annotations

import os
from threading import Lock
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """Something that may be in use while another thread forks."""

    def fork_off(self) -> None:
        """Replace the locks, in the child."""
        ...


_registering = Lock()
_REGISTERED: WeakSet[Forkable] = WeakSet()


def register(one: Forkable) -> None:
    """Call `fork_off` in every child from now on, for as long as the object lives."""
    with _registering:
        _REGISTERED.add(one)


def _forked() -> None:
    _registering.release()
    for one in list(_REGISTERED):
        one.fork_off()


# A child must not inherit the lock from a thread that it does not have.
os.register_at_fork(before=_registering.acquire, after_in_parent=_registering.release, after_in_child=_forked)
