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

__all__ = ["Forkable", "follow"]


class Forkable(Protocol):
    """Something that may be in use while another thread forks."""

    def fork_off(self) -> None:
        """Replace the locks, in the child."""
        ...


_following = Lock()
_FOLLOWED: WeakSet[Forkable] = WeakSet()


def follow(one: Forkable) -> None:
    """Call `fork_off` in every child from now on, for as long as the object lives."""
    with _following:
        _FOLLOWED.add(one)


def _forked() -> None:
    _following.release()
    for one in list(_FOLLOWED):
        one.fork_off()


# A child must not inherit the lock from a thread that it does not have.
os.register_at_fork(before=_following.acquire, after_in_parent=_following.release, after_in_child=_forked)
