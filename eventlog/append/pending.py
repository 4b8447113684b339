"""Accepted commands, and the append that takes some of them to the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

import msgspec

from eventlog import events as ev
from eventlog.append.conflicts import ConflictCheck
from eventlog.codec.batch import Batch, Entry, Item, encode_batch, pack
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import LimitError
from eventlog.events import SCHEMA
from eventlog.history.catalog import CATALOG_EVENTS, CatalogEntry, evolve_entry
from eventlog.log.contract import Append, Committed, LeaseState, Ticket
from eventlog.state.committed import CommittedState
from eventlog.state.decide import require_items

__all__ = [
    "MAX_APPEND_BYTES",
    "AcceptedCommand",
    "LeaseWrite",
    "PendingAppend",
    "Terms",
    "append_of",
    "content_digest",
    "count_of",
    "limit_bodies",
]

MAX_APPEND_BYTES = 256 * 1024 * 1024
"""Largest append, in bytes of its encoded events and packed bodies."""
_MESSAGES = frozenset((ev.UserMessageAdded, ev.AssistantMessageStarted))


class Terms(msgspec.Struct, frozen=True):
    """Under which terms a command has an append of its own; each as in `contract.Append`."""

    request: str | None = None
    digest: bytes = b""
    expected: int | None = None
    creates_at: int | None = None

    @property
    def is_conditional(self) -> bool:
        """Whether the append may not go in behind what another writer has appended meanwhile."""
        return self.expected is not None or self.creates_at is not None


class AcceptedCommand(msgspec.Struct, eq=False):
    """What one command appends: it goes in whole or not at all.

    It goes in under the lease epoch that it was decided under.
    """

    items: list[Item]
    bodies: Mapping[bytes, bytes] | None
    epoch: int
    weight: int = 0
    """Bytes of its bodies and characters of its deltas."""
    owned: bool = False
    """A caller waits for it and will look at `error`."""
    unit: object = None
    """Commands of one pipeline share it: all of them go in or none does."""
    terms: Terms | None = None
    tries: int = 0
    """How often it was decided anew because another writer came between."""
    settled: bool = False
    """The outcome is known."""
    error: Exception | None = None
    """Why it is not committed, and will not be."""
    result: Committed | None = None
    """What became of it, if it had an append of its own."""
    lease_write: LeaseWrite | None = None
    """What it does to the lease."""


class LeaseWrite(msgspec.Struct, eq=False):
    """A lease record that goes in with the next append."""

    state: LeaseState
    replaces: LeaseState | None
    """Given where the lease is taken."""
    claim: LeaseWrite | None = None
    """What takes the lease that this gives back, if that was not written when this was made."""
    written: bool = False
    refused: bool = False
    final: bool = False
    """Whether the block that held the lease has ended: then the lease is given back all the same."""

    @property
    def unwritten_claim(self) -> LeaseWrite | None:
        """What takes the lease, if that is not written yet: it goes in with this."""
        if self.replaces is not None:
            return self
        return None if self.claim is None or self.claim.written else self.claim


class PendingAppend(msgspec.Struct, eq=False):
    """The append that is on its way: its commands, and what it makes of the session."""

    append: Append
    commands: list[AcceptedCommand]
    first: int
    """Version of its first event, if no other writer comes between."""
    last: int
    entry: CatalogEntry
    batch: Batch
    lease: LeaseWrite | None
    ticket: Ticket | None = None
    """None until the log has it: an interrupt may come between."""
    position: int = 0
    """Position of its first event, once it is committed."""
    result: Committed | None = None
    """The outcome, once a waiter has learnt it …"""
    error: Exception | None = None
    """… or what the log raised."""
    told: bool = False
    """Whether its commands have been told of that."""

    def is_done(self) -> bool:
        """Whether there is an outcome, or something is to be found out."""
        return self.result is not None or self.error is not None or self.ticket is None or self.ticket.done()

    def wait(self) -> Exception | None:
        """Block until the outcome is known; returns what the log raised."""
        if self.result is None and self.error is None:
            assert self.ticket is not None
            try:
                self.result = self.ticket.wait()
            except Exception as error:  # noqa: BLE001 - the writer tells it to those who wait
                self.error = error
        return self.error

    async def waited(self) -> Exception | None:
        """Wait as `wait` does, without blocking the event loop."""
        if self.result is None and self.error is None:
            assert self.ticket is not None
            try:
                self.result = await self.ticket
            except Exception as error:  # noqa: BLE001 - the writer tells it to those who wait
                self.error = error
        return self.error


def append_of(
    committed: CommittedState, commands: list[AcceptedCommand], last: int, lease: LeaseWrite | None
) -> PendingAppend:
    """Put commands, decided up to version `last`, into one append."""
    session, certain, entry = committed.session, committed.certain, committed.entry
    first = commands[0].items[0]
    start = first.start if isinstance(first, DeltaRun) else first[0]
    entries: list[Entry | DeltaRun] = []
    events: list[ev.Event] = []
    bodies: dict[bytes, bytes] = {}
    last_time, count, messages, epoch = start, 0, 0, 0
    for command in commands:
        if command.epoch:
            epoch = command.epoch
        if command.bodies:
            bodies.update(command.bodies)
        for item in command.items:
            if isinstance(item, DeltaRun):
                count += item.count
                time = item.last_time()
                entries.append(
                    item if item.start == 0 == start else msgspec.structs.replace(item, start=item.start - start)
                )
            else:
                count += 1
                time, event = item
                entries.append(Entry(time - start, event))
                events.append(event)
                kind = type(event)
                if kind in CATALOG_EVENTS:
                    entry = evolve_entry(entry, event)
                elif kind in _MESSAGES:
                    messages += 1
            last_time = max(last_time, time)
    batch = Batch(SCHEMA, start, False, entries)
    payload = encode_batch(batch)
    size = len(payload) + (sum(map(len, bodies.values())) if bodies else 0)
    if size > MAX_APPEND_BYTES:
        raise LimitError("bytes of an append", size, MAX_APPEND_BYTES)
    terms = commands[0].terms
    free = terms is None or not terms.is_conditional
    terms = terms or _NO_TERMS
    new_entry = entry is not committed.entry
    append = Append(
        session=session,
        payload=payload,
        count=count,
        time=last_time,
        messages=messages,
        entry=pack(entry) if new_entry or terms.creates_at is not None else None,
        bodies=tuple(bodies.items()),
        creates_at=terms.creates_at,
        expected=terms.expected,
        seen=certain if free else None,
        check=ConflictCheck(session, certain, events, leased=epoch > 0, entry=new_entry and entry != committed.entry)
        if free
        else None,
        epoch=epoch if lease is None else lease.state.epoch,
        lease=None if lease is None else lease.state,
        replaces=None if lease is None or (claim := lease.unwritten_claim) is None else claim.replaces,
        request=terms.request,
        digest=terms.digest,
    )
    return PendingAppend(append, commands, last - count + 1, last, entry, batch, lease)


_NO_TERMS = Terms()


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


def count_of(items: Iterable[Item]) -> int:
    """How many events there are in some items."""
    return sum(item.count if isinstance(item, DeltaRun) else 1 for item in items)
