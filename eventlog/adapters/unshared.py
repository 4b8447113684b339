"""Erasing a session whose appends forks share: what they do not have is forgotten first."""

from __future__ import annotations

from eventlog.history.streams import ancestry
from eventlog.records.feed import Feed

__all__ = ["forget_unshared"]


def forget_unshared(feed: Feed) -> None:
    """Forget the records that no fork has, which may share an append with one that a fork has."""
    store, own = feed.session.store, feed.session.id
    forks = [info.id for info in store.sessions() if info.fork_of is not None and info.id != own]
    shared = max((one.last for fork in forks for one in ancestry(store.log, fork) if one.session == own), default=0)
    if shared:
        feed.forget([number for number in feed.path(hidden=True) if number > shared])
