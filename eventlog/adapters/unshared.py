"""Sessions whose history forks share: forked and erased under one lease.

An erasure forgets what no fork has, because it may lie in one append with what a fork has. The
lease keeps a fork from beginning between the look for forks and that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from eventlog.errors import NotFoundError
from eventlog.history.ancestry import ancestry
from eventlog.history.relatives import heirs_of
from eventlog.maintenance.erase import erase
from eventlog.records.feed import Feed
from eventlog.session.session import Session

T = TypeVar("T")


def fork(session: Session, begin: Callable[[], T], *, wait: float) -> T:
    """Begin a fork of a session while no other task erases any of it."""
    return session.executor.writing(lambda _: begin(), lazily=False, wait=wait)


def alone(session: Session, work: Callable[[], None], *, wait: float) -> None:
    """Work while no other task writes to a session or forks it; not once it is erased."""
    with suppress(NotFoundError):
        session.executor.writing(lambda _: work(), lazily=False, wait=wait)


def erase_held(session: Session, *, wait: float) -> None:
    """Erase a session whose lease the caller has, with its sub-sessions; forks are kept."""
    erase(session.store, session.id, forks="keep", subsessions="cascade", wait=wait, held=session.id)


def erase_unshared(feed: Feed, *, wait: float) -> None:
    """Erase the session of a feed with its sub-sessions; forks keep what they have."""
    session, log = feed.session, feed.session.store.log

    def unshared() -> None:
        streams = (one for heir in heirs_of(log, session.id) for one in ancestry(log, heir))
        shared = max((one.last for one in streams if one.session == session.id), default=0)
        if shared:
            feed.forget([number for number in feed.path(hidden=True) if number > shared])
        erase_held(session, wait=wait)

    alone(session, unshared, wait=wait)
