"""Counters of a store's own work: numbers only, never a word of a conversation.

The counters are plain integers, updated without a lock; under threads they may run a little behind.
"""

from __future__ import annotations

import msgspec


class Metrics(msgspec.Struct):
    """Counts since the store was opened.  `Store.metrics` gives a copy.

    * `appends`: appends handed to the log.
    * `events`: events in them, deltas included.
    * `payload_bytes`: bytes of these events, encoded.
    * `body_bytes`: bytes of their large texts and files, packed; the log leaves out those it has.
    * `waits`: times that a caller waited until a command was durable.
    * `wait_nanoseconds`: how long callers waited; a slow disk or server makes a wait long.
    * `flushes`: times that the store's thread had accepted deltas to make durable.
    * `flush_nanoseconds`: how long that took.
    * `leases_taken`: times that a task began to run a session.
    * `settled`: sessions whose open work a dead or former owner had left, closed here.
    * `resyncs`: times that a session's state was read again, after another writer or a failure.
    * `failures`: appends that failed; those that lost a race for a name or a version count, too.
    * `leases_lost`: appends among them that came after another owner took the lease.
    * `refusals`: commands that ended with an error of this package, wrong calls included.
    """

    appends: int = 0
    events: int = 0
    payload_bytes: int = 0
    body_bytes: int = 0
    waits: int = 0
    wait_nanoseconds: int = 0
    flushes: int = 0
    flush_nanoseconds: int = 0
    leases_taken: int = 0
    settled: int = 0
    resyncs: int = 0
    failures: int = 0
    leases_lost: int = 0
    refusals: int = 0
