"""The recorders of `eventsourcing` on a stream of the log (`stream.py`).

A process recorder's events and its tracking position are one append, so each upstream event is
processed exactly once.  The view of a projection can keep its state in the same way: a tracking
recorder inserts the changes as stored events together with the position (`LogProcessRecorder`).
Every method may be called from any thread, and sees all that any process committed before the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from time import monotonic
from typing import Any
from uuid import UUID

from eventsourcing.persistence import (
    AggregateRecorder,
    ProcessRecorder,
    StoredEvent,
    Tracking,
    TrackingRecorder,
    WaitInterruptedError,
)

from eventlog.recorder.faults import FAULTS
from eventlog.recorder.stream import RecorderStream
from eventlog.recorder.subscription import NotifyingRecorder

_PATIENCE = 0.05
"""Seconds after which a wait checks whether it was interrupted."""


class _LogRecorder:
    """Base of the recorders."""

    def __init__(self, stream: RecorderStream) -> None:
        self.stream = stream

    def _insert(self, stored_events: Sequence[StoredEvent], tracking: Tracking | None) -> Sequence[int]:
        with FAULTS:
            return self.stream.insert(stored_events, tracking)


class LogAggregateRecorder(_LogRecorder, AggregateRecorder):
    """Recorder of events by originator, also of snapshots."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Record events, all or none; `IntegrityError` if an originator version is recorded."""
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
        """Return the events of an originator by version."""
        with FAULTS:
            return self.stream.select(originator_id, gt=gt, lte=lte, desc=desc, limit=limit)


class LogApplicationRecorder(LogAggregateRecorder, NotifyingRecorder):
    """Recorder of events by originator and in the order of the application."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Record events and return their notification ids: contiguous, in the order of commits."""
        return self._insert(stored_events, kwargs.get("tracking"))

    @property
    def source(self) -> RecorderStream:
        """The stream of the recorder."""
        return self.stream


class LogTrackingRecorder(_LogRecorder, TrackingRecorder):
    """Recorder of the positions reached in other applications."""

    def insert_tracking(self, tracking: Tracking) -> None:
        """Record a position; `IntegrityError` if it is not greater than the recorded one."""
        self._insert((), tracking)

    def max_tracking_id(self, application_name: str) -> int | None:
        """Return the recorded position, None if there is none."""
        with FAULTS:
            return self.stream.tracked(application_name)

    def wait(
        self,
        application_name: str,
        notification_id: int | None,
        timeout: float = 1.0,
        interrupt: Event | None = None,
    ) -> None:
        """Block until a position is recorded, by any process; the log wakes the caller.

        `TimeoutError` after `timeout` seconds, `WaitInterruptedError` soon after `interrupt` is
        set.
        """
        deadline = monotonic() + timeout
        while True:
            with FAULTS:
                positions = self.stream.log.last_positions()
            if self.has_tracking_id(application_name, notification_id):
                return
            if interrupt is not None and interrupt.is_set():
                raise WaitInterruptedError
            left = deadline - monotonic()
            if left <= 0:
                raise TimeoutError(f"{application_name}: {notification_id} was not processed within {timeout:g} s")
            with FAULTS:
                self.stream.log.wait_after(positions, left if interrupt is None else min(left, _PATIENCE))


class LogProcessRecorder(LogTrackingRecorder, LogApplicationRecorder, ProcessRecorder):
    """Events and tracking: `insert_events(events, tracking=...)` records both or neither."""
