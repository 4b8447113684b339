"""What is told that it finds itself in a child process: whoever has locks that threads of the parent may have held.

A child has none of those threads, so it would wait for ever.  Not the log's own files, which no child may touch (`log/embedded/engine.py`).
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
        """Begin anew in the child, with locks that nobody holds."""
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


# A child must not find it held by a thread that it has not.
os.register_at_fork(before=_following.acquire, after_in_parent=_following.release, after_in_child=_forked)
