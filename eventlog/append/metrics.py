"""Counters of a store's own work: numbers only, never a word of a conversation.

The counters are plain integers, updated without a lock; under threads they may run a little behind.
"""

from __future__ import annotations

import msgspec


class Metrics(msgspec.Struct):
    """Counts since the store was opened.  `Store.metrics` gives a copy."""

    appends: int = 0
    """Appends handed to the log."""
    events: int = 0
    """Events in them, deltas included."""
    payload_bytes: int = 0
    """Their encoded events."""
    body_bytes: int = 0
    """Their packed bodies, before the log left out those it had."""
    waits: int = 0
    """Waits of callers for durable commands."""
    wait_nanoseconds: int = 0
    flushes: int = 0
    """Background flushes that had something to do."""
    flush_nanoseconds: int = 0
    leases_taken: int = 0
    settled: int = 0
    """Sessions whose open work a dead owner had left, closed here."""
    resyncs: int = 0
    """Times a session's state was read again, behind another writer or a failure."""
    failures: int = 0
    """Appends that failed."""
    leases_lost: int = 0
    """Appends among them that came after another owner took the lease."""
    refusals: int = 0
    """Commands that ended with an error of this package."""
