"""Compactions of the OpenAI Agents SDK: the newest items, whose end is replaced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

from eventlog.adapters.framework_feed import FrameworkFeed
from eventlog.adapters.settled import patience, patient
from eventlog.errors import ConflictError, NotFoundError

__all__ = ["Prune", "Snapshot", "snapshot_of"]

Prune = Callable[[Any], bool]
"""Whether the SDK keeps an item no longer."""


class Snapshot(NamedTuple):
    """The newest items, and what replaces an end of them: as the SDK compacts."""

    items: list[Any]
    complete: bool
    replace_suffix: Callable[[int, list[Any]], Awaitable[bool]]


def snapshot_of(feed: FrameworkFeed, limit: int, prune: Prune | None, wait: float) -> Snapshot:
    """Return the newest items of a feed; replacing an end is one append, unless they changed."""
    path = feed.path(newest=limit + 1)
    before = path.pop(0) if len(path) > limit else 0
    found = feed.shown(path)

    def replace(start: int, output: list[Any]) -> bool:
        first = path.index(found[start][0])
        try:
            feed.add(output, after=path[first - 1] if first else before, expected=path[-1], wait=patience(wait))
        except (ConflictError, NotFoundError):  # other items, or none, by now
            return False
        if prune is not None:
            _forget_oldest(feed, prune, path[first])
        return True

    async def replace_suffix(start: int, output: list[Any]) -> bool:
        return start < len(found) and await patient(feed.session.store, partial(replace, start, output), wait)

    return Snapshot([item for _, item in found], before == 0, replace_suffix)


def _forget_oldest(feed: FrameworkFeed, prune: Prune, until: int) -> None:
    """Forget the oldest items that the SDK wants kept no longer, of those before a record."""
    older = [number for number in feed.path() if number < until]
    expired = takewhile(lambda one: prune(one[1]), feed.shown(older))
    feed.forget([number for number, _ in expired])
