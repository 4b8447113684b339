"""Accepted commands, and the append that takes some of them to the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from eventlog import events as ev
from eventlog.append.lease_claim import LeaseClaim, LeaseStatus
from eventlog.codec.batch import Batch, Entry, Item, encode_batch, encode_value
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import LimitError
from eventlog.events import SCHEMA
from eventlog.history.catalog import CATALOG_EVENTS, QUIET_EVENTS, CatalogEntry, evolve_entry
from eventlog.log.commit import Append, Committed, LeaseState, Ticket
from eventlog.state.committed import CommittedState
from eventlog.state.decide import require_items
from eventlog.state.state import State

__all__ = [
    "MAX_APPEND_BYTES",
    "AcceptedCommand",
    "PendingAppend",
    "Terms",
    "Unit",
    "content_digest",
    "count_of",
    "limit_bodies",
]

MAX_APPEND_BYTES = 256 * 1024 * 1024
"""Largest append, in bytes of its encoded events and packed bodies."""
_NO_ENTRY = CatalogEntry()
_NO_EVENTS = Batch(SCHEMA, 0, False, [])


class Terms(msgspec.Struct, frozen=True):
    """The terms under which a command has an append of its own, as in `commit.Append`.

    `expected` is the caller's: the command is not decided anew where the session is elsewhere.
    """

    request: str | None = None
    digest: bytes = b""
    expected: int | None = None
    creates_at: int | None = None

    @property
    def is_conditional(self) -> bool:
        """Whether the append must not go in behind one that another writer commits meanwhile."""
        return self.expected is not None or self.creates_at is not None


_NO_TERMS = Terms()


class AcceptedCommand(msgspec.Struct, eq=False):
    """The events of one command, appended whole or not at all."""

    items: list[Item]
    bodies: Mapping[bytes, bytes] | None
    epoch: int
    weight: int = 0
    """Bytes of its bodies and characters of its deltas."""
    owned: bool = False
    """Whether a caller waits for it, and hears of its outcome."""
    unit: Unit | None = None
    """Its pipeline's commands."""
    terms: Terms | None = None
    returns_lease: bool = False
    """Whether it is the last command under its lease, which goes back with it."""
    messages: int = 0
    """By how much it changes the number of visible messages."""
    outcome: Committed | Exception | None = None
    """The append it went in with, or why it is not committed and will not be."""
    certain: int = 0
    """Version up to which all was committed when it was decided first."""

    def deltas(self) -> tuple[int, int]:
        """Return how many deltas it has, and their characters."""
        runs = [item for item in self.items if isinstance(item, DeltaRun)]
        return sum(run.count for run in runs), sum(len(run.text) for run in runs)

    def visible_before(self, state: State) -> int:
        """Return how many messages of the session are visible before it: none before it begins."""
        return 0 if self.terms is not None and self.terms.creates_at is not None else state.visible


class Unit(msgspec.Struct, eq=False):
    """The commands of one pipeline: all of them go in, or none does."""

    commands: list[AcceptedCommand] = []
    """The commands accepted so far."""
    parts: set[str] = set()
    """The parts they start, whose deltas go in with them."""


