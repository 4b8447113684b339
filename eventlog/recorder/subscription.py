"""Subscriptions: stored notifications first, then new ones, in order and without a gap.

A subscription has no thread and no queue: its iterator reads the next page, and waits in the log
when there is none.  So a slow reader slows down no writer, and memory is bounded by a page.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar

from eventsourcing.persistence import ApplicationRecorder, Notification, Subscription

from eventlog.log.contract import Log
from eventlog.recorder.faults import FAULTS

_PAGE = 500
_PATIENCE = 0.1
"""Seconds after which a waiting subscription checks whether it was stopped."""

R_co = TypeVar("R_co", bound=ApplicationRecorder, covariant=True)


class NotificationSource(Protocol):
    """Notifications in order of their ids."""

    @property
    def log(self) -> Log:
        """Log that they come from."""
        ...

    def page(
        self, after: int, limit: int, upto: int | None = None, topics: Collection[str] = ()
    ) -> tuple[list[Notification], int]:
        """Return at most `limit` notifications after an id, and the last id that was examined.

        Equal to `after` only if there is nothing behind it (up to `upto`).
        """
        ...

    def newest(self) -> int | None:
        """Return the id of the newest notification, None if there is none."""
        ...


class NotifyingRecorder(ApplicationRecorder):
    """Base of the recorders whose notifications come from a source."""

    @property
    @abstractmethod
    def source(self) -> NotificationSource:
        """Their source."""

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Return the notifications from `start` (or after it) to `stop`, at most `limit`."""
        after = 0 if start is None else max(start - 1 if inclusive_of_start else start, 0)
        wanted = frozenset(topics)
        found: list[Notification] = []
        with FAULTS:
            while len(found) < limit:
                page, scanned = self.source.page(after, limit - len(found), stop, wanted)
                if scanned == after:
                    break
                found += page
                after = scanned
        return found

    def max_notification_id(self) -> int | None:
        """Return the greatest notification id, None if there is none."""
        with FAULTS:
            return self.source.newest()

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """Return the notifications after `gt`, and new ones as they are committed."""
        return LogSubscription(self, self.source, gt, topics)


class LogSubscription(Subscription[R_co]):
    """Iterator over the notifications of a source that ends only when it is stopped."""

    def __init__(
        self, recorder: R_co, source: NotificationSource, gt: int | None = None, topics: Sequence[str] = ()
    ) -> None:
        super().__init__(recorder, gt, topics)
        self._source = source
        self._after = max(gt or 0, 0)
        self._wanted = frozenset(topics)
        self._page: list[Notification] = []
        self._next = 0

    def __next__(self) -> Notification:
        """Return the next notification; blocks until there is one."""
        while not self._has_been_stopped:
            if self._next < len(self._page):
                self._next += 1
                return self._page[self._next - 1]
            with FAULTS:
                self._next_page()
        raise StopIteration

    def _next_page(self) -> None:
        log = self._source.log
        positions = log.last_positions()
        self._page, scanned = self._source.page(self._after, _PAGE, None, self._wanted)
        self._next = 0
        if scanned == self._after:
            log.wait_after(positions, _PATIENCE)
        self._after = scanned
