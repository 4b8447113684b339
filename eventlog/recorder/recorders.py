"""The recorders of `eventsourcing` on a stream of our log (`stream.py`).

A process recorder's events and its tracking position are one append, so each upstream event is processed exactly once.  A view of a
projection keeps its state the same way: a tracking recorder that inserts what changed as stored events together with
the position (see `LogProcessRecorder`).  Every method may be called from any thread, and sees what was committed before it
was called, by anyone.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from time import monotonic
from typing import Any
from uuid import UUID

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    Notification,
    ProcessRecorder,
    StoredEvent,
    Subscription,
    Tracking,
    TrackingRecorder,
    WaitInterruptedError,
)

from eventlog.recorder.faults import FAULTS
from eventlog.recorder.stream import RecorderStream
from eventlog.recorder.subscription import LogSubscription, select

__all__ = ["LogAggregateRecorder", "LogApplicationRecorder", "LogProcessRecorder", "LogTrackingRecorder"]

_PATIENCE = 0.05
"""Seconds after which a wait looks whether it was interrupted."""


class _LogRecorder:
    """What the recorders have in common."""

    def __init__(self, stream: RecorderStream) -> None:
        self.stream = stream

    def _insert(self, stored_events: Sequence[StoredEvent], tracking: Tracking | None) -> Sequence[int]:
        with FAULTS:
            return self.stream.insert(stored_events, tracking)


class LogAggregateRecorder(_LogRecorder, AggregateRecorder):
    """Events by originator; also snapshots."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Record events, all or none; `IntegrityError` if one of the originator versions is recorded already."""
        self._insert(stored_events, kwargs.get("tracking"))
        return None

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """The events of an originator by version."""
        with FAULTS:
            return self.stream.select(originator_id, gt=gt, lte=lte, desc=desc, limit=limit)


class LogApplicationRecorder(LogAggregateRecorder, ApplicationRecorder):
    """Events by originator and in the order of the application."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """The same, returning the notification ids: contiguous, and in the order of commits across processes."""
        return self._insert(stored_events, kwargs.get("tracking"))

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Notifications from `start` (or behind it) to `stop`, at most `limit`."""
        with FAULTS:
            return select(self.stream, start, limit, stop, topics, inclusive=inclusive_of_start)

    def max_notification_id(self) -> int | None:
        """The greatest notification id, None if there is none."""
        with FAULTS:
            return self.stream.newest()

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """Notifications with ids greater than `gt`, then new ones as they are committed, by any process."""
        return LogSubscription(self, self.stream, gt, topics)


class LogTrackingRecorder(_LogRecorder, TrackingRecorder):
    """How far other applications have been followed."""

    def insert_tracking(self, tracking: Tracking) -> None:
        """Record a position; `IntegrityError` if it is not greater than the recorded one."""
        self._insert((), tracking)

    def max_tracking_id(self, application_name: str) -> int | None:
        """The recorded position, None if there is none."""
        with FAULTS:
            return self.stream.tracked(application_name)

    def wait(
        self,
        application_name: str,
        notification_id: int | None,
        timeout: float = 1.0,
        interrupt: Event | None = None,
    ) -> None:
        """Block until a position is recorded, by any process: woken by the log, not polling as the base class does.

        `TimeoutError` after `timeout` seconds, `WaitInterruptedError` soon after `interrupt` is set.
        """
        deadline = monotonic() + timeout
        while True:
            with FAULTS:
                position = self.stream.log.last_position()
            if self.has_tracking_id(application_name, notification_id):
                return
            if interrupt is not None and interrupt.is_set():
                raise WaitInterruptedError
            left = deadline - monotonic()
            if left <= 0:
                raise TimeoutError(f"{application_name}: {notification_id} was not processed within {timeout:g} s")
            with FAULTS:
                self.stream.log.wait_after(position, left if interrupt is None else min(left, _PATIENCE))


class LogProcessRecorder(LogTrackingRecorder, LogApplicationRecorder, ProcessRecorder):
    """Events and tracking in one: `insert_events(events, tracking=...)` records both or neither."""