class PendingAppend(msgspec.Struct, eq=False):
    """The append that is on its way: its commands, and what it makes of the session."""

    commands: list[AcceptedCommand]
    append: Append | None = None
    first: int = 0
    """Version of its first event, if no other writer comes between."""
    last: int = 0
    entry: CatalogEntry = _NO_ENTRY
    batch: Batch = _NO_EVENTS
    claim: LeaseClaim | None = None
    """The lease whose record goes in with it."""
    ticket: Ticket | None = None
    """None until the log has it: an interrupt may come between."""
    outcome: Committed | Exception | None = None
    is_retried_later: bool = False
    """Whether it failed, and some of its commands are tried again, once that may work."""

    def events(self) -> Iterator[tuple[int, ev.Event]]:
        """Yield its events with their versions, deltas left out."""
        version = self.first
        for entry in self.batch.entries:
            if isinstance(entry, DeltaRun):
                version += entry.count
            else:
                yield version, entry.event
                version += 1

    @property
    def is_conditional(self) -> bool:
        """Whether it is to go in as it is decided, or not at all."""
        terms = self.commands[0].terms
        return terms is not None and terms.is_conditional

    def is_done(self) -> bool:
        """Return whether there is an outcome, or one can be found out at once."""
        return self.outcome is not None or self.ticket is None or self.ticket.done()

    def wait(self) -> None:
        """Block until the outcome is known."""
        if self.outcome is None and self.ticket is not None:
            try:
                self.outcome = self.ticket.wait()
            except Exception as error:
                if not self.ticket.done():
                    raise  # a signal handler waits inside this thread's own commit, whose outcome is to come
                self.outcome = error

    async def waited(self) -> None:
        """Wait as `wait` does, without blocking the event loop."""
        if self.outcome is None and self.ticket is not None:
            try:
                self.outcome = await self.ticket
            except Exception as error:  # noqa: BLE001 - the writer raises it to those who wait for the commands
                self.outcome = error

    def prepare(
        self, committed: CommittedState, last: int, claim: LeaseClaim | None, record: LeaseState | None
    ) -> Append:
        """Make one append of the commands, decided up to version `last`, with a lease record."""
        commands, entry = self.commands, committed.entry
        first = commands[0].items[0]
        start = first.start if isinstance(first, DeltaRun) else first[0]
        entries: list[Entry | DeltaRun] = []
        events: list[ev.Event] = []
        finish: ev.MessageFinished | None = None
        bodies: dict[bytes, bytes] = {}
        last_time, count, messages, epoch = start, 0, committed.uncounted, 0
        for command in commands:
            messages += command.messages
            if command.epoch:
                epoch = command.epoch
            if command.bodies:
                bodies.update(command.bodies)
            for item in command.items:
                if isinstance(item, DeltaRun):
                    count += item.count
                    time = item.last_time()
                    entries.append(item if item.start == 0 == start else replace(item, start=item.start - start))
                else:
                    count += 1
                    time, event = item
                    entries.append(Entry(time - start, event))
                    events.append(event)
                    kind = type(event)
                    if kind in CATALOG_EVENTS:
                        entry = evolve_entry(entry, event)
                    elif isinstance(event, ev.MessageFinished):
                        finish = event
                last_time = max(last_time, time)
        quiet = len(events) == count and QUIET_EVENTS.issuperset(map(type, events))
        if quiet:
            forgets = any(type(event) is ev.RecordForgotten for event in events)  # perhaps the answer
            is_answered = entry.answered == last - count > 0 and not forgets
        else:
            state = committed.state
            is_answered = finish is not None and state.version == last and state.is_answered_by(finish)
        if is_answered:
            entry = replace(entry, answered=last)
        self.batch = Batch(SCHEMA, start, False, entries, messages)
        payload = encode_batch(self.batch)
        size = len(payload) + (sum(map(len, bodies.values())) if bodies else 0)
        if size > MAX_APPEND_BYTES:
            raise LimitError("bytes of an append", size, MAX_APPEND_BYTES)
        terms = commands[0].terms
        new_entry = entry is not committed.entry
        replaces = None
        if claim is not None and record is not None:
            self.claim, epoch = claim, record.epoch
            replaces = claim.replaces if claim.status is LeaseStatus.CLAIMED else None
        terms = terms or _NO_TERMS
        self.first, self.last, self.entry = last - count + 1, last, entry
        self.append = Append(
            session=committed.session,
            payload=payload,
            count=count,
            time=last_time,
            quiet=quiet,
            messages=messages,
            entry=encode_value(entry) if new_entry or terms.creates_at is not None else None,
            bodies=tuple(bodies.items()),
            creates_at=terms.creates_at,
            expected=None if terms.creates_at is not None else last - count,
            epoch=epoch,
            lease=record,
            replaces=replaces,
            request=terms.request,
            digest=terms.digest,
        )
        return self.append


def limit_bodies(bodies: Mapping[bytes, bytes]) -> int:
    """Return the size of the bodies in bytes; `LimitError` above what an append may carry."""
    size = sum(map(len, bodies.values()))
    if size > MAX_APPEND_BYTES // 2:
        raise LimitError("bytes of the bodies of one append", size, MAX_APPEND_BYTES // 2)
    return size


def content_digest(items: Sequence[tuple[int, ev.Event]]) -> bytes:
    """Return the digest of what a request asks for: its events without their times."""
    try:
        return sha256(b"".join(encode_value(event) for _, event in items)).digest()
    except (TypeError, ValueError, OverflowError, RecursionError):
        require_items(items)
        raise


def count_of(items: Iterable[Item]) -> int:
    """Return the number of events in some items."""
    return sum(item.count if isinstance(item, DeltaRun) else 1 for item in items)
