"""Following an application: what is there, then what is committed, in order and without a gap.

A subscription has no thread and no queue: whoever iterates reads the next page, and waits in the log when there is
none.  So a slow reader costs nobody anything, and memory is bounded by a page.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar

from eventsourcing.persistence import ApplicationRecorder, Notification, Subscription

from eventlog.log.contract import Log
from eventlog.recorder.faults import FAULTS

__all__ = ["Feed", "LogSubscription", "select"]

_PAGE = 500
_PATIENCE = 0.1
"""Seconds after which a waiting subscription looks whether it was stopped."""

R_co = TypeVar("R_co", bound=ApplicationRecorder, covariant=True)


class Feed(Protocol):
    """Notifications in order of their ids."""

    @property
    def log(self) -> Log:
        """The log they come from."""
        ...

    def page(
        self, after: int, limit: int, upto: int | None = None, topics: Collection[str] = ()
    ) -> tuple[list[Notification], int]:
        """Some with ids greater than `after`, at most `limit`, and the id up to which all were looked at.

        Equal to `after` only if there is nothing behind it (up to `upto`).
        """
        ...


def select(
    feed: Feed, start: int | None, limit: int, stop: int | None, topics: Sequence[str], *, inclusive: bool
) -> list[Notification]:
    """As many notifications of a feed as there are from `start` (or behind it) to `stop`, at most `limit`."""
    after = 0 if start is None else max(start - 1 if inclusive else start, 0)
    wanted = frozenset(topics)
    found: list[Notification] = []
    while len(found) < limit:
        page, scanned = feed.page(after, limit - len(found), stop, wanted)
        if scanned == after:
            break
        found += page
        after = scanned
    return found


class LogSubscription(Subscription[R_co]):
    """An iterator over the notifications of a feed that ends when it is stopped, and only then."""

    def __init__(self, recorder: R_co, feed: Feed, gt: int | None = None, topics: Sequence[str] = ()) -> None:
        super().__init__(recorder, gt, topics)
        self._feed = feed
        self._after = max(gt or 0, 0)
        self._wanted = frozenset(topics)
        self._page: list[Notification] = []
        self._next = 0

    def __next__(self) -> Notification:
        """The next notification; blocks until there is one."""
        while not self._has_been_stopped:
            if self._next < len(self._page):
                self._next += 1
                return self._page[self._next - 1]
            with FAULTS:
                self._turn()
        raise StopIteration

    def _turn(self) -> None:
        log = self._feed.log
        position = log.last_position()
        self._page, scanned = self._feed.page(self._after, _PAGE, None, self._wanted)
        self._next = 0
        if scanned == self._after:
            log.wait_after(position, _PATIENCE)
        self._after = scanned
