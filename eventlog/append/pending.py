"""What an appender hands to the log: items, their size, times and digest, and an append on its way.

Deciding is `state/decide.py`, keeping the state true `appender.py`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from eventlog import events as ev
from eventlog.codec.batch import Batch, Item, pack
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import BusyError, LimitError, RefusedError
from eventlog.history.catalog import ON_CARD, Card, evolve_card
from eventlog.log.contract import Append, Committed, Log, Ticket
from eventlog.state.decide import require_items

__all__ = [
    "MAX_APPEND_BYTES",
    "Accepted",
    "Flight",
    "Load",
    "Unsure",
    "content_digest",
    "count_of",
    "first_time",
    "limit_bodies",
]

MAX_APPEND_BYTES = 256 * 1024 * 1024
"""Largest append, in bytes of its encoded events and packed bodies."""
_MESSAGES = frozenset((ev.UserMessageAdded, ev.AssistantMessageStarted))


class Accepted(msgspec.Struct, eq=False):
    """What one command had accepted: it goes in whole or not at all, under the lease epoch it was decided under."""

    items: list[Item]
    bodies: Mapping[bytes, bytes]
    epoch: int
    owned: bool
    """Somebody waits for it and will look at `error`."""
    settled: bool = False
    """The outcome is known."""
    error: Exception | None = None
    """Why it is not committed, and will not be."""


class Load:
    """What one append will carry: gathered in one walk from what was accepted and what was decided just now.

    `entries` are its items, runs counted from `start`, the time of the first; `events` those that are no deltas; `card` the
    session's card after them.
    """

    __slots__ = ("bodies", "card", "count", "entries", "events", "last_time", "messages", "start")

    def __init__(self, accepted: Sequence[Accepted], decided: Sequence[Item], card: Card) -> None:
        self.bodies: dict[bytes, bytes] = {}
        items: list[Item] = []
        for group in accepted:
            items += group.items
            if group.bodies:
                self.bodies.update(group.bodies)
        items += decided
        if not items:
            raise RefusedError("an append of no events", expected="at least one event")
        self.start = start = first_time(items[0])
        self.entries: list[Item] = items
        self.events: list[ev.Event] = []
        self.count = len(items)
        self.messages = 0
        times: list[int] = []
        for place, item in enumerate(items):
            if isinstance(item, DeltaRun):
                self.count += item.count - 1
                times.append(item.last_time())
                items[place] = msgspec.structs.replace(item, start=item.start - start)
                continue
            time, event = item
            times.append(time)
            self.events.append(event)
            kind = type(event)
            if kind in ON_CARD:
                card = evolve_card(card, event)
            elif kind in _MESSAGES:
                self.messages += 1
        self.last_time = max(times)
        self.card = card


class Unsure:
    """The ticket of an append while it is handed over: an interrupt may break that off, and then the log is asked for it."""

    def __init__(self, log: Log, append: Append, certain: int) -> None:
        self._log = log
        self._append = append
        self._certain = certain

    def done(self) -> bool:
        """Nothing is to come: what there is to know can be looked up."""
        return True

    def failed(self) -> bool:
        """Nothing is built on it."""
        return True

    def wait(self, timeout: float | None = None) -> Committed:
        """Look it up behind everything that was handed over; `BusyError` if it is not there."""
        del timeout
        self._log.sync()
        append = self._append
        mine = append.payload, append.count, append.time, append.epoch
        for commit in self._log.read(append.session, self._certain):
            if (commit.payload, commit.count, commit.time, commit.epoch) == mine:
                return Committed(append.session, commit.first, commit.last, commit.position)
        raise BusyError(f"session {append.session}: an append was interrupted before it was handed over")

    def __await__(self) -> Generator[Any, Any, Committed]:
        """The same."""
        yield from ()
        return self.wait()


class Flight(msgspec.Struct, eq=False):
    """An append that was handed over: `accepted` is what of it nobody waits for at its ticket."""

    first: int
    last: int
    ticket: Ticket
    accepted: list[Accepted]
    request: str | None = None
    digest: bytes = b""
    batch: Batch | None = None
    """What it holds; nothing when that is too much to be kept."""
    epoch: int = 0
    position: int = 0
    """Position of its first event, once it is known to be committed at the versions it was decided for."""

    def landed(self) -> bool:
        """Whether it is committed, and at the versions it was decided for."""
        if not self.position and self.ticket.done() and not self.ticket.failed():
            self.wait()
        return self.position > 0

    def wait(self, timeout: float | None = None) -> Committed:
        """Block until the outcome is known; raises what went wrong."""
        committed = self.ticket.wait(timeout)
        if committed.first == self.first:
            self.position = committed.position
        return committed


def limit_bodies(bodies: Mapping[bytes, bytes]) -> int:
    """How many bytes the bodies have; `LimitError` if they are more than an append may carry."""
    size = sum(map(len, bodies.values()))
    if size > MAX_APPEND_BYTES // 2:
        raise LimitError("bytes of the bodies of one append", size, MAX_APPEND_BYTES // 2)
    return size


def content_digest(items: Sequence[tuple[int, ev.Event]]) -> bytes:
    """The digest of what a request asks for: its events without their times."""
    try:
        return sha256(b"".join(pack(event) for _, event in items)).digest()
    except (TypeError, ValueError, OverflowError, RecursionError):
        require_items(items)
        raise


def first_time(item: Item) -> int:
    """The time of an item, a run's first."""
    return item.start if isinstance(item, DeltaRun) else item[0]


def count_of(items: Iterable[Item]) -> int:
    """How many events there are in some items."""
    return sum(item.count if isinstance(item, DeltaRun) else 1 for item in items)
