"""Our log as a persistence module of the `eventsourcing` library (9.5.6 up to, not including, 9.6).

    PERSISTENCE_MODULE=eventlog.recorder  EVENTLOG_PATH=chats

Any application, process application or projection of that library then keeps its events, snapshots and tracking in
our log; `eventlog.recorder.conversations` is the other way round, our conversations as one of its applications to follow.

`eventsourcing` is an optional dependency (`everdelta[eventsourcing]`).  Its words are used in this package only: recorder,
originator, notification, tracking.

    batch.py          the bytes of one insert
    stream.py         one application's events as one session of the log
    index.py          where the events of an originator are, kept in pieces (`pieces.py`)
    recorders.py      the recorders;  subscription.py follows one
    factory.py        makes them from environment variables
    faults.py         our errors as theirs
    conversations.py  our conversations as notifications, read only
"""

from __future__ import annotations

from eventlog.recorder.factory import LogFactory
from eventlog.recorder.recorders import (
    LogAggregateRecorder,
    LogApplicationRecorder,
    LogProcessRecorder,
    LogTrackingRecorder,
)
from eventlog.recorder.stream import RecorderStream
from eventlog.recorder.subscription import LogSubscription

__all__ = [
    "LogAggregateRecorder",
    "LogApplicationRecorder",
    "LogFactory",
    "LogProcessRecorder",
    "LogSubscription",
    "LogTrackingRecorder",
    "RecorderStream",
]
