"""What an appender hands to the log: items, their size, times and digest, and an append on its way.

Deciding is `deciding.py`, keeping the state true `appender.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

import msgspec

from eventlog import events as ev
from eventlog.codec import Item, pack
from eventlog.deltas import DeltaRun
from eventlog.errors import EventlogError, LimitError
from eventlog.log.base import Committed, Ticket

__all__ = [
    "MAX_APPEND_BYTES",
    "Accepted",
    "Flight",
    "content_digest",
    "count_of",
    "first_time",
    "last_time",
    "limit_bodies",
    "rebase",
]

MAX_APPEND_BYTES = 256 * 1024 * 1024
"""Largest append, in bytes of its encoded events and packed bodies."""


class Accepted:
    """What one command had accepted: it goes in whole or not at all, under the lease epoch it was decided under.

    `owned`: somebody waits for it and will look at `error`.  `settled`: the outcome is known.
    """

    __slots__ = ("bodies", "epoch", "error", "items", "owned", "settled")

    def __init__(self, items: list[Item], bodies: Mapping[bytes, bytes] | None, epoch: int, *, owned: bool) -> None:
        self.items = items
        self.bodies = bodies or {}
        self.epoch = epoch
        self.owned = owned
        self.settled = False
        self.error: EventlogError | None = None


class Flight:
    """An append that was handed over: `accepted` is what of it nobody waits for at its ticket.

    `waited`: it has more items, whose caller waits for the ticket and will be told there if it fails.
    """

    __slots__ = ("accepted", "digest", "first", "last", "request", "ticket", "waited")

    def __init__(self, first: int, last: int, ticket: Ticket, accepted: list[Accepted]) -> None:
        self.first = first
        self.last = last
        self.ticket = ticket
        self.accepted = accepted
        self.request: str | None = None
        self.digest = b""
        self.waited = False

    def wait(self, timeout: float | None = None) -> Committed:
        """Block until the outcome is known; raises what went wrong."""
        return self.ticket.wait(timeout)


def limit_bodies(bodies: Mapping[bytes, bytes] | None) -> None:
    """Raise `LimitError` for more bodies than an append may carry."""
    size = sum(map(len, bodies.values())) if bodies else 0
    if size > MAX_APPEND_BYTES // 2:
        raise LimitError("bytes of the bodies of one append", size, MAX_APPEND_BYTES // 2)


def content_digest(items: Sequence[tuple[int, ev.Event]]) -> bytes:
    """The digest of what a request asks for: its events without their times."""
    return sha256(b"".join(pack(event) for _, event in items)).digest()


def first_time(item: Item) -> int:
    """The time of an item, a run's first."""
    return item.start if isinstance(item, DeltaRun) else item[0]


def last_time(item: Item) -> int:
    """The time of an item, a run's last."""
    return item.last_time() if isinstance(item, DeltaRun) else item[0]


def rebase(item: Item, time: int) -> Item:
    """The item with a run's times counted from the batch's `time`."""
    return msgspec.structs.replace(item, start=item.start - time) if isinstance(item, DeltaRun) else item


def count_of(items: Iterable[Item]) -> int:
    """How many events there are in some items."""
    return sum(item.count if isinstance(item, DeltaRun) else 1 for item in items)
