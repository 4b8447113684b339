"""The log as a persistence module of the `eventsourcing` library (from 9.5.6, below 9.6).

`README.md` has a program.  `eventlog.recorder.conversations` goes the other way: the conversations
of a store as an application that projections follow.

`eventsourcing` is an optional dependency.  Its words are used in this package only: recorder,
originator, notification, tracking.

    batch.py          bytes of one insert
    stream.py         events of one application as one session of the log
    index.py          index from originators to their events, stored as tables (`index_table.py`)
    recorders.py      the recorders;  subscription.py follows one
    factory.py        makes them from environment variables
    faults.py         translates errors
    conversations.py  conversations as notifications, read only
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
